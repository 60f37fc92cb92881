// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Stored has the fields of the conditions of StatefulSets, DaemonSets and UnitedDeployments, whose types differ in the type K of a name alone:
// each converts from and to it. Where a type gets another field, the conversion does not compile.
type Stored[K ~string] struct {
	Type               K
	Status             corev1.ConditionStatus
	LastTransitionTime metav1.Time
	Reason, Message    string
}

// From translates the conditions of a status; as converts one of them.
func From[T any, K ~string](stored []T, as func(T) Stored[K]) []Condition {
	all := make([]Condition, len(stored))
	for i := range stored {
		c := as(stored[i])
		all[i] = Condition{Type: string(c.Type), Status: c.Status, Reason: c.Reason, Message: c.Message, LastTransitionTime: c.LastTransitionTime}
	}
	return all
}

// To is the list in the type of a status; as converts one condition.
func To[T any, K ~string](l *List, as func(Stored[K]) T) []T {
	var all []T
	for _, c := range l.after {
		all = append(all, as(Stored[K]{Type: K(c.Type), Status: c.Status, Reason: c.Reason, Message: c.Message, LastTransitionTime: c.LastTransitionTime}))
	}
	return all
}

// StoredOfJob has the fields of the conditions of BroadcastJobs and EphemeralJobs.
type StoredOfJob struct {
	Type               string
	Status             corev1.ConditionStatus
	LastProbeTime      *metav1.Time
	LastTransitionTime metav1.Time
	Reason, Message    string
}

// FromJob is From for these two kinds.
func FromJob[T any](stored []T, as func(T) StoredOfJob) []Condition {
	all := make([]Condition, len(stored))
	for i := range stored {
		c := as(stored[i])
		all[i] = Condition{
			Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message,
			LastTransitionTime: c.LastTransitionTime, LastProbeTime: c.LastProbeTime,
		}
	}
	return all
}

// ToJob is To for these two kinds.
func ToJob[T any](l *List, as func(StoredOfJob) T) []T {
	var all []T
	for _, c := range l.after {
		all = append(all, as(StoredOfJob{
			Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message,
			LastTransitionTime: c.LastTransitionTime, LastProbeTime: c.LastProbeTime,
		}))
	}
	return all
}
