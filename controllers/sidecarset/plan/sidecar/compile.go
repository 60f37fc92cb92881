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

	"k8s.io/apimachinery/pkg/util/intstr"

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
	others := overlapping(set, all)
	for _, o := range others {
		if o.Base == set.Name {
			out.Skip = append(out.Skip, o.Name)
		}
		other, err := describe(o, all)
		if err != nil {
			// An unreadable set injects nothing; its own pass reports it.
			continue
		}
		out.Others = append(out.Others, other)
	}
	slices.Sort(out.Skip)
	slices.SortFunc(out.Others, func(a, b Other) int { return cmp.Compare(a.Name, b.Name) })
	choices, err := set.choices()
	if err != nil {
		return Injection{}, err
	}
	for _, c := range choices {
		v, err := variant(set, c, others)
		if err != nil {
			return Injection{}, err
		}
		out.Variants = append(out.Variants, v)
	}
	out.Takes = slices.ContainsFunc(out.Variants, func(v Variant) bool { takers, _ := v.takers(); return takers > 0 })
	return out, nil
}

// overlapping are the other sets possibly injecting beside or instead of set, by name.
func overlapping(set *Set, all []*Set) []*Set {
	var others []*Set
	for _, o := range all {
		if o.Name != set.Name && !o.Paused && o.Name != set.Base && set.Match.Meets(o.Match) {
			others = append(others, o)
		}
	}
	slices.SortFunc(others, func(a, b *Set) int { return cmp.Compare(a.Name, b.Name) })
	return others
}

// choice is a revision and its pods.
type choice struct {
	payload Payload
	when    []podentry.Requirement
	percent *int32
}

// choices are the revisions for new pods, by precedence. The last is for every pod.
//
// 1. The latest: without a pinned revision, or under Partial for pods an update may reach.
// 2. Otherwise the pinned one; under Partial with a percentage, for that share of the pods.
func (s *Set) choices() ([]choice, error) {
	latest := choice{payload: s.Latest, when: []podentry.Requirement{}}
	if s.Revision == nil {
		return []choice{latest}, nil
	}
	if s.Pinned == nil {
		return nil, fmt.Errorf("%w: %s", ErrNoRevision, cmp.Or(s.Revision.Name, s.Revision.CustomVersion))
	}
	pinned := choice{payload: *s.Pinned, when: []podentry.Requirement{}}
	if s.UpdatePaused || s.Revision.Policy != "Partial" {
		return []choice{pinned}, nil
	}
	var all []choice
	if s.Partition != nil && s.Partition.Type == intstr.String {
		share, err := intstr.GetScaledValueFromIntOrPercent(s.Partition, 100, true)
		if err != nil {
			return nil, fmt.Errorf("spec.updateStrategy.partition: %w", err)
		}
		switch {
		case share >= 100:
			return []choice{pinned}, nil
		case share > 0:
			drawn := pinned
			percent := int32(share)
			drawn.percent, drawn.when = &percent, s.UpdateSelector
			all = append(all, drawn)
		}
	}
	if len(s.UpdateSelector) == 0 {
		return append(all, latest), nil
	}
	latest.when = s.UpdateSelector
	return append(all, latest, pinned), nil
}

// describe tells other sets about a set: of two revisions, the containers of both.
func describe(s *Set, all []*Set) (Other, error) {
	o := Other{
		Name: s.Name, Match: s.Match, Skip: []string{}, First: []string{}, Last: []string{}, InitFirst: []string{}, InitLast: []string{},
		Volumes: []string{}, Secrets: []string{},
	}
	for _, canary := range all {
		if canary.Base == s.Name && !canary.Paused && canary.Match.Meets(s.Match) {
			o.Skip = append(o.Skip, canary.Name)
		}
	}
	choices, err := s.choices()
	if err != nil {
		return o, err
	}
	for _, c := range choices {
		b, err := blocksOf(c.payload)
		if err != nil {
			return o, err
		}
		o.First = append(o.First, names(b.containers, true)...)
		o.Last = append(o.Last, names(b.containers, false)...)
		o.InitFirst = append(o.InitFirst, names(b.inits, true)...)
		o.InitLast = append(o.InitLast, names(b.inits, false)...)
		o.Secrets = append(o.Secrets, c.payload.Secrets...)
		for _, v := range usedVolumes(c.payload, b) {
			o.Volumes = append(o.Volumes, nameOf(v))
		}
	}
	for _, list := range []*[]string{&o.Skip, &o.First, &o.Last, &o.InitFirst, &o.InitLast, &o.Secrets, &o.Volumes} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return o, nil
}

