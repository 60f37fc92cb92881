// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// annotate records the injection on the pod. others inject too; absent do not, but a copied pod may name them.
func (v *Variant) annotate(set string, annotations map[string]string, others []Other, absent []string) error {
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
	absent = append(slices.Clone(absent), set)
	annotations[shared.AnnotationSidecarSetHash] = withEntry(annotations[shared.AnnotationSidecarSetHash], absent, v.Entry)
	annotations[shared.AnnotationSidecarSetHashWithoutImage] = withEntry(annotations[shared.AnnotationSidecarSetHashWithoutImage], absent, v.EntryWithoutImage)
	if len(v.Working) > 0 {
		annotations[shared.AnnotationSidecarSetWorkingContainer] = withWorking(annotations[shared.AnnotationSidecarSetWorkingContainer], v.WorkingKeys, v.Working)
	}
	listed := strings.Split(annotations[shared.AnnotationSidecarSetInjectedList], ",")
	list := slices.DeleteFunc(listed[:min(len(listed), maxNamed)], func(name string) bool { return name == "" || slices.Contains(absent, name) })
	list = append(list, set)
	slices.Sort(list)
	annotations[shared.AnnotationSidecarSetInjectedList] = strings.Join(slices.Compact(list), ",")
	return nil
}

// apply makes one patch. present are the other sets injecting into the pod.
func (p Patch) apply(set string, annotations map[string]string, present map[string]bool) error {
	if slices.ContainsFunc(p.Yields, func(other string) bool { return present[other] }) {
		return nil
	}
	value, has := annotations[p.Key]
	patches := []string{p.Value}
	for _, then := range p.Then {
		if present[then.Set] && value != "" {
			patches = append(patches, then.Value)
		}
	}
	patched, changes, err := Patched(p.Policy, value, has, patches...)
	if err != nil {
		return fmt.Errorf("SidecarSet %s: merging into annotation %s: %w", set, p.Key, err)
	}
	if changes {
		annotations[p.Key] = patched
	}
	return nil
}

// Patched is the value of an annotation after patches by a policy; false: it stays. Only merges take more than one.
func Patched(policy appsv1beta1.SidecarSetPatchPolicy, value string, has bool, patches ...string) (string, bool, error) {
	switch policy {
	case retain, "":
		return patches[0], !has, nil
	case overwrite:
		return patches[0], true, nil
	case mergePatch:
		merged, err := MergePatch(value, patches...)
		return merged, true, err
	}
	return "", false, nil // OpenKruise has stored any policy.
}

// MergePatch merges patches into a JSON text by RFC 7386, in order. Into an empty text
// they go literally. Unchanged text and numbers stay as written: 64 bits exceed a float.
func MergePatch(into string, patches ...string) (string, error) {
	merged := into
	for _, patch := range patches {
		if merged == "" || merged == patch {
			merged = patch
			continue
		}
		target, err := decoded(merged)
		if err != nil {
			return "", fmt.Errorf("the value that the pod has is no JSON: %w", err)
		}
		change, err := decoded(patch)
		if err != nil {
			return "", fmt.Errorf("the value in patchPodMetadata is no JSON: %w", err)
		}
		merged = compact(merge(target, change))
	}
	if value, err := decoded(into); err == nil && compact(value) == merged {
		return into, nil
	}
	return merged, nil
}

// decoded reads a JSON text, with numbers as they are written.
func decoded(text string) (any, error) {
	var value any
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("it goes on after its end")
	}
	return value, nil
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

// maxNamed limits the sets in a pod's annotations, far above real use. The policy has the same number.
const maxNamed = 200

// flatMember is a member of a hash annotation in today's shape.
var flatMember = regexp.MustCompile(`"[^"]*":[{][^{}]*[}]`)

// withEntry adds an entry to a JSON object of sets. It drops entries of absent sets, and very old ones with only a hash.
func withEntry(old string, absent []string, entry string) string {
	members := []string{entry}
	for _, member := range flatMember.FindAllString(old, maxNamed) {
		if name, _, _ := strings.Cut(member[1:], `"`); !slices.Contains(absent, name) {
			members = append(members, member)
		}
	}
	slices.Sort(members)
	return "{" + strings.Join(members, ",") + "}"
}

// withWorking adds one set's working containers to the JSON object.
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

// EntriesOf returns a pod annotation's entries by SidecarSet; none if undecodable.
func EntriesOf(pod *corev1.Pod, key string) map[string]json.RawMessage {
	all := map[string]json.RawMessage{}
	if json.Unmarshal([]byte(pod.Annotations[key]), &all) != nil {
		return map[string]json.RawMessage{}
	}
	return all
}

// EntryOf returns one set's entry. Very old pods have only the hash.
func EntryOf(pod *corev1.Pod, key, set string) shared.SidecarSetUpgrade {
	raw := EntriesOf(pod, key)[set]
	var entry shared.SidecarSetUpgrade
	if json.Unmarshal(raw, &entry) == nil {
		return entry
	}
	entry = shared.SidecarSetUpgrade{SidecarSetName: set}
	_ = json.Unmarshal(raw, &entry.SidecarSetHash) // What is neither has no hash, and differs.
	return entry
}

// HasBareHash reports whether the set's entry is only a hash.
func HasBareHash(pod *corev1.Pod, key, set string) bool {
	raw := EntriesOf(pod, key)[set]
	return len(raw) > 0 && raw[0] == '"'
}

// HasContainer reports whether the pod has a container of this name, init containers excluded.
func HasContainer(pod *corev1.Pod, name string) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == name })
}
