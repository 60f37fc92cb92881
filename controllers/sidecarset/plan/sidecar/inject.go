// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"

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
	object := &unstructured.Unstructured{Object: pod.Object}
	labels, annotations := object.GetLabels(), object.GetAnnotations()
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
	if annotations == nil {
		annotations = map[string]string{}
	}
	w := newWork(spec, *v, others, labels, annotations)
	for _, b := range []*block{w.containers, w.inits} {
		for _, c := range b.sidecars {
			value, err := w.compute(i.Set, c)
			if err != nil {
				return false, err
			}
			b.values = append(b.values, value)
		}
	}
	if err := v.annotate(i.Set, annotations, others, i.absent(others)); err != nil {
		return false, err
	}
	w.write()
	object.SetAnnotations(annotations)
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

// block is one of the pod's two lists of containers while one set is injected.
type block struct {
	// have came with the pod.
	have []any
	// sidecars of the set get into this pod as values.
	sidecars []Container
	values   []any
	// first and last are the names of all sets' sidecars before and after those of the pod.
	first, last sets.Set[string]
}

func newBlock(have []any, sidecars []Container) *block {
	b := &block{have: have, sidecars: sidecars, first: sets.New[string](), last: sets.New[string]()}
	for _, c := range sidecars {
		if c.First {
			b.first.Insert(c.Name)
		} else {
			b.last.Insert(c.Name)
		}
	}
	return b
}

// work is the pod while one set is injected.
type work struct {
	spec                map[string]any
	variant             Variant
	labels, annotations map[string]string
	// marked: the annotations name the set and its hash already.
	marked            bool
	containers, inits *block
	// sources are the pod's own containers, natives its own native sidecars, lenders both: transferEnv may name these.
	sources, natives, lenders []map[string]any
	// variables of each lender by name, the first one of each.
	variables []map[string]any
	// shared is how many bytes of subPathExpr sidecars have got from the sources.
	shared int
	// volumes and secrets come from sets.
	volumes, secrets sets.Set[string]
}

func newWork(spec map[string]any, v Variant, others []Other, labels, annotations map[string]string) *work {
	w := &work{
		spec: spec, variant: v, labels: labels, annotations: annotations, marked: v.marked(annotations),
		containers: newBlock(listOf(spec, "containers"), v.Containers), inits: newBlock(listOf(spec, "initContainers"), v.InitContainers),
		volumes: sets.New[string](), secrets: sets.New(v.Secrets...),
	}
	for _, o := range others {
		w.containers.first.Insert(o.First...)
		w.containers.last.Insert(o.Last...)
		w.inits.first.Insert(o.InitFirst...)
		w.inits.last.Insert(o.InitLast...)
		w.volumes.Insert(o.Volumes...)
		w.secrets.Insert(o.Secrets...)
	}
	for _, volume := range v.Volumes {
		w.volumes.Insert(nameOf(volume))
	}
	w.sources, w.natives = w.own(w.containers.have), w.own(w.inits.have)
	w.natives = slices.DeleteFunc(w.natives, func(c map[string]any) bool { return c["restartPolicy"] != "Always" })
	w.lenders = slices.Concat(w.sources, w.natives)
	for _, lender := range w.lenders {
		byName := map[string]any{}
		for _, variable := range slices.Backward(listOf(lender, "env")) {
			byName[nameOf(variable)] = variable
		}
		w.variables = append(w.variables, byName)
	}
	return w
}

// own returns the containers no set brings.
func (w *work) own(list []any) []map[string]any {
	brought := []sets.Set[string]{w.containers.first, w.containers.last, w.inits.first, w.inits.last}
	return slices.DeleteFunc(objects(list), func(c map[string]any) bool {
		return injected(c) || slices.ContainsFunc(brought, func(names sets.Set[string]) bool { return names.Has(nameOf(c)) })
	})
}

// marked reports whether the pod records the variant. Anybody
// can write the record, so ask only about present containers.
func (v *Variant) marked(annotations map[string]string) bool {
	return strings.Contains(annotations[shared.AnnotationSidecarSetHash], v.Mark)
}

func injected(container map[string]any) bool {
	return slices.ContainsFunc(listOf(container, "env"), func(e any) bool { return nameOf(e) == shared.EnvIsInjected && textOf(e, "value") == "true" })
}

// write puts everything into the pod.
func (w *work) write() {
	setList(w.spec, "containers", w.merged(w.containers))
	setList(w.spec, "initContainers", w.merged(w.inits))
	setList(w.spec, "volumes", sortedIn(listOf(w.spec, "volumes"), w.variant.Volumes, w.volumes))
	var secrets []map[string]any
	for _, name := range w.variant.Secrets {
		secrets = append(secrets, map[string]any{"name": name})
	}
	setList(w.spec, "imagePullSecrets", sortedIn(listOf(w.spec, "imagePullSecrets"), secrets, w.secrets))
}

