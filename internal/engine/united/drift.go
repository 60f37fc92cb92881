// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/quantity"
)

// InSync says that a workload is as the next apply would make it. The last apply had no further field, and
// every field has its value. Additions of others do not matter.
func InSync(have, wanted *unstructured.Unstructured) bool {
	return SameApply(have, wanted) && contains(have.Object["spec"], wanted.Object["spec"]) &&
		hasAll(have.GetLabels(), wanted.GetLabels()) && hasAll(have.GetAnnotations(), wanted.GetAnnotations())
}

// SameApply says that the last apply to a workload equals the next one.
func SameApply(have, wanted *unstructured.Unstructured) bool {
	return have.GetAnnotations()[shared.AnnotationAppliedHash] == wanted.GetAnnotations()[shared.AnnotationAppliedHash]
}

// hasAll: labels or annotations have all wanted values. The server keeps these, empty ones, too.
func hasAll(have, wanted map[string]string) bool {
	return labels.SelectorFromSet(wanted).Matches(labels.Set(have))
}

// contains: the server's object has all wanted values. The server writes quantities in their
// shortest form, and nothing for empty values.
func contains(have, wanted any) bool {
	switch wanted := wanted.(type) {
	case map[string]any:
		object, ok := have.(map[string]any)
		if !ok {
			return have == nil && isEmpty(wanted)
		}
		for key, value := range wanted {
			if !contains(object[key], value) {
				return false
			}
		}
		return true
	case []any:
		list, ok := have.([]any)
		if !ok {
			return have == nil && isEmpty(wanted)
		}
		return listContains(list, wanted)
	default:
		return have == nil && isEmpty(wanted) || have == wanted || quantity.Same(have, wanted)
	}
}

// listContains compares lists of named objects by name, since others may add to these, and all others item by item.
func listContains(have, wanted []any) bool {
	byName := map[string]any{}
	for _, item := range have {
		if object, ok := item.(map[string]any); ok {
			if name, ok := object["name"].(string); ok {
				byName[name] = item
			}
		}
	}
	if len(byName) != len(have) && len(have) != len(wanted) {
		return false
	}
	for i, item := range wanted {
		var other any
		if object, ok := item.(map[string]any); ok && len(byName) == len(have) {
			name, _ := object["name"].(string)
			other = byName[name]
		} else if i < len(have) {
			other = have[i]
		}
		if other == nil || !contains(other, item) {
			return false
		}
	}
	return true
}

// isEmpty is a value that says nothing: the server leaves it out.
func isEmpty(value any) bool {
	switch value := value.(type) {
	case map[string]any:
		for _, inner := range value {
			if !isEmpty(inner) {
				return false
			}
		}
		return true
	case []any:
		return len(value) == 0
	}
	return value == nil || reflect.ValueOf(value).IsZero()
}