// variant compiles one choice of a set.
func variant(set *Set, c choice, others []*Set) (Variant, error) {
	b, err := blocksOf(c.payload)
	if err != nil {
		return Variant{}, err
	}
	if set.SortByName {
		slices.SortStableFunc(b.containers, func(x, y placed) int { return cmp.Compare(x.name, y.name) })
	}
	v := Variant{
		When: c.when, Percent: c.percent, Containers: []Container{}, InitContainers: []Container{}, Volumes: usedVolumes(c.payload, b), Secrets: []string{},
		Constants: map[string]string{}, Working: []string{}, WorkingKeys: []string{},
	}
	v.Secrets = append(v.Secrets, c.payload.Secrets...)
	slices.Sort(v.Secrets)
	v.Secrets = slices.Compact(v.Secrets)
	list := []string{}
	for _, t := range b.containers {
		v.addHotUpgrade(t)
	}
	for _, t := range b.inits {
		v.addHotUpgrade(t)
	}
	for _, t := range append(slices.Clone(b.containers), b.inits...) {
		if !t.init || t.container["restartPolicy"] == "Always" {
			list = append(list, t.template)
		}
	}
	slices.Sort(list)
	v.describeEntries(set.Name, c.payload, slices.Compact(list))
	ranks := ranksOf(set, b, others)
	for _, t := range b.containers {
		v.Containers = append(v.Containers, t.compile(set.Name, ranks.containers))
	}
	for _, t := range b.inits {
		v.InitContainers = append(v.InitContainers, t.compile(set.Name, ranks.inits))
	}
	slices.Sort(v.Working)
	slices.Sort(v.WorkingKeys)
	v.Patches = patchesOf(set, c.payload, others)
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
		v.Constants[VersionPrefix+t.name], v.Constants[VersionAltPrefix+t.name] = "1", "0"
	case 2:
		v.Constants[VersionPrefix+t.name], v.Constants[VersionAltPrefix+t.name] = "0", "1"
	}
}

// upgradeEntry is one member of the hash annotations.
type upgradeEntry struct {
	UpdateTimestamp    *string  `json:"updateTimestamp"`
	Hash               string   `json:"hash"`
	SidecarSetName     string   `json:"sidecarSetName"`
	SidecarList        []string `json:"sidecarList"`
	ControllerRevision string   `json:"controllerRevision,omitempty"`
}

// describeEntries fills in the pod's record of the set.
func (v *Variant) describeEntries(set string, p Payload, list []string) {
	v.Key = quoted(set) + ":"
	v.Mark = `"hash":` + quoted(p.Hash) + `,"sidecarSetName":` + quoted(set) + ","
	entry := upgradeEntry{Hash: p.HashWithoutImage, SidecarSetName: set, SidecarList: list}
	if p.Time != "" {
		entry.UpdateTimestamp = &p.Time
	}
	v.EntryWithoutImage = v.Key + compact(entry)
	entry.Hash, entry.ControllerRevision = p.Hash, p.Revision
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
func patchesOf(set *Set, p Payload, others []*Set) []Patch {
	patches := []Patch{}
	for _, entry := range p.Patches {
		for _, key := range sortedNames(entry.Annotations) {
			if OwnAnnotation(key) {
				continue
			}
			patch := Patch{Key: key, Value: entry.Annotations[key], Policy: string(cmp.Or(entry.PatchPolicy, Retain)), Yields: []string{}, Then: []Merge{}}
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

// meet adapts a patch to another set on the same pod. Admission refuses true
// conflicts. Retain gives way to the other policies; otherwise the set's name decides.
func (p *Patch) meet(set, other *Set) {
	for _, theirs := range other.patches() {
		value, has := theirs.Annotations[p.Key]
		policy := cmp.Or(theirs.PatchPolicy, Retain)
		switch {
		case !has:
		case p.Policy == Retain && (policy != Retain || other.Name < set.Name):
			if !slices.Contains(p.Yields, other.Name) {
				p.Yields = append(p.Yields, other.Name)
			}
		case p.Policy == MergePatchJSON && policy == MergePatchJSON:
			if then := (Merge{Set: other.Name, Value: value}); other.Name > set.Name && !slices.Contains(p.Then, then) {
				p.Then = append(p.Then, then)
			}
		}
	}
}

// patches are the patches of every revision new pods may get.
func (s *Set) patches() []appsv1beta1.SidecarSetPatchPodMetadata {
	choices, err := s.choices()
	if err != nil {
		return nil // It injects nothing.
	}
	var all []appsv1beta1.SidecarSetPatchPodMetadata
	for _, c := range choices {
		all = append(all, c.payload.Patches...)
	}
	return all
}
