// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// placed is one container of a payload with its place. A hot upgrade pair is two.
type placed struct {
	template string
	name     string
	first    bool
	init     bool
	// pair is 1 for the working container of a pair, 2 for its peer; 0 without a pair.
	pair      int
	container map[string]any
	extra     appsv1beta1.SidecarContainer
	// set and position are the order among ordinary containers.
	set      string
	position int
	byName   bool
}

// blocks are the containers of a payload in pod order.
type blocks struct {
	containers, inits []placed
}

// blocksOf places the containers of a payload. Init containers are sorted by name.
func blocksOf(p Payload) (blocks, error) {
	var b blocks
	var err error
	if b.containers, err = place(p.Containers, false); err != nil {
		return b, err
	}
	b.inits, err = place(p.InitContainers, true)
	slices.SortStableFunc(b.inits, func(x, y placed) int { return cmp.Compare(x.name, y.name) })
	return b, err
}

func place(sidecars []map[string]any, init bool) ([]placed, error) {
	var all []placed
	for _, sidecar := range sidecars {
		t, err := split(sidecar)
		if err != nil {
			return nil, err
		}
		// By default, ordinary sidecars come before the pod's containers and init containers after its own.
		one := placed{template: t.name, init: init, container: t.container, extra: t.extra}
		one.first = cmp.Or(t.extra.PodInjectPolicy, defaultPlace(init)) == appsv1beta1.BeforeAppContainer
		if t.extra.UpgradeStrategy.UpgradeType != appsv1beta1.HotUpgrade {
			one.name, one.position = t.name, len(all)
			one.container["env"] = withEnv(one.container, map[string]any{"name": InjectedEnv, "value": "true"})
			all = append(all, one)
			continue
		}
		for pair := 1; pair <= 2; pair++ {
			half := one
			half.pair, half.name, half.position = pair, t.name+"-"+strconv.Itoa(pair), len(all)
			half.container = maps.Clone(one.container)
			half.container["name"] = half.name
			if pair == 2 {
				half.container["image"] = t.extra.UpgradeStrategy.HotUpgradeEmptyImage
			}
			half.container["env"] = withEnv(one.container, map[string]any{"name": InjectedEnv, "value": "true"},
				versionEnv("SIDECARSET_VERSION", VersionPrefix+half.name), versionEnv("SIDECARSET_VERSION_ALT", VersionAltPrefix+half.name))
			all = append(all, half)
		}
	}
	return all, nil
}

func defaultPlace(init bool) appsv1beta1.SidecarInjectPolicy {
	if init {
		return appsv1beta1.AfterAppContainer
	}
	return appsv1beta1.BeforeAppContainer
}

func versionEnv(name, annotation string) map[string]any {
	return map[string]any{"name": name, "valueFrom": map[string]any{
		"fieldRef": map[string]any{"apiVersion": "v1", "fieldPath": "metadata.annotations['" + annotation + "']"},
	}}
}

// withEnv appends variables to a container's env. Its own win.
func withEnv(container map[string]any, added ...map[string]any) []any {
	env := slices.Clone(listOf(container, "env"))
	if env == nil {
		env = []any{}
	}
	for _, variable := range added {
		if !slices.ContainsFunc(env, func(e any) bool { return nameOf(e) == variable["name"] }) {
			env = append(env, variable)
		}
	}
	return env
}

// listOf is a list in an object; nil when there is none.
func listOf(object map[string]any, field string) []any {
	list, _ := object[field].([]any)
	return list
}

// nameOf is the name of an object in a list; empty when it has none.
func nameOf(object any) string { return textOf(object, "name") }

func textOf(object any, field string) string {
	fields, _ := object.(map[string]any)
	text, _ := fields[field].(string)
	return text
}

// names returns the names in a block.
func names(all []placed, first bool) []string {
	var names []string
	for _, p := range all {
		if p.first == first {
			names = append(names, p.name)
		}
	}
	return names
}

// usedVolumes returns the mounted volumes of a payload, sorted by name.
func usedVolumes(p Payload, b blocks) []map[string]any {
	used := map[string]bool{}
	for _, all := range [][]placed{b.containers, b.inits} {
		for _, one := range all {
			for _, field := range []string{"volumeMounts", "volumeDevices"} {
				for _, mount := range listOf(one.container, field) {
					used[nameOf(mount)] = true
				}
			}
		}
	}
	volumes := []map[string]any{}
	for _, v := range p.Volumes {
		if used[nameOf(v)] {
			volumes = append(volumes, v)
		}
	}
	slices.SortStableFunc(volumes, func(a, b map[string]any) int { return cmp.Compare(nameOf(a), nameOf(b)) })
	return volumes
}