// Replaces returns the pod's own containers to be replaced by
// sidecars of the same name, in any variant. It omits injected ones.
func (i Injection) Replaces(pod map[string]any) []string {
	spec, _ := pod["spec"].(map[string]any)
	sidecars := i.names()
	var replaced []string
	for _, c := range objects(slices.Concat(listOf(spec, "initContainers"), listOf(spec, "containers"))) {
		if name := nameOf(c); sidecars.Has(name) && !injected(c) && !slices.Contains(replaced, name) {
			replaced = append(replaced, name)
		}
	}
	return replaced
}

// merged inserts the sidecars into a list. All sets' sidecars form a block before the pod's containers, and one behind.
//
//  1. A container of the same name is replaced in place, or kept if this set injected it.
//  2. In the block before, each goes behind its predecessors.
//  3. In the block behind, each goes before its successors.
func (w *work) merged(b *block) []any {
	list := slices.Clone(b.have)
	lead, trail := run(slices.All(b.have), b.first), run(slices.Backward(b.have), b.last)
	var fresh []int
	for i, c := range b.sidecars {
		at := slices.IndexFunc(b.have, func(one any) bool { return nameOf(one) == c.Name })
		if at < 0 {
			fresh = append(fresh, i)
			continue
		}
		if existing, _ := b.have[at].(map[string]any); !w.kept(existing, c) {
			list[at] = b.values[i]
		}
	}
	inserted := 0
	for _, first := range []bool{true, false} {
		for _, i := range fresh {
			c := b.sidecars[i]
			if c.First != first {
				continue
			}
			beyond := func(name string) bool { return slices.Contains(c.Beyond, name) }
			at := len(b.have) - count(trail, beyond)
			if first {
				at = count(lead, beyond)
			}
			list = slices.Insert(list, at+inserted, b.values[i])
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

// run returns the names with which a list begins, all in the set.
func run(list iter.Seq2[int, any], in sets.Set[string]) []string {
	var names []string
	for _, one := range list {
		if !in.Has(nameOf(one)) {
			break
		}
		names = append(names, nameOf(one))
	}
	return names
}

// count is how many of the names are such.
func count(names []string, are func(string) bool) int {
	n := 0
	for _, name := range names {
		if are(name) {
			n++
		}
	}
	return n
}

// sortedIn adds missing names to a list. The sets' own stand last, sorted; the pod's own win.
func sortedIn(have []any, added []map[string]any, foreign sets.Set[string]) []any {
	list := slices.Clone(have)
	trail := run(slices.Backward(have), foreign)
	inserted := 0
	for _, one := range added {
		if slices.ContainsFunc(have, func(h any) bool { return nameOf(h) == nameOf(one) }) {
			continue
		}
		after := count(trail, func(name string) bool { return name > nameOf(one) })
		list = slices.Insert(list, len(have)-after+inserted, any(one))
		inserted++
	}
	return list
}

// Bounds of pods with sidecars. They are far above real pods, and keep injection below
// a second at the API server and here. The policy has the same numbers and words.
const (
	maxContainers, maxVolumes, maxSecrets, maxVariables, maxText = 1000, 2000, 1000, 10_000, 65_536

	tooLargeWords = "the pod is too large to get sidecars: it may have 1000 containers, 1000 init containers, 2000 volumes, 1000 pull secrets, " +
		"10000 environment variables, and 65536 characters in each annotation of SidecarSets"
)

// tooLarge reports whether the pod exceeds the bounds. The policy calls it large.
func tooLarge(spec map[string]any, annotations map[string]string) bool {
	containers, inits, env := listOf(spec, "containers"), listOf(spec, "initContainers"), 0
	for _, c := range objects(slices.Concat(containers, inits)) {
		env += len(listOf(c, "env"))
	}
	ours := []string{shared.AnnotationSidecarSetHash, shared.AnnotationSidecarSetHashWithoutImage, shared.AnnotationSidecarSetInjectedList, shared.AnnotationSidecarSetWorkingContainer}
	return len(containers) > maxContainers || len(inits) > maxContainers || len(listOf(spec, "volumes")) > maxVolumes ||
		len(listOf(spec, "imagePullSecrets")) > maxSecrets || env > maxVariables ||
		slices.ContainsFunc(ours, func(key string) bool { return utf8.RuneCountInString(annotations[key]) > maxText })
}
