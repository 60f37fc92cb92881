// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/podentry"
)

// ErrNoRevision means the pinned revision was not found.
var ErrNoRevision = errors.New("the revision that injectionStrategy.revision names was not found")

// Compile computes a set's injection beside all other sets. Sets paused or without common pods do not matter.
func Compile(set *Set, all []*Set) (Injection, error) {
	out := Injection{Set: set.Name, Skip: []string{}, Others: []Other{}}
	if set.Base != "" {
		out.Drop = []string{set.Base}
	}
	parts, err := set.parts()
	if err != nil {
		return Injection{}, err
	}
	others := overlapping(set, all)
	for _, o := range others {
		if o.Base == set.Name {
			out.Skip = append(out.Skip, o.Name)
		}
		out.Others = append(out.Others, o.describe(all))
	}
	for _, p := range parts {
		v, err := p.variant(set, others)
		if err != nil {
			return Injection{}, err
		}
		out.Variants = append(out.Variants, v)
	}
	out.Takes = slices.ContainsFunc(out.Variants, func(v Variant) bool { takers, _ := v.takers(); return takers > 0 })
	return out, nil
}

// neighbor is another set on the same pods.
type neighbor struct {
	*Set
	parts []part
}

// overlapping are the other sets possibly injecting beside or instead of set, by name.
// An unreadable set injects nothing; its own pass reports it.
func overlapping(set *Set, all []*Set) []neighbor {
	var others []neighbor
	for _, o := range all {
		if o.Name != set.Name && !o.Paused && o.Name != set.Base && set.Match.Meets(o.Match) {
			if parts, err := o.parts(); err == nil {
				others = append(others, neighbor{o, parts})
			}
		}
	}
	slices.SortFunc(others, func(a, b neighbor) int { return cmp.Compare(a.Name, b.Name) })
	return others
}

// part is a revision with its containers and its pods.
type part struct {
	payload  Payload
	sidecars []placed
	when     []podentry.Requirement
	percent  *int32
}

// parts are the revisions for new pods, by precedence. The last is for every pod.
func (s *Set) parts() ([]part, error) {
	parts, err := s.choices()
	for at := range parts {
		if err == nil {
			parts[at].sidecars, err = s.place(parts[at].payload)
		}
	}
	return parts, err
}

// choices are the parts without their containers.
//
// 1. The latest: without a pinned revision, or under Partial for pods an update may reach.
// 2. Otherwise the pinned one; under Partial with a percentage, for that share of the pods.
func (s *Set) choices() ([]part, error) {
	latest := part{payload: s.Latest, when: []podentry.Requirement{}}
	if s.Revision == nil {
		return []part{latest}, nil
	}
	if s.Pinned == nil {
		return nil, fmt.Errorf("%w: %s", ErrNoRevision, cmp.Or(ptr.Deref(s.Revision.RevisionName, ""), ptr.Deref(s.Revision.CustomVersion, "")))
	}
	pinned := part{payload: *s.Pinned, when: []podentry.Requirement{}}
	if s.UpdatePaused || s.Revision.Policy != appsv1beta1.PartialSidecarSetInjectRevisionPolicy {
		return []part{pinned}, nil
	}
	var all []part
	if s.Partition != nil && s.Partition.Type == intstr.String {
		share, err := intstr.GetScaledValueFromIntOrPercent(s.Partition, 100, true)
		if err != nil {
			return nil, fmt.Errorf("spec.updateStrategy.partition: %w", err)
		}
		switch {
		case share >= 100:
			return []part{pinned}, nil
		case share > 0:
			all = append(all, part{payload: *s.Pinned, when: s.UpdateSelector, percent: ptr.To(int32(share))})
		}
	}
	if len(s.UpdateSelector) == 0 {
		return append(all, latest), nil
	}
	latest.when = s.UpdateSelector
	return append(all, latest, pinned), nil
}

// describe tells other sets about a set: of two revisions, the containers of both.
func (n neighbor) describe(all []*Set) Other {
	var skip, volumes, secrets []string
	for _, canary := range all {
		if canary.Base == n.Name && !canary.Paused && canary.Match.Meets(n.Match) {
			skip = append(skip, canary.Name)
		}
	}
	var sidecars []placed
	for _, p := range n.parts {
		sidecars, secrets = append(sidecars, p.sidecars...), append(secrets, p.payload.Secrets...)
		for _, v := range p.volumes() {
			volumes = append(volumes, nameOf(v))
		}
	}
	return Other{
		Name: n.Name, Match: n.Match, Skip: distinct(skip), First: names(sidecars, false, true), Last: names(sidecars, false, false),
		InitFirst: names(sidecars, true, true), InitLast: names(sidecars, true, false), Volumes: distinct(volumes), Secrets: distinct(secrets),
	}
}

// volumes are the mounted volumes of a part, sorted by name.
func (p part) volumes() []map[string]any {
	used := map[string]bool{}
	for _, s := range p.sidecars {
		for _, mount := range slices.Concat(listOf(s.container, "volumeMounts"), listOf(s.container, "volumeDevices")) {
			used[nameOf(mount)] = true
		}
	}
	volumes := append([]map[string]any{}, p.payload.Volumes...)
	volumes = slices.DeleteFunc(volumes, func(v map[string]any) bool { return !used[nameOf(v)] })
	slices.SortStableFunc(volumes, func(a, b map[string]any) int { return cmp.Compare(nameOf(a), nameOf(b)) })
	return volumes
}

