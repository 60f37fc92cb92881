// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podset

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// Condition is one statement about a workload, before its kind gives it its own form and its times.
type Condition struct {
	Type            string
	Status          corev1.ConditionStatus
	Reason, Message string
}

// NewCondition is the statement that something is so, or is not.
func NewCondition[T ~string](kind T, is bool, reason, message string) Condition {
	status := corev1.ConditionFalse
	if is {
		status = corev1.ConditionTrue
	}
	return Condition{Type: string(kind), Status: status, Reason: reason, Message: message}
}

// Types of conditions that every workload has.
const (
	conditionReconciling     = "Reconciling"
	conditionStalled         = "Stalled"
	conditionAvailable       = "Available"
	conditionTemplateInvalid = "TemplateInvalid"
)

// Progress is what a workload is at, in one word and one sentence.
type Progress struct {
	// Reconciling says that something is under way, Stalled that nothing can be until the user changes something. Never both.
	Reconciling, Stalled bool
	Reason, Message      string
}

// Conditions are Reconciling and Stalled. They are never True at the same time: tools believe the first that they find.
func (p Progress) Conditions() []Condition {
	stalled := NewCondition(conditionStalled, false, appsv1beta1.ReasonNotStalled, "Nothing needs the user.")
	if p.Stalled {
		stalled = NewCondition(conditionStalled, true, p.Reason, p.Message)
	}
	return []Condition{NewCondition(conditionReconciling, p.Reconciling, p.Reason, p.Message), stalled}
}

// Stopped is the progress of a workload of which its pods say nothing; false if they do. The first that holds:
//
//  1. it is being deleted;
//  2. its spec cannot be read, or only when it was used: stalled;
//  3. the server finds the template faulty, and has refused a pod, too: stalled.
func Stopped(deleting bool, invalid error, s *Snapshot, plan *Plan, outcome Outcome) (Progress, bool) {
	if deleting {
		return Progress{Reconciling: true, Reason: appsv1beta1.ReasonDeleting, Message: "The set is being deleted, and its pods with it."}, true
	}
	if invalid != nil {
		return Progress{Stalled: true, Reason: appsv1beta1.ReasonInvalidSpec, Message: invalid.Error()}, true
	}
	if note, ok := plan.HeldFor(ReasonInvalidSpec); ok {
		return Progress{Stalled: true, Reason: appsv1beta1.ReasonInvalidSpec, Message: note.Message}, true
	}
	if _, refused := outcome.Failed(VerbCreate); refused && s.UpdateFault != "" {
		return Progress{Stalled: true, Reason: appsv1beta1.ReasonInvalidTemplate, Message: s.UpdateFault}, true
	}
	return Progress{}, false
}

// Blocked is the progress of a workload whose pods cannot be moved at all, or have begun to move and cannot go on; false if that is
// not so.
func Blocked(plan *Plan) (Progress, bool) {
	for _, because := range []struct{ note, reason string }{
		{ReasonInPlaceBlocked, appsv1beta1.ReasonInPlaceBlocked},
		{ReasonInPlaceImpossible, appsv1beta1.ReasonInPlaceImpossible},
		{ReasonTemplateInvalid, appsv1beta1.ReasonInvalidTemplate},
	} {
		if note, ok := plan.HeldFor(because.note); ok {
			return Progress{Stalled: true, Reason: because.reason, Message: note.Message}, true
		}
	}
	return Progress{}, false
}

// Settled is the progress of a workload whose pods are where they should be now. The first that holds:
//
//  1. not all are available;
//  2. nothing is left that may move now: paused, OnDelete, the partition;
//  3. everything is done.
func Settled(plan *Plan, available, replicas int) Progress {
	if available < replicas {
		return Progress{Reconciling: true, Reason: appsv1beta1.ReasonPodsNotAvailable,
			Message: plan.HeldMessages(fmt.Sprintf("%d of %d pods are available.", available, replicas))}
	}
	note, ok := plan.HeldFor(ReasonPaused, ReasonOnDelete, ReasonPartition)
	if !ok {
		return Progress{Reason: appsv1beta1.ReasonComplete, Message: "Every pod is at the update revision and available."}
	}
	reason := appsv1beta1.ReasonPartitionReached
	switch note.Reason {
	case ReasonPaused:
		reason = appsv1beta1.ReasonPaused
	case ReasonOnDelete:
		reason = appsv1beta1.ReasonOnDelete
	}
	return Progress{Reason: reason, Message: note.Message}
}

// Availability says whether no more pods are unavailable than an update may take away, and at least one is available.
func Availability(available, replicas, maxUnavailable int) Condition {
	need := max(replicas-maxUnavailable, min(replicas, 1))
	if available >= need {
		return NewCondition(conditionAvailable, true, appsv1beta1.ReasonEnoughAvailable, fmt.Sprintf("At least %d of %d pods are available.", need, replicas))
	}
	return NewCondition(conditionAvailable, false, appsv1beta1.ReasonTooFewAvailable, fmt.Sprintf("Fewer than %d of %d pods are available.", need, replicas))
}

// TemplateInvalid says what the server finds wrong with the template of the update revision; false if it finds nothing.
func TemplateInvalid(s *Snapshot) (Condition, bool) {
	return NewCondition(conditionTemplateInvalid, true, appsv1beta1.ReasonInvalidTemplate, s.UpdateFault), s.UpdateFault != ""
}

// Announcements are the events about what conditions say for the first time, or about another spec than before: a spec that cannot be
// read, a template that the server refuses, and pods or claims that cannot follow their template, which the condition failedUpdate
// tells. What requests failed has its events from whoever sent them.
func Announcements[T ~string](before, after []Condition, otherSpec bool, failedUpdate T) []Event {
	var events []Event
	for _, condition := range after {
		var event string
		switch {
		case condition.Status != corev1.ConditionTrue:
		case condition.Type == conditionStalled && condition.Reason == appsv1beta1.ReasonInvalidSpec:
			event = appsv1beta1.ReasonInvalidSpec
		case condition.Type == conditionTemplateInvalid:
			event = appsv1beta1.ReasonInvalidTemplate
		case condition.Type != string(failedUpdate):
		case condition.Reason == appsv1beta1.ReasonClaimsCannotFollow:
			event = "FailedUpdatePVC"
		case condition.Reason == appsv1beta1.ReasonInPlaceBlocked, condition.Reason == appsv1beta1.ReasonInPlaceImpossible:
			event = "FailedUpdatePodInPlace"
		}
		if event != "" && (otherSpec || !says(before, condition)) {
			events = append(events, Event{Warning: true, Reason: event, Message: condition.Message})
		}
	}
	return events
}

// says says whether the conditions contain this one, whatever its message.
func says(conditions []Condition, one Condition) bool {
	for _, c := range conditions {
		if c.Type == one.Type && c.Status == one.Status && c.Reason == one.Reason {
			return true
		}
	}
	return false
}
