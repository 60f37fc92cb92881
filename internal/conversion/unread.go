// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package conversion

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kruise-operator/kruise-operator/internal/conversion/wire"
)

// unread is a value that our types cannot read, and the path where the other version has it.
type unread struct {
	path  []string
	value any
}

// counterpart says where the other version has the value of a path; false if it has none under that name.
type counterpart func(path []string) ([]string, bool)

// decode reads raw into a pointer to one of our types. Values that cannot be read are left out of it and returned, each with the whole
// member of the strategy that it is part of.
//
// Such a value is converted by its place alone. The API server converts what a client sends before it looks at the schema, and what is
// stored for every list. If conversion refused, the client would be told of an internal error, and one stored object would hide all others.
// As it is, the schema or the validator refuses the value, by the name that the client knows.
func decode(raw []byte, into any, elsewhere counterpart) ([]unread, error) {
	_, errs := wire.Decode(raw, into)
	if len(errs) == 0 {
		return nil, nil
	}
	object, err := parse(raw)
	if err != nil {
		return nil, err
	}
	var found []unread
	for _, e := range errs {
		path := memberOf(e.Field)
		to, ok := elsewhere(path)
		value, there, err := unstructured.NestedFieldNoCopy(object, path...)
		if !ok || !there || err != nil {
			return nil, errs.ToAggregate()
		}
		found = append(found, unread{path: to, value: value})
	}
	return found, nil
}

// encode writes an object, and the values that could not be read at their places in it.
func encode(object any, values []unread) ([]byte, error) {
	raw, err := json.Marshal(object)
	if err != nil || len(values) == 0 {
		return raw, err
	}
	members, err := parse(raw)
	if err != nil {
		return nil, err
	}
	for _, v := range values {
		if err := unstructured.SetNestedField(members, v.value, v.path...); err != nil {
			return nil, fmt.Errorf("keeping a value that cannot be read: %w", err)
		}
	}
	return json.Marshal(members)
}

// parse reads an object without changing its numbers.
func parse(raw []byte) (map[string]any, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var object map[string]any
	err := decoder.Decode(&object)
	return object, err
}

const (
	specField          = "spec"
	scaleField         = "scaleStrategy"
	updateField        = "updateStrategy"
	rollingUpdateField = "rollingUpdate"
)

// memberOf is the path of the member of a strategy in which a field is.
func memberOf(field string) []string {
	field, _, _ = strings.Cut(field, "[")
	path := strings.Split(field, ".")
	depth := 3
	if len(path) > 2 && path[1] == updateField && path[2] == rollingUpdateField {
		depth = 4
	}
	return path[:min(depth, len(path))]
}

// inV1beta1 is where v1beta1 has what a CloneSet of v1alpha1 has at path.
func inV1beta1(path []string) ([]string, bool) {
	switch whole := strings.Join(path, "."); {
	case whole == "spec.scaleStrategy.disablePVCReuse":
		return []string{specField, scaleField, "enablePVCReuse"}, true // what is neither true nor false has no opposite
	case len(path) == 3 && path[1] == updateField && path[2] != "type":
		return []string{specField, updateField, rollingUpdateField, path[2]}, true
	default:
		return path, inBoth(whole)
	}
}

// inV1alpha1 is where v1alpha1 has what a CloneSet of v1beta1 has at path.
func inV1alpha1(path []string) ([]string, bool) {
	switch whole := strings.Join(path, "."); {
	case whole == "spec.scaleStrategy.enablePVCReuse":
		return []string{specField, scaleField, "disablePVCReuse"}, true
	case len(path) == 4:
		return []string{specField, updateField, path[3]}, path[3] != "podUpdatePolicy"
	default:
		return path, inBoth(whole)
	}
}

// inBoth says that both versions have the same path.
func inBoth(path string) bool {
	return slices.Contains([]string{
		"spec.scaleStrategy", "spec.scaleStrategy.podsToDelete", "spec.scaleStrategy.maxUnavailable",
		"spec.updateStrategy", "spec.updateStrategy.type",
	}, path)
}
