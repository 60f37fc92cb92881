// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package subset

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/kruise-operator/kruise-operator/internal/quantity"
)

// Patched is an object with the strategic merge patch of a subset, as fields and in its type; what names it. The given fields may be changed by it.
func Patched[T any](fields, patch map[string]any, what string) (patched map[string]any, object *T, err error) {
	object = new(T)
	// The library panics now and then on an invalid patch.
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("the patch is no strategic merge patch of a %s: %v", what, cause)
		}
	}()
	patched, err = strategicpatch.StrategicMergeMapPatch(fields, runtime.DeepCopyJSON(patch), *object)
	if err != nil {
		return nil, nil, fmt.Errorf("the patch is no strategic merge patch of a %s: %w", what, err)
	}
	body, err := json.Marshal(patched)
	if err == nil {
		err = quantity.Unmarshal(body, object)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("the %s with the patch of the subset: %w", what, err)
	}
	return patched, object, nil
}
