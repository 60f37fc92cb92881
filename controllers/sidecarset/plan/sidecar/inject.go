// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kruise-operator/kruise-operator/internal/engine/podentry"
)

// Pod is a pod that is being created, as JSON, with what decides beside it.
type Pod struct {
	// Object is changed by Inject.
	Object map[string]any
	// Namespace are the labels of its namespace.
	Namespace map[string]string
	// Draw is a number from 0 to 99, drawn at random: it decides where a percentage of pods is asked for.
	Draw int32
}

// Inject puts into the pod what the set has for it, and says whether it had anything. Once more changes nothing. An error is for the
// author of the pod: it cannot be created. The status of the pod is not looked at: the API server empties it.
func (i Injection) Inject(pod Pod) (bool, error) {
	labels, annotations := stringsAt(pod.Object, "metadata", "labels"), stringsAt(pod.Object, "metadata", "annotations")
	if _, mirror := annotations[podentry.MirrorAnnotation]; mirror {
		return false, nil
	}
	others, injects := i.injecting(labels, pod.Namespace)
	v := i.choose(pod, labels, annotations)
	if !injects || v == nil {
		return false, nil
	}
	spec, _ := pod.Object["spec"].(map[string]any)
	if spec == nil {
		spec = map[string]any{}
		pod.Object["spec"] = spec
	}
	if tooLarge(spec, annotations) {
		return false, fmt.Errorf("SidecarSet %s: %s", i.Set, tooLargeWords)
	}
	w := newWork(spec, *v, others, labels, annotations)
	if err := w.computeAll(i.Set); err != nil {
		return false, err
	}
	changed := maps.Clone(annotations)
	if changed == nil {
		changed = map[string]string{}
	}
	if err := v.annotate(i.Set, changed, others, i.absent(others)); err != nil {
		return false, err
	}
	w.write()
	metadata, _ := pod.Object["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		pod.Object["metadata"] = metadata
	}
	text := make(map[string]any, len(changed))
	for key, value := range changed {
		text[key] = value
	}
	metadata["annotations"] = text
	return true, nil
}

// choose returns the variant for a pod. Where a share of the pods gets one, the draw decides; a pod that comes twice keeps what it got.
func (i Injection) choose(pod Pod, labels, annotations map[string]string) *Variant {
	for at := range i.Variants {
		v := &i.Variants[at]
		if !hold(v.When, labels) {
			continue
		}
		if v.Percent != nil && !v.marked(annotations) {
			later := slices.ContainsFunc(i.Variants[at+1:], func(later Variant) bool { return later.marked(annotations) })
			if later || pod.Draw >= *v.Percent {
				continue
			}
		}
		return v
	}
	return nil
}

// work is the pod while one set is injected.
type work struct {
	spec                map[string]any
	variant             Variant
	labels, annotations map[string]string
	// marked says that the pod's annotations name the set and its hash already.
	marked bool
	// containers and inits are those that the pod came with.
	containers, inits []any
	// sources are those containers from which sidecars copy: the pod's own. natives are its own native sidecars, lenders both: those that transferEnv may name.
	sources, natives, lenders []map[string]any
	// variables are those of each lender, by name, once they were asked for.
	variables []map[string]any
	// shared is how many bytes of subPathExpr sidecars have got from the sources.
	shared int
	// foreign are the names of all sidecars that the pod gets.
	foreign map[string]bool
	// first, last, initFirst and initLast are the same by block; volumes and secrets are names that sets bring.
	first, last, initFirst, initLast map[string]bool
	volumes, secrets                 map[string]bool
	// injected and injectedInits are the sidecars of the set as they get into this pod.
	injected, injectedInits []any
}

