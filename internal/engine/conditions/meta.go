// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FromMeta translates the conditions of a status that stores them as Kubernetes' own type.
func FromMeta(stored []metav1.Condition) []Condition {
	all := make([]Condition, len(stored))
	for i, c := range stored {
		all[i] = Condition{
			Type: c.Type, Status: corev1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message, LastTransitionTime: c.LastTransitionTime,
		}
	}
	return all
}

// ToMeta is the list as Kubernetes' own type. generation is the generation of the spec that the conditions are about; 0 leaves it out.
func (l *List) ToMeta(generation int64) []metav1.Condition {
	var all []metav1.Condition
	for _, c := range l.after {
		all = append(all, metav1.Condition{
			Type: c.Type, Status: metav1.ConditionStatus(c.Status), ObservedGeneration: generation, Reason: c.Reason,
			Message: c.Message, LastTransitionTime: c.LastTransitionTime,
		})
	}
	return all
}
