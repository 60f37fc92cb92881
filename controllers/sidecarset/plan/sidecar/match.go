// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/podentry"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

// MatchOf is what the selectors of a set select.
func MatchOf(pods, namespaces *metav1.LabelSelector) (Match, error) {
	labels, err := podentry.Requirements(pods)
	if err != nil {
		return Match{}, fmt.Errorf("spec.selector: %w", err)
	}
	if len(labels) == 0 {
		return Match{}, errors.New("spec.selector: it must have at least one requirement")
	}
	namespace, err := podentry.Requirements(namespaces)
	if err != nil {
		return Match{}, fmt.Errorf("spec.namespaceSelector: %w", err)
	}
	return Match{Labels: labels, Namespace: namespace}, nil
}

// Exempt names selected namespaces without injection, kept independent
// of the operator; empty: none. only: the selector matches no others.
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

// Selects reports whether the labels of a pod and its namespace match.
func (m Match) Selects(pod, namespace map[string]string) bool {
	return podentry.Hold(m.Labels, pod) && podentry.Hold(m.Namespace, namespace)
}

// Meets reports whether both may select some pod.
func (m Match) Meets(other Match) bool {
	_, pods := podentry.Example(slices.Concat(m.Labels, other.Labels))
	_, namespaces := podentry.Example(slices.Concat(m.Namespace, other.Namespace))
	return pods && namespaces
}

// ReadsNamespace reports whether labels of the namespace decide, beside its name.
func (i Injection) ReadsNamespace() bool {
	other := func(r podentry.Requirement) bool { return r.Key != corev1.LabelMetadataName }
	return slices.ContainsFunc(i.Others, func(o Other) bool { return slices.ContainsFunc(o.Match.Namespace, other) })
}

// injecting returns the other sets injecting into the pod; true: this one does too.
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

// absent returns the known sets not injecting into the pod.
func (i Injection) absent(present []Other) []string {
	absent := slices.Clone(i.Drop)
	for _, o := range i.Others {
		if !slices.ContainsFunc(present, func(p Other) bool { return p.Name == o.Name }) {
			absent = append(absent, o.Name)
		}
	}
	return absent
}

// names are those of all sidecars, in any variant.
func (i Injection) names() sets.Set[string] {
	names := sets.New[string]()
	for _, v := range i.Variants {
		for _, c := range v.sidecars() {
			names.Insert(c.Name)
		}
	}
	return names
}

// Clashes lists, in words and by set, containers other sets also give these
// pods: only one gets in. Admission refuses such sets, unless both come at once.
func (i Injection) Clashes() []string {
	own := i.names()
	var clashes []string
	for _, o := range i.Others {
		if slices.Contains(i.Skip, o.Name) {
			continue
		}
		for _, name := range distinct(slices.Concat(o.First, o.Last, o.InitFirst, o.InitLast)) {
			if own.Has(name) {
				clashes = append(clashes, fmt.Sprintf("container %s of SidecarSet %s", name, o.Name))
			}
		}
	}
	return clashes
}

// InjectsInto reports whether the set injects into selected pods of these labels. A canary may take them.
func (i Injection) InjectsInto(pod, namespace map[string]string) bool {
	_, injects := i.injecting(pod, namespace)
	return injects
}

// Lacks reports whether a selected pod was created without the sidecars it should
// have. Mirror pods belong to their node; finished and terminating pods need none.
//
// A pod naming the set without its containers was copied while nothing injected; injection itself mends such a record.
func (i Injection) Lacks(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return false
	}
	if slices.ContainsFunc(pod.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "Node" && o.APIVersion == "v1" }) {
		return false
	}
	if !slices.Contains(podstate.Listed(pod.Annotations[shared.AnnotationSidecarSetInjectedList]), i.Set) {
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

// recorded reports whether the pod has all containers of its own record, by an earlier revision.
func (i Injection) recorded(pod *corev1.Pod) bool {
	if _, has := EntriesOf(pod, shared.AnnotationSidecarSetHash)[i.Set]; !has {
		return false
	}
	return !slices.ContainsFunc(EntryOf(pod, shared.AnnotationSidecarSetHash, i.Set).SidecarList, func(template string) bool {
		native := slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == template || c.Name == template+"-1" })
		return !native && !HasContainer(pod, template) && !HasContainer(pod, template+"-1")
	})
}