func newWork(spec map[string]any, v Variant, others []Other, labels, annotations map[string]string) *work {
	w := &work{
		spec: spec, variant: v, labels: labels, annotations: annotations, marked: v.marked(annotations),
		containers: listOf(spec, "containers"), inits: listOf(spec, "initContainers"), foreign: map[string]bool{},
		first: map[string]bool{}, last: map[string]bool{}, initFirst: map[string]bool{}, initLast: map[string]bool{},
		volumes: map[string]bool{}, secrets: map[string]bool{},
	}
	add := func(names []string, sets ...map[string]bool) {
		for _, name := range names {
			for _, set := range sets {
				set[name] = true
			}
		}
	}
	for _, o := range others {
		add(o.First, w.first, w.foreign)
		add(o.Last, w.last, w.foreign)
		add(o.InitFirst, w.initFirst, w.foreign)
		add(o.InitLast, w.initLast, w.foreign)
		add(o.Volumes, w.volumes)
		add(o.Secrets, w.secrets)
	}
	own := func(all []Container, first, last map[string]bool) {
		for _, c := range all {
			block := last
			if c.First {
				block = first
			}
			add([]string{c.Name}, block, w.foreign)
		}
	}
	own(v.Containers, w.first, w.last)
	own(v.InitContainers, w.initFirst, w.initLast)
	for _, volume := range v.Volumes {
		w.volumes[nameOf(volume)] = true
	}
	add(v.Secrets, w.secrets)
	w.sources, w.natives = w.own(w.containers), w.own(w.inits)
	w.natives = slices.DeleteFunc(w.natives, func(c map[string]any) bool { return c["restartPolicy"] != "Always" })
	w.lenders = slices.Concat(w.sources, w.natives)
	return w
}

// own are the containers of a list that no set brings.
func (w *work) own(list []any) []map[string]any {
	var own []map[string]any
	for _, one := range list {
		if c, is := one.(map[string]any); is && !w.foreign[nameOf(c)] && !injected(c) {
			own = append(own, c)
		}
	}
	return own
}

// marked says whether the pod says of itself that it has what the variant injects. That alone is no proof: it is asked only of containers
// that are there.
func (v *Variant) marked(annotations map[string]string) bool {
	return strings.Contains(annotations[HashAnnotation], v.Mark)
}

func injected(container map[string]any) bool {
	return slices.ContainsFunc(listOf(container, "env"), func(e any) bool { return nameOf(e) == InjectedEnv && textOf(e, "value") == "true" })
}

// computeAll makes the sidecars of the set for this pod.
func (w *work) computeAll(set string) error {
	for _, c := range w.variant.Containers {
		value, err := w.compute(set, c)
		if err != nil {
			return err
		}
		w.injected = append(w.injected, value)
	}
	for _, c := range w.variant.InitContainers {
		value, err := w.compute(set, c)
		if err != nil {
			return err
		}
		w.injectedInits = append(w.injectedInits, value)
	}
	return nil
}

// write puts everything into the pod.
func (w *work) write() {
	if list := w.merged(w.containers, w.variant.Containers, w.injected, w.first, w.last); len(list) > 0 {
		w.spec["containers"] = list
	}
	if list := w.merged(w.inits, w.variant.InitContainers, w.injectedInits, w.initFirst, w.initLast); len(list) > 0 {
		w.spec["initContainers"] = list
	}
	volumes := make([]any, len(w.variant.Volumes))
	for i := range w.variant.Volumes {
		volumes[i] = w.variant.Volumes[i]
	}
	if list := sortedIn(listOf(w.spec, "volumes"), volumes, w.volumes); len(list) > 0 {
		w.spec["volumes"] = list
	}
	secrets := make([]any, len(w.variant.Secrets))
	for i, name := range w.variant.Secrets {
		secrets[i] = map[string]any{"name": name}
	}
	if list := sortedIn(listOf(w.spec, "imagePullSecrets"), secrets, w.secrets); len(list) > 0 {
		w.spec["imagePullSecrets"] = list
	}
}

