// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package brake

import (
	"bytes"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/kruise-operator/kruise-operator/api/rollouts/shared"
)

// Update is Brake for an update in JSON. It returns the object as it came where nothing is to be done.
func Update(old, object []byte) ([]byte, error) {
	if !bytes.Contains(old, []byte(shared.AnnotationRollout)) {
		return object, nil
	}
	was, now := &unstructured.Unstructured{}, &unstructured.Unstructured{}
	if err := json.Unmarshal(old, &was.Object); err != nil {
		return nil, fmt.Errorf("decoding the stored workload: %w", err)
	}
	if err := json.Unmarshal(object, &now.Object); err != nil {
		return nil, fmt.Errorf("decoding the workload: %w", err)
	}
	before := now.DeepCopy()
	Brake(was, now)
	if reflect.DeepEqual(before.Object, now.Object) {
		return object, nil
	}
	return json.Marshal(now.Object)
}
