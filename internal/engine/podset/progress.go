// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podset

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
)

// Types of conditions of every workload.
const (
	conditionReconciling     = "Reconciling"
	conditionStalled         = "Stalled"
	conditionAvailable       = "Available"
	conditionTemplateInvalid = "TemplateInvalid"
)

// refusalTimeout is for how long the server may refuse a request until the workload counts as stalled.
const refusalTimeout = 30 * time.Second

// Progress is the progress of a workload: a reason and a message.
type Progress struct {
	// Reconciling: something is under way. Stalled: nothing can be until the user changes something. Never
	// both.
	Reconciling, Stalled bool
	Reason, Message      string
}

// Reconciling is the progress of a workload with something under way.
func Reconciling(reason, message string) Progress {
	return Progress{Reconciling: true, Reason: reason, Message: message}
}

// Stalled is the progress of a workload in need of its user.
func Stalled(reason, message string) Progress {
	return Progress{Stalled: true, Reason: reason, Message: message}
}

// Conditions are Reconciling and Stalled. They are never True at the same time: tools believe the first one.
func (p Progress) Conditions() []conditions.Condition {
	stalled := conditions.New(conditionStalled, false, appsv1beta1.ReasonNotStalled, "What is left goes on by itself, or waits as the spec says.")
	switch {
	case p.Stalled:
		stalled = conditions.New(conditionStalled, true, p.Reason, p.Message)
	case p.Reconciling && p.Reason == appsv1beta1.ReasonRequestFailed:
		stalled = conditions.New(conditionStalled, false, appsv1beta1.ReasonNotStalled, "The server refuses a request, which is tried again.")
	}
	return []conditions.Condition{conditions.New(conditionReconciling, p.Reconciling, p.Reason, p.Message), stalled}
}

// WithRefusals adds refused requests to the progress. Their conditions, with the reason RequestFailed, have to
// be in the list already. In the message the server's answer comes before waiting pods. After refusalTimeout of
// refusals a request will hardly succeed without a change: a quota is used up, or admission denies it. The
// workload is stalled then, until the request succeeds.
func (p Progress) WithRefusals(list *conditions.List) Progress {
	if !p.Reconciling {
		return p
	}
	return p.refused(list)
}

// WithAnyRefusals is WithRefusals also for pods all as they should be. Changes of claims or labels, and
// deletions of unused claims, can still be refused.
func (p Progress) WithAnyRefusals(list *conditions.List) Progress {
	if p.Stalled {
		return p
	}
	return p.refused(list)
}

func (p Progress) refused(list *conditions.List) Progress {
	for _, c := range list.All() {
		if c.Status != corev1.ConditionTrue || c.Reason != appsv1beta1.ReasonRequestFailed {
			continue
		}
		stalled := list.Now().Sub(c.LastTransitionTime.Time) >= refusalTimeout
		p.Reconciling, p.Stalled, p.Reason = !stalled, stalled, appsv1beta1.ReasonRequestFailed
		p.Message = c.Message + "; " + p.Message
		break
	}
	return p
}

// RequestFailed is the condition about the first refused request of some steps. of goes before the slot: the
// kind of thing it is. Empty: no slot is named.
func RequestFailed[T ~string](kind T, outcome planning.Outcome, of string, steps ...planning.Step) (conditions.Condition, bool) {
	failure, failed := outcome.Failed(steps...)
	message := failure.Message
	if of != "" && failure.Slot != "" {
		message = of + " " + string(failure.Slot) + ": " + message
	}
	return conditions.New(kind, true, appsv1beta1.ReasonRequestFailed, message), failed
}

// Refused is the progress of an object with a refused request: stalled after refusalTimeout.
func Refused(failure planning.Failure, message string, now time.Time) Progress {
	stalled := !failure.Since.IsZero() && now.Sub(failure.Since) >= refusalTimeout
	return Progress{Reconciling: !stalled, Stalled: stalled, Reason: appsv1beta1.ReasonRequestFailed, Message: message}
}

// Stopped is the progress of a workload when its pods say nothing about it; false when they do. The first that
// holds:
//
//  1. the workload is being deleted;
//  2. its spec is not readable, perhaps only in use: stalled;
//  3. the server refuses to record the template, see WithRefusals;
//  4. the server finds the template faulty, and has refused a pod, too: stalled;
//  5. pods fail again and again soon after their creation: stalled.
func Stopped(spec *Spec, s *Snapshot, plan *planning.Plan, outcome planning.Outcome) (Progress, bool) {
	if spec.Deleting {
		return Reconciling(appsv1beta1.ReasonDeleting, "The set is being deleted, and its pods with it."), true
	}
	if spec.Invalid != nil {
		return Stalled(appsv1beta1.ReasonInvalidSpec, spec.Invalid.Error()), true
	}
	if note, ok := plan.HeldFor(ReasonInvalidSpec); ok {
		return Stalled(appsv1beta1.ReasonInvalidSpec, note.Message), true
	}
	if s.Unrecorded != "" {
		return Reconciling(appsv1beta1.ReasonRequestFailed, "no pod is updated until the template is recorded."), true
	}
	if _, refused := outcome.Failed(StepCreate); refused && s.UpdateFault != "" {
		return Stalled(appsv1beta1.ReasonInvalidTemplate, s.UpdateFault), true
	}
	if note, ok := plan.HeldFor(ReasonPodsFail); ok {
		return Stalled(appsv1beta1.ReasonPodsFail, note.Message), true
	}
	failing := sets.New(outcome.Failing...)
	for i := range s.Pods {
		pod := &s.Pods[i]
		if !pod.Available && failing.Has(planning.FailingSlot{Slot: pod.Slot, MadeFrom: pod.Revision}) {
			return Stalled(appsv1beta1.ReasonPodsFail, FailAgain(pod.Object)), true
		}
	}
	return Progress{}, false
}