// Replaces are the names of the pod's own containers in whose place sidecars of the same names are put, as far as can be said before it is injected:
// those of any variant. A container that was injected already is none.
func (i Injection) Replaces(pod map[string]any) []string {
	var names []string
	spec, _ := pod["spec"].(map[string]any)
	for _, list := range []string{"initContainers", "containers"} {
		for _, one := range listOf(spec, list) {
			container, _ := one.(map[string]any)
			name := nameOf(one)
			if injected(container) || slices.Contains(names, name) {
				continue
			}
			for v := range i.Variants {
				sidecars := i.Variants[v].Containers
				if list == "initContainers" {
					sidecars = i.Variants[v].InitContainers
				}
				if slices.ContainsFunc(sidecars, func(c Container) bool { return c.Name == name }) {
					names = append(names, name)
					break
				}
			}
		}
	}
	return names
}

// merged is a list of containers with the sidecars in it. The sidecars of all sets stand in a block before the containers of the pod and in
// another one behind them.
//
//  1. A container of the same name is replaced at its place. One that the pod has from this set already is left as it is.
//  2. Of those before the pod's, each goes behind the ones of the block that belong before it.
//  3. Of those behind, each goes before the ones of the block that belong after it.
func (w *work) merged(have []any, sidecars []Container, values []any, first, last map[string]bool) []any {
	list := slices.Clone(have)
	lead, trail := leading(have, first), trailing(have, last)
	var fresh []int
	for i, c := range sidecars {
		at := slices.IndexFunc(have, func(one any) bool { return nameOf(one) == c.Name })
		if at < 0 {
			fresh = append(fresh, i)
			continue
		}
		if existing, _ := have[at].(map[string]any); !w.kept(existing, c) {
			list[at] = values[i]
		}
	}
	inserted := 0
	for _, i := range fresh {
		if c := sidecars[i]; c.First {
			list = slices.Insert(list, count(lead, c.Beyond)+inserted, values[i])
			inserted++
		}
	}
	for _, i := range fresh {
		if c := sidecars[i]; !c.First {
			list = slices.Insert(list, len(have)-count(trail, c.Beyond)+inserted, values[i])
			inserted++
		}
	}
	return list
}

// kept says whether a container of the pod is this sidecar already: a pod may come a second time, with what others changed in it since, as the
// image for one of a mirror.
func (w *work) kept(existing map[string]any, c Container) bool {
	return w.marked && injected(existing) && (!c.Hot || textOf(existing, "image") == textOf(c.Value, "image"))
}

// leading are the names at the beginning of a list that are all in the set.
func leading(list []any, in map[string]bool) []string {
	var names []string
	for _, one := range list {
		if !in[nameOf(one)] {
			break
		}
		names = append(names, nameOf(one))
	}
	return names
}

// trailing are the names at the end of a list that are all in the set.
func trailing(list []any, in map[string]bool) []string {
	var names []string
	for _, one := range slices.Backward(list) {
		if !in[nameOf(one)] {
			break
		}
		names = append(names, nameOf(one))
	}
	return names
}

// count is how many of the names are among others.
func count(names, among []string) int {
	n := 0
	for _, name := range names {
		if slices.Contains(among, name) {
			n++
		}
	}
	return n
}

// sortedIn adds to a list what it lacks by name. What sets bring stands at the end, sorted by name. What the pod has itself wins.
func sortedIn(have, added []any, foreign map[string]bool) []any {
	list := slices.Clone(have)
	trail := trailing(have, foreign)
	inserted := 0
	for _, one := range added {
		if slices.ContainsFunc(have, func(h any) bool { return nameOf(h) == nameOf(one) }) {
			continue
		}
		after := 0
		for _, name := range trail {
			if name > nameOf(one) {
				after++
			}
		}
		list = slices.Insert(list, len(have)-after+inserted, one)
		inserted++
	}
	return list
}

// stringsAt is a map of strings in an object.
func stringsAt(object map[string]any, path ...string) map[string]string {
	var value any = object
	for _, field := range path {
		fields, _ := value.(map[string]any)
		value = fields[field]
	}
	fields, _ := value.(map[string]any)
	if len(fields) == 0 {
		return nil
	}
	out := make(map[string]string, len(fields))
	for key, value := range fields {
		if text, is := value.(string); is {
			out[key] = text
		}
	}
	return out
}
