// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package place makes new pods return to the place recorded for their name.
package place

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/lazy"
)

// Nodes are the cluster's.
type Nodes interface {
	// Exists: there is a node of this name.
	Exists(name string) bool
	// Carries: some node has the label.
	Carries(key, value string) bool
}

// Of is the state for a workload; nil: there is none. More than one is not admitted; the
// first by name counts then.
func Of(states []*appsv1beta1.PersistentPodState, workload schema.GroupKind, name string) *appsv1beta1.PersistentPodState {
	var first *appsv1beta1.PersistentPodState
	for _, state := range states {
		if state.DeletionTimestamp == nil && Targets(state, workload, name) && (first == nil || state.Name < first.Name) {
			first = state
		}
	}
	return first
}

// Targets is true for the state's workload, in any version.
func Targets(state *appsv1beta1.PersistentPodState, workload schema.GroupKind, name string) bool {
	target := state.Spec.TargetRef
	return target.Name == name && schema.FromAPIVersionAndKind(target.APIVersion, target.Kind).GroupKind() == workload
}

// Required are the recorded labels a new pod must find. A value is gone once neither the
// recorded node nor any with the label exists: it would hold the pod for ever. While the node
// exists, its label may only be missing for a moment.
func Required(state *appsv1beta1.PersistentPodState, pod string, nodes Nodes) (found, gone map[string]string) {
	found, gone = map[string]string{}, map[string]string{}
	at := state.Status.PodStates[pod]
	if state.Spec.RequiredPersistentTopology == nil {
		return found, gone
	}
	for _, key := range state.Spec.RequiredPersistentTopology.Keys {
		value, recorded := at.NodeTopologyLabels[key]
		switch {
		case !recorded:
		case nodes.Exists(at.NodeName) || nodes.Carries(key, value):
			found[key] = value
		default:
			gone[key] = value
		}
	}
	return found, gone
}

// Preferred are the recorded labels a new pod should find.
func Preferred(state *appsv1beta1.PersistentPodState, pod string) []corev1.PreferredSchedulingTerm {
	labels := state.Status.PodStates[pod].NodeTopologyLabels
	var terms []corev1.PreferredSchedulingTerm
	for i := range state.Spec.PreferredPersistentTopology {
		item := &state.Spec.PreferredPersistentTopology[i]
		term := corev1.PreferredSchedulingTerm{Weight: min(max(item.Weight, 1), 100)}
		for _, key := range item.Preference.Keys {
			if value, recorded := labels[key]; recorded {
				term.Preference.MatchExpressions = append(term.Preference.MatchExpressions, corev1.NodeSelectorRequirement{
					Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value},
				})
			}
		}
		if len(term.Preference.MatchExpressions) > 0 {
			terms = append(terms, term)
		}
	}
	return terms
}

// Return makes a new pod return to its place, and is true if it has one. A second call
// changes nothing. It replaces parts of the pod, and never changes them.
func Return(pod *corev1.Pod, state *appsv1beta1.PersistentPodState, nodes Nodes) bool {
	required, _ := Required(state, pod.Name, nodes)
	preferred := Preferred(state, pod.Name)
	if len(required) == 0 && len(preferred) == 0 {
		return false
	}
	pod.Annotations = with(pod.Annotations, map[string]string{shared.AnnotationInjectedPersistentPodState: state.Name})
	if len(required) > 0 {
		pod.Spec.NodeSelector = with(pod.Spec.NodeSelector, required)
	}
	if len(preferred) > 0 {
		pod.Spec.Affinity = preferring(pod.Spec.Affinity, preferred)
	}
	return true
}

func with(has, more map[string]string) map[string]string {
	all := maps.Clone(has)
	for key, value := range more {
		lazy.Put(&all, key, value)
	}
	return all
}

func preferring(affinity *corev1.Affinity, terms []corev1.PreferredSchedulingTerm) *corev1.Affinity {
	all := cmp.Or(affinity.DeepCopy(), &corev1.Affinity{})
	if all.NodeAffinity == nil {
		all.NodeAffinity = &corev1.NodeAffinity{}
	}
	preferred := &all.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	for _, term := range terms {
		has := func(other corev1.PreferredSchedulingTerm) bool { return equality.Semantic.DeepEqual(term, other) }
		if !slices.ContainsFunc(*preferred, has) {
			*preferred = append(*preferred, term)
		}
	}
	return all
}
