// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package convert converts PersistentPodStates between their versions.
package convert

import (
	"encoding/json"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/conversion"
)

// Converter converts PersistentPodStates: the lists of keys have another name in v1alpha1.
func Converter() conversion.Converter {
	renaming := func(from, to string) func(*conversion.Object) error {
		return func(o *conversion.Object) error { return rename(o.Spec, from, to) }
	}
	return conversion.Converter{
		GroupKind:  v1beta1.GroupVersion().WithKind("PersistentPodState").GroupKind(),
		ToV1alpha1: renaming("keys", "nodeTopologyKeys"), FromV1alpha1: renaming("nodeTopologyKeys", "keys"),
	}
}

func rename(spec conversion.Members, from, to string) error {
	err := conversion.Edit(spec, "requiredPersistentTopology", func(term map[string]any) bool { return renameIn(term, from, to) })
	if err != nil {
		return err
	}
	return editEach(spec, "preferredPersistentTopology", func(item map[string]any) bool {
		preference, isObject := item["preference"].(map[string]any)
		return isObject && renameIn(preference, from, to)
	})
}

// renameIn keeps what the schema of neither version has.
func renameIn(term map[string]any, from, to string) bool {
	keys, found := term[from]
	if !found {
		return false
	}
	delete(term, from)
	term[to] = keys
	return true
}

// editEach changes the objects in a list. A list with too many members stays as it is.
func editEach(in conversion.Members, name string, change func(map[string]any) bool) error {
	value, _ := conversion.Tree(in[name])
	items, isList := value.([]any)
	changed := false
	for _, item := range items {
		if members, isObject := item.(map[string]any); isObject && change(members) {
			changed = true
		}
	}
	if !isList || !changed {
		return nil
	}
	text, err := json.Marshal(items)
	in[name] = text
	return err
}
