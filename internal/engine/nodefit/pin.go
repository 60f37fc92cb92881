// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package nodefit

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Pin aims a pod at a node and leaves its binding to the scheduler. It replaces the template's
// required terms: the node fits, and the terms of an affinity are alternatives, so one more would
// widen the choice. Preferences stay. spec gets an affinity of its own, perhaps with shared parts.
func Pin(spec *corev1.PodSpec, node string) {
	affinity := ptr.Deref(spec.Affinity, corev1.Affinity{})
	ofNodes := ptr.Deref(affinity.NodeAffinity, corev1.NodeAffinity{})
	spec.Affinity, affinity.NodeAffinity = &affinity, &ofNodes
	ofNodes.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
		}},
	}
}

// NodeOf is the name of a pod's node, by its binding or its node affinity; empty for neither.
func NodeOf(pod *corev1.Pod) string {
	if pod.Spec.NodeName != "" {
		return pod.Spec.NodeName
	}
	if a := pod.Spec.Affinity; a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	for _, term := range pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		i := slices.IndexFunc(term.MatchFields, func(r corev1.NodeSelectorRequirement) bool {
			return r.Key == metav1.ObjectNameField && r.Operator == corev1.NodeSelectorOpIn && len(r.Values) == 1
		})
		if i >= 0 {
			return term.MatchFields[i].Values[0]
		}
	}
	return ""
}
