// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/internal/engine/podentry"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

// requirementsOf are those of a selector, sorted by key. None is none: whether an empty selector matches all is the caller's business.
func requirementsOf(selector *metav1.LabelSelector) ([]podentry.Requirement, error) {
	requirements := []podentry.Requirement{}
	if selector == nil {
		return requirements, nil
	}
	if _, err := metav1.LabelSelectorAsSelector(selector); err != nil {
		return nil, err
	}
	for _, key := range slices.Sorted(maps.Keys(selector.MatchLabels)) {
		requirements = append(requirements, podentry.Requirement{Key: key, Op: string(metav1.LabelSelectorOpIn), Values: []string{selector.MatchLabels[key]}})
	}
	for _, e := range selector.MatchExpressions {
		requirements = append(requirements, podentry.Requirement{Key: e.Key, Op: string(e.Operator), Values: append([]string{}, e.Values...)})
	}
	return requirements, nil
}

func hold(requirements []podentry.Requirement, labels map[string]string) bool {
	return !slices.ContainsFunc(requirements, func(r podentry.Requirement) bool { return !r.Holds(labels) })
}

// Exempt says which namespaces a selector names although nothing is injected there, so that nothing there depends on the operator; empty: none. only: it
// selects no others.
func Exempt(selector *metav1.LabelSelector, operator string) (message string, only bool) {
	requirements, err := requirementsOf(selector)
	if err != nil {
		return "", false
	}
	return Match{Namespace: requirements}.Exempt(operator)
}

// Exempt is the same of a match.
func (m Match) Exempt(operator string) (message string, only bool) {
	var named []string
	for _, r := range m.Namespace {
		if r.Key != corev1.LabelMetadataName || r.Op != string(metav1.LabelSelectorOpIn) {
			continue
		}
		others := len(r.Values)
		for _, name := range r.Values {
			if name == metav1.NamespaceSystem || name == operator {
				named, others = append(named, name), others-1
			}
		}
		only = only || others == 0
	}
	if len(named) == 0 {
		return "", false
	}
	return "nothing is injected in namespace " + strings.Join(named, ", ") + ", which is exempt", only
}

// Selects says whether a pod with these labels, in a namespace with those, is selected.
func (m Match) Selects(pod, namespace map[string]string) bool {
	return hold(m.Labels, pod) && hold(m.Namespace, namespace)
}

// disjoint says whether no pod can be selected by both, as far as two requirements on one key show it.
func disjoint(a, b Match) bool {
	return contradict(a.Labels, b.Labels) || contradict(a.Namespace, b.Namespace)
}

func contradict(a, b []podentry.Requirement) bool {
	return slices.ContainsFunc(a, func(x podentry.Requirement) bool {
		return slices.ContainsFunc(b, func(y podentry.Requirement) bool { return x.Key == y.Key && (x.Excludes(y) || y.Excludes(x)) })
	})
}

// NamespaceKeys are the labels of the namespace that decide beside its name, sorted: without any, the namespace need not be read.
func (i Injection) NamespaceKeys() []string {
	keys := map[string]bool{}
	for _, o := range i.Others {
		for _, r := range o.Match.Namespace {
			keys[r.Key] = r.Key != corev1.LabelMetadataName
		}
	}
	return sortedKeys(keys)
}

// injecting are the other sets that inject into the pod, too, and whether this one does.
func (i Injection) injecting(pod, namespace map[string]string) ([]Other, bool) {
	matching := map[string]bool{}
	for _, o := range i.Others {
		matching[o.Name] = o.Match.Selects(pod, namespace)
	}
	skipped := func(names []string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return matching[n] })
	}
	var others []Other
	for _, o := range i.Others {
		if matching[o.Name] && !skipped(o.Skip) {
			others = append(others, o)
		}
	}
	return others, !skipped(i.Skip)
}

// absent are the sets that the injection knows and that do not inject into the pod with it.
func (i Injection) absent(present []Other) []string {
	absent := slices.Clone(i.Drop)
	for _, o := range i.Others {
		if !slices.ContainsFunc(present, func(p Other) bool { return p.Name == o.Name }) {
			absent = append(absent, o.Name)
		}
	}
	return absent
}

// Clashes are the containers that another set gives to pods which both select, too, in words, in the order of the sets' names. A pod has that of one of the two.
// Admission refuses such a set, but not where two come at the same moment.
func (i Injection) Clashes() []string {
	own := map[string]bool{}
	for _, v := range i.Variants {
		for _, c := range slices.Concat(v.Containers, v.InitContainers) {
			own[c.Name] = true
		}
	}
	var clashes []string
	for _, o := range i.Others {
		if slices.Contains(i.Skip, o.Name) {
			continue
		}
		theirs := slices.Concat(o.First, o.Last, o.InitFirst, o.InitLast)
		slices.Sort(theirs)
		for _, name := range slices.Compact(theirs) {
			if own[name] {
				clashes = append(clashes, fmt.Sprintf("container %s of SidecarSet %s", name, o.Name))
			}
		}
	}
	return clashes
}

// sortedKeys are the keys whose value is true.
func sortedKeys(set map[string]bool) []string {
	keys := []string{}
	for key, in := range set {
		if in {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// InjectsInto says whether the set injects into pods with these labels that it selects: a canary may take them.
func (i Injection) InjectsInto(pod, namespace map[string]string) bool {
	_, injects := i.injecting(pod, namespace)
	return injects
}

// Lacks says whether an existing pod should have the sidecars of the set, which selects it, and was created without them. Mirror pods, which belong
// to their node, and pods that are finished or on their way out need none.
//
// A pod that names the set but has none of its containers was copied from another one while nothing injected: injection itself mends such a list.
func (i Injection) Lacks(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return false
	}
	if slices.ContainsFunc(pod.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "Node" && o.APIVersion == "v1" }) {
		return false
	}
	if !slices.Contains(podstate.Listed(pod.Annotations[InjectedListAnnotation]), i.Set) {
		return true
	}
	brings := false
	for _, v := range i.Variants {
		for _, c := range v.Containers {
			brings = true
			if HasContainer(pod, c.Name) {
				return false
			}
		}
	}
	return brings && len(pod.Spec.Containers) > 0 && !i.recorded(pod)
}

// recorded says that the pod has all containers that it got by its own record, from an earlier revision of the set.
func (i Injection) recorded(pod *corev1.Pod) bool {
	if _, has := EntriesOf(pod, HashAnnotation)[i.Set]; !has {
		return false
	}
	return !slices.ContainsFunc(EntryOf(pod, HashAnnotation, i.Set).SidecarList, func(template string) bool {
		native := slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == template || c.Name == template+"-1" })
		return !native && !HasContainer(pod, template) && !HasContainer(pod, template+"-1")
	})
}
