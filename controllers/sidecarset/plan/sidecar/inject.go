// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/podentry"
)

// Pod is a new pod as JSON, with further inputs.
type Pod struct {
	// Object is changed by Inject.
	Object map[string]any
	// Namespace are the labels of its namespace.
	Namespace map[string]string
	// Draw is random, from 0 to 99, and decides percentages.
	Draw int32
}

// Inject adds the set's sidecars to the pod; false: it had none. It is idempotent. An error
// is for the pod's author: creation fails. It ignores the status: the API server clears it.
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

// choose returns the pod's variant. The draw decides shares; a pod coming twice keeps its variant.
func (i Injection) choose(pod Pod, labels, annotations map[string]string) *Variant {
	for at := range i.Variants {
		v := &i.Variants[at]
		if !podentry.Hold(v.When, labels) {
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
	// marked: the annotations name the set and its hash already.
	marked bool
	// containers and inits came with the pod.
	containers, inits []any
	// sources are the pod's own containers, natives its own native sidecars, lenders both: transferEnv may name these.
	sources, natives, lenders []map[string]any
	// variables of each lender by name, filled on demand.
	variables []map[string]any
	// shared is how many bytes of subPathExpr sidecars have got from the sources.
	shared int
	// foreign are the names of all sidecars of the pod.
	foreign map[string]bool
	// first, last, initFirst and initLast are the same by block; volumes and secrets come from sets.
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

// own returns the containers no set brings.
func (w *work) own(list []any) []map[string]any {
	var own []map[string]any
	for _, one := range list {
		if c, is := one.(map[string]any); is && !w.foreign[nameOf(c)] && !injected(c) {
			own = append(own, c)
		}
	}
	return own
}

// marked reports whether the pod records the variant. Anybody
// can write the record, so ask only about present containers.
func (v *Variant) marked(annotations map[string]string) bool {
	return strings.Contains(annotations[shared.AnnotationSidecarSetHash], v.Mark)
}

func injected(container map[string]any) bool {
	return slices.ContainsFunc(listOf(container, "env"), func(e any) bool { return nameOf(e) == shared.EnvIsInjected && textOf(e, "value") == "true" })
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

// Replaces returns the pod's own containers to be replaced by
// sidecars of the same name, in any variant. It omits injected ones.
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

// merged inserts the sidecars into a list. All sets' sidecars form a block before the pod's containers, and one behind.
//
//  1. A container of the same name is replaced in place, or kept if this set injected it.
//  2. In the block before, each goes behind its predecessors.
//  3. In the block behind, each goes before its successors.
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

// kept reports whether the container is this sidecar already. A pod
// may come twice, changed by others meanwhile, say to an image mirror.
func (w *work) kept(existing map[string]any, c Container) bool {
	return w.marked && injected(existing) && (!c.Hot || textOf(existing, "image") == textOf(c.Value, "image"))
}

// leading returns the names at the start of a list, all in the set.
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

// trailing returns the names at the end of a list, all in the set.
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

// sortedIn adds missing names to a list. The sets' own stand last, sorted; the pod's own win.
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