// blocker is a note about pods that cannot follow their template, with its reason in conditions.
type blocker struct{ note, reason string }

// blockers are all of them. The first one with a note counts.
func blockers() []blocker {
	return []blocker{
		{ReasonInPlaceBlocked, appsv1beta1.ReasonInPlaceBlocked},
		{ReasonInPlaceImpossible, appsv1beta1.ReasonInPlaceImpossible},
		{ReasonTemplateInvalid, appsv1beta1.ReasonInvalidTemplate},
		{ReasonClaimDiffers, appsv1beta1.ReasonClaimsCannotFollow},
		{ReasonClaimNotExpandable, appsv1beta1.ReasonClaimsCannotFollow},
		{ReasonClaimStuck, appsv1beta1.ReasonClaimsCannotFollow},
	}
}

// Blocked is the progress of a workload with pods that cannot be moved, or cannot go on. False for other
// workloads.
func Blocked(plan *planning.Plan) (Progress, bool) { return blockedBy(plan, blockers()) }

func blockedBy(plan *planning.Plan, blockers []blocker) (Progress, bool) {
	for _, b := range blockers {
		if note, ok := plan.HeldFor(b.note); ok {
			return Stalled(b.reason, note.Message), true
		}
	}
	return Progress{}, false
}

// BehindBlocked is Blocked if the workload only waits for blocked pods: they use up a limit or come first in an
// order, nothing is planned, and no other pod moves. Otherwise it is p. goOn are reasons of notes about things
// that go on by themselves.
func (p Progress) BehindBlocked(plan *planning.Plan, pods []Pod, goOn ...string) Progress {
	blocked, ok := Blocked(plan)
	if _, goesOn := plan.HeldFor(goOn...); !ok || goesOn || !p.Reconciling || len(plan.Actions) > 0 {
		return p
	}
	stuck := map[planning.Slot]bool{}
	for _, b := range blockers() {
		for _, note := range plan.Held {
			for _, slot := range note.Slots {
				stuck[slot] = stuck[slot] || note.Reason == b.note
			}
		}
	}
	for i := range pods {
		pod := &pods[i]
		if pod.Terminating || !pod.Available && !stuck[pod.Slot] || mayGetRoom(pod) {
			return p
		}
	}
	return blocked
}

// FailedUpdate is the condition about pods without an update. It gives the first reason: the template is not
// recorded, a request was refused, updates in place are blocked, claims cannot follow their template. False:
// none holds. unrecorded is the Snapshot's; refused is the refused request in words, or empty.
func FailedUpdate[T ~string](kind T, unrecorded, refused string, plan *planning.Plan) (conditions.Condition, bool) {
	if refused := cmp.Or(unrecorded, refused); refused != "" {
		return conditions.New(kind, true, appsv1beta1.ReasonRequestFailed, refused), true
	}
	of := slices.DeleteFunc(blockers(), func(b blocker) bool { return b.note == ReasonTemplateInvalid }) // it has a condition of its own
	blocked, ok := blockedBy(plan, of)
	return conditions.New(kind, true, blocked.Reason, blocked.Message), ok
}

// Settled is the progress of a workload with its pods in place. The first that holds:
//
//  1. not all are available;
//  2. nothing is left to move now: paused, OnDelete, the partition;
//  3. everything is done.
func Settled(plan *planning.Plan, available, replicas int) Progress {
	if available < replicas {
		return Reconciling(appsv1beta1.ReasonPodsNotAvailable, plan.HeldMessages(Of(available, replicas, "pod is", "pods are")+" available."))
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

// Availability says whether no more pods are unavailable than in an update, and at least one is available.
func Availability(available, replicas, maxUnavailable int) conditions.Condition {
	need := max(replicas-maxUnavailable, min(replicas, 1))
	if available >= need {
		return conditions.New(conditionAvailable, true, appsv1beta1.ReasonEnoughAvailable, "At least "+Of(need, replicas, "pod is", "pods are")+" available.")
	}
	return conditions.New(conditionAvailable, false, appsv1beta1.ReasonTooFewAvailable, "Fewer than "+Of(need, replicas, "pod is", "pods are")+" available.")
}

// TemplateInvalid is the server's fault with the template of the update revision; false if it finds none.
func TemplateInvalid(s *Snapshot) (conditions.Condition, bool) {
	return conditions.New(conditionTemplateInvalid, true, appsv1beta1.ReasonInvalidTemplate, s.UpdateFault), s.UpdateFault != ""
}

// SetCommon adds the conditions of every workload: Reconciling, Stalled and Available, and others while they
// have something to say. available is the number of pods.
func SetCommon(list *conditions.List, progress Progress, spec *Spec, s *Snapshot, available int) {
	list.Set(progress.Conditions()...)
	list.Set(Availability(available, spec.Replicas, spec.MaxUnavailable))
	list.SetIf(TemplateInvalid(s))
	list.SetIf(WithoutGate(spec, s))
	list.SetIf(HeldByOthers(s))
}

// ConditionEvents are the events about conditions that are new, or about another spec: an unreadable spec, a
// refused template, and pods or claims that cannot follow their template, by the condition failedUpdate. A
// failed request has its own event.
func ConditionEvents[T ~string](before, after []conditions.Condition, otherSpec bool, failedUpdate T) []planning.Event {
	var events []planning.Event
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
		if event != "" && (otherSpec || !conditions.Contains(before, condition)) {
			events = append(events, planning.Event{Warning: true, Reason: event, Message: condition.Message})
		}
	}
	return events
}
