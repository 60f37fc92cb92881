// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kruise-operator/kruise-operator/internal/engine/traffic"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/tree"
)

// Object routes by an object of a kind that only the script knows.
type Object struct{ Run Run }

// Check implements traffic.Provider. Only the script knows.
func (Object) Check(traffic.Share, traffic.Names, *field.Path) field.ErrorList { return nil }

// Beside implements traffic.Provider.
func (Object) Beside(string, traffic.Names) string { return "" }

// Want implements traffic.Provider. The script always begins with the object as its user wants it.
func (o Object) Want(object, _ map[string]any, names traffic.Names, share traffic.Share) (traffic.Change, error) {
	if object == nil {
		return traffic.Change{}, nil
	}
	original, lost, err := o.recovered(object, names)
	if err != nil {
		return traffic.Change{}, err
	}
	if share.None() {
		return traffic.Change{Patch: tree.Patch(object, original), Corrected: lost}, nil
	}
	after, err := o.scripted(original, names, share)
	if err != nil {
		return traffic.Change{}, err
	}
	traffic.Store(after, original, share)
	return traffic.Change{Patch: tree.Patch(object, after), Corrected: lost}, nil
}

// Seen implements traffic.Provider.
func (Object) Seen(object, _ map[string]any) (traffic.Sight, string) {
	return traffic.Silent, tree.Text(object, "kind") + " does not say what is in force"
}

// data is what a script gets of an object.
func data(object map[string]any) map[string]any {
	spec := tree.Clone(tree.Map(object, "spec"))
	if spec == nil {
		spec = map[string]any{}
	}
	return map[string]any{
		"spec": spec, "labels": named(tree.Texts(object, "metadata", "labels")), "annotations": named(tree.Texts(object, "metadata", "annotations")),
	}
}

// named are texts as a script gets them: without any, it is an empty table.
func named(texts map[string]string) map[string]any {
	all, _ := tree.FromTexts(texts).(map[string]any)
	if all == nil {
		all = map[string]any{}
	}
	return all
}

// scripted is an object after its script.
func (o Object) scripted(original map[string]any, names traffic.Names, share traffic.Share) (map[string]any, error) {
	input := map[string]any{
		"data": data(original), "canaryWeight": int64(-1), "stableWeight": int64(100), "canaryService": names.Canary, "stableService": names.Stable,
	}
	if w := share.Weight; w != nil {
		input["canaryWeight"], input["stableWeight"] = int64(*w), int64(100-*w)
	}
	addShare(input, share)
	result, err := o.Run(input)
	if err != nil {
		return nil, traffic.Refuse("the script of %s: %v", tree.Text(original, "kind"), err)
	}
	if _, isMap := result["spec"].(map[string]any); !isMap {
		return nil, traffic.Refuse("the script of %s returned no spec", tree.Text(original, "kind"))
	}
	made := data(original)
	for key := range made {
		if value, isMap := result[key].(map[string]any); isMap {
			made[key] = value
		}
	}
	labels, err := texts(made["labels"].(map[string]any), "labels")
	if err != nil {
		return nil, err
	}
	annotations, err := texts(made["annotations"].(map[string]any), "annotations")
	if err != nil {
		return nil, err
	}
	return traffic.Rewritten(original, made["spec"], labels, annotations), nil
}

// recovered is an object as its user wants it. What he wrote over the script's own changes is lost.
func (o Object) recovered(object map[string]any, names traffic.Names) (original map[string]any, lost bool, err error) {
	before, found, err := traffic.Stored(object)
	if err != nil || !found {
		return tree.Clone(object), false, err
	}
	var note struct {
		Share *traffic.Share `json:"share"`
	}
	if json.Unmarshal([]byte(tree.Texts(object, "metadata", "annotations")[traffic.AnnotationOriginal]), &note) != nil || note.Share == nil {
		return before, false, nil // of OpenKruise
	}
	made, err := o.scripted(before, names, *note.Share)
	if err != nil {
		return nil, false, err
	}
	now := data(object)
	delete(now["annotations"].(map[string]any), traffic.AnnotationOriginal)
	m := &merge{}
	all, _ := m.values(data(made), data(before), now).(map[string]any)
	return traffic.Rewritten(before, all["spec"], tree.Texts(all, "labels"), tree.Texts(all, "annotations")), m.lost, nil
}

// merge takes what was changed from base to theirs over to mine.
type merge struct{ lost bool }

type absent struct{}

func (m *merge) values(base, mine, theirs any) any {
	switch {
	case tree.Same(theirs, base):
		return mine
	case tree.Same(mine, base), tree.Same(mine, theirs):
		return theirs
	}
	baseMap, _ := base.(map[string]any)
	mineMap, isMap := mine.(map[string]any)
	theirMap, stays := theirs.(map[string]any)
	baseList, _ := base.([]any)
	mineList, isList := mine.([]any)
	theirList, staysList := theirs.([]any)
	switch {
	case isMap && stays:
		return m.maps(baseMap, mineMap, theirMap)
	case isList && staysList && len(baseList) == len(mineList) && len(mineList) == len(theirList):
		all := make([]any, len(mineList))
		for i := range all {
			all[i] = m.values(baseList[i], mineList[i], theirList[i])
		}
		return all
	}
	m.lost = true
	return mine
}

func (m *merge) maps(base, mine, theirs map[string]any) map[string]any {
	of := func(from map[string]any, key string) any {
		if value, found := from[key]; found {
			return value
		}
		return absent{}
	}
	all := map[string]any{}
	for _, from := range []map[string]any{mine, theirs} {
		for key := range from {
			if value := m.values(of(base, key), of(mine, key), of(theirs, key)); value != (any)(absent{}) {
				all[key] = value
			}
		}
	}
	return all
}
