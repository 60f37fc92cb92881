// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package hooks

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// holds reports whether an object has the wanted labels, owners and spec.
func holds(want, have *unstructured.Unstructured) bool {
	for key, value := range want.GetLabels() {
		if have.GetLabels()[key] != value {
			return false
		}
	}
	return equality.Semantic.DeepEqual(want.GetOwnerReferences(), have.GetOwnerReferences()) && says(want.Object["spec"], have.Object["spec"])
}

// says compares contents. Only defaults may exceed the wanted: words and empty selectors, filled in by the API server.
func says(want, have any) bool {
	switch want := want.(type) {
	case map[string]any:
		have, is := have.(map[string]any)
		if !is {
			return false
		}
		for key, value := range want {
			if !says(value, have[key]) {
				return false
			}
		}
		for key, value := range have {
			if _, wanted := want[key]; !wanted && !filledIn(value) {
				return false
			}
		}
		return true
	case []any:
		have, is := have.([]any)
		if !is || len(have) != len(want) {
			return false
		}
		for i := range want {
			if !says(want[i], have[i]) {
				return false
			}
		}
		return true
	default:
		return equality.Semantic.DeepEqual(want, have)
	}
}

func filledIn(value any) bool {
	switch value := value.(type) {
	case string:
		return true
	case map[string]any:
		return len(value) == 0
	default:
		return value == nil
	}
}
