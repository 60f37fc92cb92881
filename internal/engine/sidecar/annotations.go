// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// annotate makes the annotations say what the pod got.
func (v *Variant) annotate(set string, annotations map[string]string, others []Other) error {
	present := map[string]bool{}
	for _, o := range others {
		present[o.Name] = true
	}
	for _, p := range v.Patches {
		if err := p.apply(set, annotations, present); err != nil {
			return err
		}
	}
	maps.Copy(annotations, v.Constants)
	annotations[HashAnnotation] = withEntry(annotations[HashAnnotation], v.Key, v.Entry)
	annotations[HashWithoutImageAnnotation] = withEntry(annotations[HashWithoutImageAnnotation], v.Key, v.EntryWithoutImage)
	if len(v.Working) > 0 {
		annotations[WorkingAnnotation] = withWorking(annotations[WorkingAnnotation], v.WorkingKeys, v.Working)
	}
	list := slices.DeleteFunc(strings.Split(annotations[InjectedListAnnotation], ","), func(name string) bool { return name == "" || name == set })
	list = append(list, set)
	slices.Sort(list)
	annotations[InjectedListAnnotation] = strings.Join(slices.Compact(list), ",")
	return nil
}

// apply makes one patch. present are the other sets that inject into the pod.
func (p Patch) apply(set string, annotations map[string]string, present map[string]bool) error {
	if slices.ContainsFunc(p.Yields, func(other string) bool { return present[other] }) {
		return nil
	}
	value, has := annotations[p.Key]
	switch p.Policy {
	case Retain:
		if !has {
			annotations[p.Key] = p.Value
		}
	case Overwrite:
		annotations[p.Key] = p.Value
	case MergePatchJSON:
		merged, err := mergePatch(value, p.Value)
		for _, then := range p.Then {
			if err == nil && present[then.Set] && value != "" {
				merged, err = mergePatch(merged, then.Value)
			}
		}
		if err != nil {
			return fmt.Errorf("SidecarSet %s: merging into annotation %s: %w", set, p.Key, err)
		}
		if value == "" || !sameJSON(value, merged) {
			annotations[p.Key] = merged
		}
	}
	return nil
}

// mergePatch merges a patch into a JSON text by RFC 7386. Into nothing it is set as it is.
func mergePatch(into, patch string) (string, error) {
	if into == "" {
		return patch, nil
	}
	var target, change any
	if err := json.Unmarshal([]byte(into), &target); err != nil {
		return "", fmt.Errorf("the value that the pod has is no JSON: %w", err)
	}
	if err := json.Unmarshal([]byte(patch), &change); err != nil {
		return "", fmt.Errorf("the value in patchPodMetadata is no JSON: %w", err)
	}
	return compact(merge(target, change)), nil
}

// sameJSON says whether two texts mean the same, however they are written.
func sameJSON(a, b string) bool {
	var one, other any
	return json.Unmarshal([]byte(a), &one) == nil && json.Unmarshal([]byte(b), &other) == nil && reflect.DeepEqual(one, other)
}

func merge(target, patch any) any {
	changes, is := patch.(map[string]any)
	if !is {
		return patch
	}
	fields, is := target.(map[string]any)
	if !is {
		fields = map[string]any{}
	}
	for key, value := range changes {
		if value == nil {
			delete(fields, key)
		} else {
			fields[key] = merge(fields[key], value)
		}
	}
	return fields
}

// withEntry is a JSON object of sets with the entry of one, whose key is as given. Members of other sets stay; a very old one, which is
// the hash alone, gets the shape of today. What cannot be read is left out.
func withEntry(old, key, entry string) string {
	members := []string{entry}
	var have map[string]json.RawMessage
	if json.Unmarshal([]byte(old), &have) == nil {
		for name, value := range have {
			if quoted(name)+":" == key {
				continue
			}
			var hash string
			if json.Unmarshal(value, &hash) == nil {
				value = json.RawMessage(compact(upgradeEntry{Hash: hash, SidecarSetName: name}))
			}
			members = append(members, quoted(name)+":"+compact(value))
		}
	}
	slices.Sort(members)
	return "{" + strings.Join(members, ",") + "}"
}

// withWorking is the JSON object of working containers with those of one set.
func withWorking(old string, keys, members []string) string {
	all := slices.Clone(members)
	var have map[string]string
	if json.Unmarshal([]byte(old), &have) == nil {
		for name, value := range have {
			if key := quoted(name) + ":"; !slices.Contains(keys, key) {
				all = append(all, key+quoted(value))
			}
		}
	}
	slices.Sort(all)
	return "{" + strings.Join(all, ",") + "}"
}
