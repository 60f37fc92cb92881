// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package tree reads, copies and compares the JSON of objects whose types may be newer than the operator. Whole numbers are int64.
package tree

import (
	"math"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
)

// Map is the map at a path. It is nil when there is none.
func Map(from map[string]any, path ...string) map[string]any {
	for _, key := range path {
		from, _ = from[key].(map[string]any)
	}
	return from
}

// Text is the text at a path. It is empty when there is none.
func Text(from map[string]any, path ...string) string {
	value, _ := leaf(from, path).(string)
	return value
}

// Items are the maps in the list at a path. Other items are left out.
func Items(from map[string]any, path ...string) []map[string]any {
	list, _ := leaf(from, path).([]any)
	var items []map[string]any
	for _, value := range list {
		if item, ok := value.(map[string]any); ok {
			items = append(items, item)
		}
	}
	return items
}

// Number is the whole number at a path.
func Number(from map[string]any, path ...string) (int64, bool) {
	switch value := leaf(from, path).(type) {
	case int64:
		return value, true
	case float64:
		return int64(value), value == math.Trunc(value)
	}
	return 0, false
}

func leaf(from map[string]any, path []string) any {
	last := len(path) - 1
	return Map(from, path[:last]...)[path[last]]
}

// Set puts a value at a path. Missing maps are made; nil removes, together with maps that become empty.
func Set(to map[string]any, value any, path ...string) {
	if len(path) == 1 {
		if to[path[0]] = value; value == nil {
			delete(to, path[0])
		}
		return
	}
	next := Map(to, path[0])
	if next == nil {
		if value == nil {
			return
		}
		next = map[string]any{}
		to[path[0]] = next
	}
	if Set(next, value, path[1:]...); value == nil && len(next) == 0 {
		delete(to, path[0])
	}
}

// List is a list of maps as it stands in an object.
func List(items []map[string]any) []any {
	list := make([]any, len(items))
	for i := range items {
		list[i] = items[i]
	}
	return list
}

// Clone copies an object.
func Clone(from map[string]any) map[string]any { return runtime.DeepCopyJSON(from) }

// Same compares two values.
func Same(a, b any) bool { return reflect.DeepEqual(a, b) }

// Texts are the texts of a map, such as labels.
func Texts(from map[string]any, path ...string) map[string]string {
	all := map[string]string{}
	for key, value := range Map(from, path...) {
		if text, ok := value.(string); ok {
			all[key] = text
		}
	}
	return all
}

// FromTexts is the opposite of Texts, as a value for Set; nil when there are none.
func FromTexts(from map[string]string) any {
	if len(from) == 0 {
		return nil
	}
	all := make(map[string]any, len(from))
	for key, value := range from {
		all[key] = value
	}
	return all
}