// variant compiles one part of a set.
func (p part) variant(set *Set, others []neighbor) (Variant, error) {
	v := Variant{
		When: p.when, Percent: p.percent, Containers: []Container{}, InitContainers: []Container{}, Volumes: p.volumes(), Secrets: distinct(p.payload.Secrets),
		Constants: map[string]string{}, Working: []string{}, WorkingKeys: []string{}, Patches: patchesOf(set, p.payload, others),
	}
	ranks := slices.Clone(p.sidecars)
	for _, o := range others {
		for _, theirs := range o.parts {
			ranks = append(ranks, theirs.sidecars...)
		}
	}
	slices.SortStableFunc(ranks, placed.compare)
	var list []string
	for _, s := range p.sidecars {
		v.addHotUpgrade(s)
		if c := s.compile(ranks); s.init {
			v.InitContainers = append(v.InitContainers, c)
		} else {
			v.Containers = append(v.Containers, c)
		}
		if !s.init || s.container["restartPolicy"] == string(corev1.ContainerRestartPolicyAlways) {
			list = append(list, s.template)
		}
	}
	slices.Sort(v.Working)
	slices.Sort(v.WorkingKeys)
	v.describeEntries(set.Name, p.payload, distinct(list))
	return v, v.prepare(set.Name)
}

// maxPrepared limits Annotations, in bytes: they are stored twice, and one object holds the whole injection.
const maxPrepared = 16 << 10

// prepare precomputes the usual result to spare the policy.
func (v *Variant) prepare(set string) error {
	annotations := map[string]string{}
	if err := v.annotate(set, annotations, nil, nil); err != nil {
		return err
	}
	length := 0
	for key, value := range annotations {
		length += len(key) + len(value)
	}
	if length <= maxPrepared {
		v.Annotations = annotations
	}
	v.Static = len(v.InitContainers) == 0 && !slices.ContainsFunc(v.Containers, func(c Container) bool { return c.takes() || c.Resources != nil })
	if !v.Static {
		return nil
	}
	first := 0
	for i := range v.Containers {
		c := &v.Containers[i]
		c.At = "/spec/containers/-"
		if c.First {
			c.At = "/spec/containers/" + strconv.Itoa(first)
			first++
		}
	}
	return nil
}

// takes reports whether it copies mounts, devices or variables of the pod's containers.
func (c Container) takes() bool {
	return c.ShareMounts || c.ShareDevices || len(c.Transfers) > 0
}

// addHotUpgrade adds annotations for one container of a pair.
func (v *Variant) addHotUpgrade(t placed) {
	switch t.pair {
	case 1:
		key, value := quoted(t.template)+":", quoted(t.name)
		v.Working, v.WorkingKeys = append(v.Working, key+value), append(v.WorkingKeys, key)
		v.Constants[shared.AnnotationSidecarSetVersionPrefix+t.name], v.Constants[shared.AnnotationSidecarSetVersionAltPrefix+t.name] = "1", "0"
	case 2:
		v.Constants[shared.AnnotationSidecarSetVersionPrefix+t.name], v.Constants[shared.AnnotationSidecarSetVersionAltPrefix+t.name] = "0", "1"
	}
}

// describeEntries fills in the pod's record of the set.
func (v *Variant) describeEntries(set string, p Payload, list []string) {
	v.Key = quoted(set) + ":"
	v.Mark = `"hash":` + quoted(p.Hash) + `,"sidecarSetName":` + quoted(set) + ","
	entry := shared.SidecarSetUpgrade{UpdateTimestamp: p.Time, SidecarSetHash: p.WithoutImage, SidecarSetName: set, SidecarList: list}
	v.EntryWithoutImage = v.Key + compact(entry)
	entry.SidecarSetHash, entry.ControllerRevision = p.Hash, p.Revision
	v.Entry = v.Key + compact(entry)
}

func quoted(text string) string { return compact(text) }

// compact is the JSON of a value that always has one.
func compact(value any) string {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return "null" // Not possible: only strings, maps and lists of them come here.
	}
	return strings.TrimSuffix(text.String(), "\n")
}

// patchesOf are the annotations of a set, in order.
func patchesOf(set *Set, p Payload, others []neighbor) []Patch {
	patches := []Patch{}
	for _, entry := range p.Patches {
		for _, key := range sortedNames(entry.Annotations) {
			if OwnAnnotation(key) {
				continue
			}
			patch := Patch{Key: key, Value: entry.Annotations[key], Policy: cmp.Or(entry.PatchPolicy, retain), Yields: []string{}, Then: []Merge{}}
			for _, o := range others {
				if o.Base != set.Name { // A canary is never in one pod with its base.
					patch.meet(set, o)
				}
			}
			patches = append(patches, patch)
		}
	}
	return patches
}

// meet adapts a patch to another set on the same pod, whichever revision that has. Admission refuses
// true conflicts. Retain gives way to the other policies; otherwise the set's name decides.
func (p *Patch) meet(set *Set, other neighbor) {
	var all []appsv1beta1.SidecarSetPatchPodMetadata
	for _, part := range other.parts {
		all = append(all, part.payload.Patches...)
	}
	for _, theirs := range all {
		value, has := theirs.Annotations[p.Key]
		policy := cmp.Or(theirs.PatchPolicy, retain)
		switch {
		case !has:
		case p.Policy == retain && (policy != retain || other.Name < set.Name):
			if !slices.Contains(p.Yields, other.Name) {
				p.Yields = append(p.Yields, other.Name)
			}
		case p.Policy == mergePatch && policy == mergePatch:
			if then := (Merge{Set: other.Name, Value: value}); other.Name > set.Name && !slices.Contains(p.Then, then) {
				p.Then = append(p.Then, then)
			}
		}
	}
}
