// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// OfObject are the conditions in a stored object's status, of whatever kind, without times. Other
// entries have the empty type. It copies nothing.
func OfObject(stored map[string]any) iter.Seq[Condition] {
	return func(yield func(Condition) bool) {
		field, _, _ := unstructured.NestedFieldNoCopy(stored, "status", "conditions")
		list, _ := field.([]any)
		for _, entry := range list {
			fields, _ := entry.(map[string]any)
			text := func(key string) string { value, _ := fields[key].(string); return value }
			c := Condition{Type: text("type"), Status: corev1.ConditionStatus(text("status")), Reason: text("reason"), Message: text("message")}
			if !yield(c) {
				return
			}
		}
	}
}

// True returns the condition of a type in the status of an object as it is stored, if it is there and is True.
func True[T ~string](stored map[string]any, kind T) (Condition, bool) {
	for c := range OfObject(stored) {
		if c.Type == string(kind) && c.Status == corev1.ConditionTrue {
			return c, true
		}
	}
	return Condition{}, false
}
