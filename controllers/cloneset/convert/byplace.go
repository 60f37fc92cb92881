// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	kjson "sigs.k8s.io/json"

	"github.com/kruise-operator/kruise-operator/internal/conversion"
)

// placed is a value that is converted by its place alone: it is in the other version as it is, at path.
//
// Values that our types cannot decode are converted so. The API server converts what a client sends before it looks at the schema, and
// what is stored for every list. If conversion refused, the client would get an internal error, and one stored object would hide all others.
// As it is, the schema or the validator refuses the value, by the name that the client knows. Values that are very long are converted so,
// too: conversion comes before everything that limits them.
type placed struct {
	path  []string
	value json.RawMessage
}

// maxStored is more than an etcd takes of an object, in bytes, unless somebody allowed it more. What is longer comes from a client and may be refused.
const maxStored = 3 << 19

// counterpart says where the other version has the value of a path; false if it has none under that name.
type counterpart func(path []string) ([]string, bool)

// takeUndecodable takes the members of the strategies that From cannot decode out of the spec, each as a whole, and returns them with
// their places in the other version. Members that have no place there stay; decoding names them.
func takeUndecodable[From any](spec conversion.Members, elsewhere counterpart) ([]placed, error) {
	var found []placed
	for _, name := range converting() {
		if _, has := spec[name]; !has {
			continue
		}
		taken, err := takeMembers[From](spec, []string{conversion.SpecField, name}, elsewhere)
		if err != nil {
			return nil, err
		}
		found = append(found, taken...)
	}
	return found, nil
}

// takeMembers does so for the member of in that path ends with: as a whole if it is no object or has too many members, else member by
// member.
func takeMembers[From any](in conversion.Members, path []string, elsewhere counterpart) ([]placed, error) {
	name := path[len(path)-1]
	inner, isObject := conversion.MembersOf(in[name])
	if !isObject {
		if to, ok := elsewhere(path); ok && !decodes[From](path, in[name]) {
			value := in[name]
			delete(in, name)
			return []placed{{path: to, value: value}}, nil
		}
		return nil, nil
	}
	var found []placed
	for _, member := range slices.Sorted(maps.Keys(inner)) {
		path := append(slices.Clone(path), member)
		if strings.Join(path, ".") == "spec.updateStrategy.rollingUpdate" {
			taken, err := takeMembers[From](inner, path, elsewhere)
			if err != nil {
				return nil, err
			}
			found = append(found, taken...)
			continue
		}
		if to, ok := elsewhere(path); ok && !decodes[From](path, inner[member]) {
			found = append(found, placed{path: to, value: inner[member]})
			delete(inner, member)
		}
	}
	if len(found) == 0 {
		return nil, nil
	}
	left, err := json.Marshal(inner)
	in[name] = left
	return found, err
}

// decodes says whether From can decode the value at its path, and it is not too long for it. null leaves every field as it is.
func decodes[From any](path []string, value json.RawMessage) bool {
	if len(value) > conversion.MaxDecoded {
		return false
	}
	text := value
	for _, name := range slices.Backward(path) {
		wrapped, err := json.Marshal(conversion.Members{name: text})
		if err != nil {
			return false
		}
		text = wrapped
	}
	return kjson.UnmarshalCaseSensitivePreserveInts(text, new(From)) == nil
}

// put writes the value to its place in the members of an object.
func (p placed) put(in conversion.Members) error {
	at := p.path[0]
	if len(p.path) == 1 {
		in[at] = p.value
		return nil
	}
	var inner conversion.Members
	if text, found := in[at]; found {
		if err := json.Unmarshal(text, &inner); err != nil {
			return fmt.Errorf("keeping a value that cannot be decoded: %w", err)
		}
	}
	if inner == nil {
		inner = conversion.Members{}
	}
	if err := (placed{path: p.path[1:], value: p.value}).put(inner); err != nil {
		return err
	}
	text, err := json.Marshal(inner)
	in[at] = text
	return err
}

const (
	scaleField         = "scaleStrategy"
	updateField        = "updateStrategy"
	rollingUpdateField = "rollingUpdate"
)

// inV1beta1 is where v1beta1 has what a CloneSet of v1alpha1 has at path.
func inV1beta1(path []string) ([]string, bool) {
	switch whole := strings.Join(path, "."); {
	case whole == "spec.scaleStrategy.disablePVCReuse":
		return []string{conversion.SpecField, scaleField, "enablePVCReuse"}, true // what is neither true nor false has no opposite
	case len(path) == 3 && path[1] == updateField && path[2] != "type":
		return []string{conversion.SpecField, updateField, rollingUpdateField, path[2]}, true
	default:
		return path, inBoth(whole)
	}
}

// inV1alpha1 is where v1alpha1 has what a CloneSet of v1beta1 has at path.
func inV1alpha1(path []string) ([]string, bool) {
	switch whole := strings.Join(path, "."); {
	case whole == "spec.scaleStrategy.enablePVCReuse":
		return []string{conversion.SpecField, scaleField, "disablePVCReuse"}, true
	case len(path) == 4:
		return []string{conversion.SpecField, updateField, path[3]}, path[3] != "podUpdatePolicy"
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