// ranks are the containers of a set and of sets meeting it, in pod order.
type ranks struct {
	containers, inits []placed
}

func ranksOf(set *Set, own blocks, others []*Set) ranks {
	var r ranks
	add := func(s *Set, b blocks) {
		for _, p := range b.containers {
			p.set, p.byName = s.Name, set.SortByName
			r.containers = append(r.containers, p)
		}
		for _, p := range b.inits {
			p.set, p.byName = s.Name, true
			r.inits = append(r.inits, p)
		}
	}
	add(set, own)
	for _, o := range others {
		choices, err := o.choices()
		if err != nil {
			continue // It injects nothing.
		}
		for _, c := range choices {
			b, err := blocksOf(c.payload)
			if err != nil {
				break
			}
			add(o, b)
		}
	}
	slices.SortStableFunc(r.containers, placed.compare)
	slices.SortStableFunc(r.inits, placed.compare)
	return r
}

// compare orders the containers of several sets within their block.
func (p placed) compare(other placed) int {
	if p.byName {
		return cmp.Compare(p.name, other.name)
	}
	return cmp.Or(cmp.Compare(p.set, other.set), cmp.Compare(p.position, other.position))
}

// compile returns the container for an Injection. all is its block, in order.
func (p placed) compile(set string, all []placed) Container {
	c := Container{
		Value: p.container, Name: p.name, First: p.first, Hot: p.pair > 0, Beyond: []string{}, Transfers: []Transfer{},
		ShareMounts:  p.extra.ShareVolumePolicy.Type == appsv1beta1.ShareVolumePolicyEnabled,
		ShareDevices: ptr.Deref(p.extra.ShareVolumeDevicePolicy, appsv1beta1.ShareVolumePolicy{}).Type == appsv1beta1.ShareVolumePolicyEnabled,
	}
	at := slices.IndexFunc(all, func(o placed) bool { return o.name == p.name && o.set == set })
	for i, o := range all {
		if o.first == p.first && o.name != p.name && (p.first && i < at || !p.first && i > at) && !slices.Contains(c.Beyond, o.name) {
			c.Beyond = append(c.Beyond, o.name)
		}
	}
	slices.Sort(c.Beyond)
	for _, t := range p.extra.TransferEnv {
		one := Transfer{From: t.SourceContainerName, Names: []string{}}
		if t.SourceContainerNameFrom != nil && t.SourceContainerNameFrom.FieldRef != nil {
			one.From = ""
			one.Label, one.Annotation = subscript(t.SourceContainerNameFrom.FieldRef)
		}
		if t.EnvName != "" {
			one.Names = append(one.Names, t.EnvName)
		}
		one.Names = append(one.Names, t.EnvNames...)
		slices.Sort(one.Names)
		one.Names = slices.Compact(one.Names)
		c.Transfers = append(c.Transfers, one)
	}
	if r := p.extra.ResourcesPolicy; r != nil {
		c.Resources = &Resources{
			Mode: string(r.TargetContainersMode), Regex: cmp.Or(r.TargetContainersNameRegex, ".*"),
			Limits: expressionsOf(r.ResourcesExpr.Limits), Requests: expressionsOf(r.ResourcesExpr.Requests),
		}
	}
	return c
}

// subscript is the label or annotation key in a field path.
func subscript(ref *corev1.ObjectFieldSelector) (label, annotation string) {
	if key, is := strings.CutPrefix(ref.FieldPath, "metadata.labels['"); is {
		return strings.TrimSuffix(key, "']"), ""
	}
	if key, is := strings.CutPrefix(ref.FieldPath, "metadata.annotations['"); is {
		return "", strings.TrimSuffix(key, "']")
	}
	return "", ""
}

// expressionsOf returns the given expressions by resource.
func expressionsOf(e *appsv1beta1.SidecarResourceExpressions) map[string]string {
	given := ptr.Deref(e, appsv1beta1.SidecarResourceExpressions{})
	all := map[string]string{string(corev1.ResourceCPU): given.CPU, string(corev1.ResourceMemory): given.Memory}
	maps.DeleteFunc(all, func(_, expression string) bool { return expression == "" })
	return all
}

func sortedNames(of map[string]string) []string { return slices.Sorted(maps.Keys(of)) }
