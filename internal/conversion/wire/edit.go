// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"

	jsonpatch "github.com/evanphx/json-patch/v5"
	kjson "sigs.k8s.io/json"
)

// Merge applies the change from before to after to raw, and nothing else: unknown fields,
// nulls and zero values stay as the client wrote them. It replaces lists as a whole.
func Merge(raw []byte, before, after any) ([]byte, error) {
	was, _ := json.Marshal(before) // both were decoded
	is, _ := json.Marshal(after)
	change, err := jsonpatch.CreateMergePatch(was, is)
	if err != nil {
		return nil, fmt.Errorf("comparing the objects: %w", err)
	}
	merged, err := jsonpatch.MergePatch(raw, change)
	if err != nil {
		return nil, fmt.Errorf("merging the change: %w", err)
	}
	return merged, nil
}

// Part is the part of an object with defaults: without status, most metadata and some
// fields of the spec.
type Part struct {
	Metadata struct {
		Labels json.RawMessage `json:"labels,omitempty"`
	} `json:"metadata"`
	// Spec is nil when the object has none.
	Spec map[string]json.RawMessage `json:"spec,omitzero"`
}

// PartOf returns the part of raw with the labels, and the spec without the named fields.
func PartOf(raw []byte, without ...string) (*Part, error) {
	part := &Part{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, part); err != nil {
		return nil, fmt.Errorf("decoding the spec: %w", err)
	}
	for _, name := range without {
		delete(part.Spec, name)
	}
	return part, nil
}

// With returns the part with the named fields of old's spec where its own are omitted or
// null. Fields it has, even empty, stay.
func (p *Part) With(old *Part, names ...string) *Part {
	result := &Part{Metadata: p.Metadata, Spec: maps.Clone(p.Spec)}
	for _, name := range names {
		if absent(p.Spec[name]) && !absent(old.Spec[name]) {
			if result.Spec == nil {
				result.Spec = map[string]json.RawMessage{}
			}
			result.Spec[name] = old.Spec[name]
		}
	}
	return result
}

func absent(value json.RawMessage) bool { return len(value) == 0 || string(value) == "null" }

// SameSpec is true if two objects have the same spec, apart from byte order and white
// space.
func SameSpec(a, b []byte) bool { return sameSpecs(a, b, sameFields) }

// SameSpecText is true if two specs are equal byte by byte. It decodes nothing.
func SameSpecText(a, b []byte) bool { return sameSpecs(a, b, bytes.Equal) }

func sameSpecs(a, b []byte, same func(x, y []byte) bool) bool {
	type object struct {
		Spec json.RawMessage `json:"spec"`
	}
	var x, y object
	if kjson.UnmarshalCaseSensitivePreserveInts(a, &x) != nil || kjson.UnmarshalCaseSensitivePreserveInts(b, &y) != nil {
		return false
	}
	if absent(x.Spec) || absent(y.Spec) {
		return absent(x.Spec) == absent(y.Spec)
	}
	return same(x.Spec, y.Spec)
}

// sameFields compares objects field by field and decodes only differing bytes: an update of
// a large object mostly changes few.
func sameFields(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var one, other map[string]json.RawMessage
	if kjson.UnmarshalCaseSensitivePreserveInts(a, &one) != nil || kjson.UnmarshalCaseSensitivePreserveInts(b, &other) != nil {
		return false
	}
	return maps.EqualFunc(one, other, func(x, y json.RawMessage) bool {
		if bytes.Equal(x, y) {
			return true
		}
		var v, w any
		return kjson.UnmarshalCaseSensitivePreserveInts(x, &v) == nil && kjson.UnmarshalCaseSensitivePreserveInts(y, &w) == nil && reflect.DeepEqual(v, w)
	})
}

const specField = "spec"
