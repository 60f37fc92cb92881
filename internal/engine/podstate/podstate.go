// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package podstate knows facts about one pod: whether it is ready, available now or in how long,
// and who holds it out of service.
//
// A pod has two readiness gates of ours. InPlaceUpdateReady is a plain condition. Several writers
// share KruisePodReady, each with its own key, and it is True only while nobody holds one. Whoever
// makes one False writes the pod's Ready condition with it, so endpoints react without the kubelet;
// only the kubelet makes Ready True again.
package podstate

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
)

// Condition returns the pod's condition of a type, or nil. It points into the pod: read-only.
func Condition(pod *corev1.Pod, conditionType corev1.PodConditionType) *corev1.PodCondition {
	return find(pod.Status.Conditions, conditionType)
}

// HasGate says that the pod's spec lists the readiness gate.
func HasGate(pod *corev1.Pod, conditionType corev1.PodConditionType) bool {
	return slices.ContainsFunc(pod.Spec.ReadinessGates, func(gate corev1.PodReadinessGate) bool {
		return gate.ConditionType == conditionType
	})
}

// Ready says that the pod's Ready condition is True.
func Ready(pod *corev1.Pod) bool {
	return isTrue(Condition(pod, corev1.PodReady))
}

// RunningAndReady says that the pod's phase is Running and its Ready condition is True.
func RunningAndReady(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodRunning && Ready(pod)
}

// Finished says that the pod has failed or succeeded and will not run again.
func Finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// Availability says whether the pod is running and has been ready for at least minReady. When only
// time is missing, it returns how much. Lifecycle hooks and updates in place are not looked at.
//
// A Ready condition without a transition time counts from the latest change of any condition of the
// pod: other managers leave it out, and such a pod would otherwise never become available.
func Availability(pod *corev1.Pod, minReady time.Duration, now time.Time) (available bool, in time.Duration) {
	if !RunningAndReady(pod) {
		return false, 0
	}
	if minReady <= 0 {
		return true, 0
	}
	since := Condition(pod, corev1.PodReady).LastTransitionTime.Time
	if since.IsZero() {
		since = lastChange(pod)
	}
	if left := since.Add(minReady).Sub(now); left > 0 {
		return false, left
	}
	return true, 0
}

// InitialConditions returns the missing conditions of a new pod: True for each of the gates
// InPlaceUpdateReady and KruisePodReady in its spec without a condition. A terminating pod needs
// none.
func InitialConditions(pod *corev1.Pod, now time.Time) []corev1.PodCondition {
	if pod.DeletionTimestamp != nil {
		return nil
	}
	var conditions []corev1.PodCondition
	for _, gate := range []corev1.PodConditionType{shared.GateInPlaceUpdateReady, shared.GateKruisePodReady} {
		if HasGate(pod, gate) && Condition(pod, gate) == nil {
			conditions = append(conditions, corev1.PodCondition{
				Type:               gate,
				Status:             corev1.ConditionTrue,
				LastTransitionTime: Time(now),
			})
		}
	}
	return conditions
}

func lastChange(pod *corev1.Pod) time.Time {
	latest := pod.CreationTimestamp.Time
	for _, condition := range pod.Status.Conditions {
		if condition.LastTransitionTime.After(latest) {
			latest = condition.LastTransitionTime.Time
		}
	}
	return latest
}

func find(conditions []corev1.PodCondition, conditionType corev1.PodConditionType) *corev1.PodCondition {
	for i := range conditions {
		if conditions[i].Type == conditionType {
			return &conditions[i]
		}
	}
	return nil
}

func isTrue(condition *corev1.PodCondition) bool {
	return condition != nil && condition.Status == corev1.ConditionTrue
}

// Time is a time as the server stores it: in UTC, without fractions of a second.
func Time(t time.Time) metav1.Time { return metav1.NewTime(t.UTC().Truncate(time.Second)) }

// Unschedulable pods find no node.
func Unschedulable(pod *corev1.Pod) bool {
	scheduled := Condition(pod, corev1.PodScheduled)
	return pod.Spec.NodeName == "" && scheduled != nil && scheduled.Status == corev1.ConditionFalse && scheduled.Reason == corev1.PodReasonUnschedulable
}
