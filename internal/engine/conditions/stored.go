// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"iter"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// From translates the conditions of a status. Their type has the fields of a Condition, or some of them, by the same names.
func From[T any](stored []T) []Condition {
	all := make([]Condition, len(stored))
	for i := range stored {
		move(reflect.ValueOf(&all[i]).Elem(), reflect.ValueOf(&stored[i]).Elem())
	}
	return all
}

// To is the list in the type of a status.
func To[T any](l *List) []T {
	var all []T
	for i := range l.after {
		var one T
		move(reflect.ValueOf(&one).Elem(), reflect.ValueOf(&l.after[i]).Elem())
		all = append(all, one)
	}
	return all
}

// move fills in the common fields.
func move(to, from reflect.Value) {
	for i := range to.NumField() {
		if field := from.FieldByName(to.Type().Field(i).Name); field.IsValid() {
			to.Field(i).Set(field.Convert(to.Field(i).Type()))
		}
	}
}

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
