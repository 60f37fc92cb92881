// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
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
	extra     appsv1beta1.SidecarContainer // without the fields of a container
	// set and position are the order among ordinary containers, unless it is byName.
	set      string
	position int
	byName   bool
}

// place places the containers of a payload, in pod order.
func (s *Set) place(p Payload) ([]placed, error) {
	var all []placed
	for _, list := range []struct {
		sidecars []map[string]any
		kind     placed
	}{
		{p.Containers, placed{set: s.Name, byName: s.SortByName}},
		{p.InitContainers, placed{set: s.Name, byName: true, init: true}},
	} {
		for position, sidecar := range list.sidecars {
			one := list.kind
			one.position = position
			if err := one.split(sidecar); err != nil {
				return nil, err
			}
			all = append(all, one.halves()...)
		}
	}
	slices.SortStableFunc(all, placed.compare)
	return all, nil
}

// split takes a SidecarContainer apart, into the container and the set's own fields.
func (p *placed) split(sidecar map[string]any) error {
	extra := map[string]any{}
	p.container = runtime.DeepCopyJSON(sidecar)
	for _, field := range []string{"podInjectPolicy", "upgradeStrategy", "shareVolumePolicy", "shareVolumeDevicePolicy", "transferEnv", "resourcesPolicy"} {
		if value := p.container[field]; value != nil {
			extra[field] = value
		}
		delete(p.container, field)
	}
	dropNulls(p.container)
	p.template = nameOf(p.container)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(extra, &p.extra); err != nil {
		return fmt.Errorf("decoding container %s: %w", p.template, err)
	}
	// By default, ordinary sidecars come before the pod's containers and init containers after its own.
	place := appsv1beta1.BeforeAppContainer
	if p.init {
		place = appsv1beta1.AfterAppContainer
	}
	p.first = cmp.Or(p.extra.PodInjectPolicy, place) == appsv1beta1.BeforeAppContainer
	return nil
}

// halves are the two containers of a hot upgrade pair, or the one without.
func (p placed) halves() []placed {
	mark := map[string]any{"name": shared.EnvIsInjected, "value": "true"}
	if p.extra.UpgradeStrategy.UpgradeType != appsv1beta1.HotUpgrade {
		p.name = p.template
		p.container["env"] = withEnv(p.container, mark)
		return []placed{p}
	}
	var halves []placed
	for pair := 1; pair <= 2; pair++ {
		half := p
		half.pair, half.name, half.container = pair, p.template+"-"+strconv.Itoa(pair), maps.Clone(p.container)
		half.container["name"] = half.name
		if pair == 2 {
			half.container["image"] = p.extra.UpgradeStrategy.HotUpgradeEmptyImage
		}
		half.container["env"] = withEnv(p.container, mark, versionEnv(shared.EnvSidecarSetVersion, shared.AnnotationSidecarSetVersionPrefix+half.name),
			versionEnv(shared.EnvSidecarSetVersionAlt, shared.AnnotationSidecarSetVersionAltPrefix+half.name))
		halves = append(halves, half)
	}
	return halves
}

// compare orders the containers of one or more sets: within each list, by name or as their sets have them.
func (p placed) compare(other placed) int {
	switch {
	case p.init && !other.init:
		return 1
	case !p.init && other.init:
		return -1
	case p.byName:
		return cmp.Compare(p.name, other.name)
	}
	return cmp.Or(cmp.Compare(p.set, other.set), cmp.Compare(p.position, other.position))
}

func versionEnv(name, annotation string) map[string]any {
	return map[string]any{"name": name, "valueFrom": map[string]any{
		"fieldRef": map[string]any{"apiVersion": "v1", "fieldPath": "metadata.annotations['" + annotation + "']"},
	}}
}

// withEnv appends variables to a container's env. Its own win.
func withEnv(container map[string]any, added ...map[string]any) []any {
	env := append([]any{}, listOf(container, "env")...)
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

// names are the names in a block, sorted.
func names(all []placed, init, first bool) []string {
	var names []string
	for _, p := range all {
		if p.init == init && p.first == first {
			names = append(names, p.name)
		}
	}
	return distinct(names)
}

// distinct are the texts, sorted, each once; never nil.
func distinct(texts []string) []string {
	all := append([]string{}, texts...)
	slices.Sort(all)
	return slices.Compact(all)
}

// compile returns the container for an Injection. all are those of all sets, in order.
func (p placed) compile(all []placed) Container {
	c := Container{
		Value: p.container, Name: p.name, First: p.first, Hot: p.pair > 0, Transfers: []Transfer{},
		ShareMounts:  p.extra.ShareVolumePolicy.Type == appsv1beta1.ShareVolumePolicyEnabled,
		ShareDevices: ptr.Deref(p.extra.ShareVolumeDevicePolicy, appsv1beta1.ShareVolumePolicy{}).Type == appsv1beta1.ShareVolumePolicyEnabled,
	}
	at := slices.IndexFunc(all, func(o placed) bool { return o.init == p.init && o.name == p.name && o.set == p.set })
	for i, o := range all {
		if o.init == p.init && o.first == p.first && o.name != p.name && (i < at) == p.first {
			c.Beyond = append(c.Beyond, o.name)
		}
	}
	c.Beyond = distinct(c.Beyond)
	for _, t := range p.extra.TransferEnv {
		one := Transfer{From: t.SourceContainerName}
		if t.SourceContainerNameFrom != nil && t.SourceContainerNameFrom.FieldRef != nil {
			one.From = ""
			one.Label, one.Annotation = subscript(t.SourceContainerNameFrom.FieldRef)
		}
		if t.EnvName != "" {
			one.Names = append(one.Names, t.EnvName)
		}
		one.Names = distinct(append(one.Names, t.EnvNames...))
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
