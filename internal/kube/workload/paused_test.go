// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestPaused(t *testing.T) {
	for value, want := range map[string]bool{"true": true, "True": true, "1": true, "false": false, "": false, "yes": false} {
		object := &unstructured.Unstructured{}
		object.SetAnnotations(map[string]string{"operator.kruise.io/paused": value})
		if got := Paused(object); got != want {
			t.Errorf("%q pauses: %v", value, got)
		}
	}
	if Paused(&unstructured.Unstructured{}) {
		t.Error("without the annotation it is paused")
	}
}
