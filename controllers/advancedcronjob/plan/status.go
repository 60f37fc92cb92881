// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

// maxActive is how many active runs the status names.
const maxActive = 100

// Status is the whole status after a pass. It shows the runs as
// observed; only lastScheduleTime includes the run just created.
func Status(spec *Spec, s Snapshot, due Due, plan planning.Plan, outcome planning.Outcome) appsv1beta1.AdvancedCronJobStatus {
	status := appsv1beta1.AdvancedCronJobStatus{ObservedGeneration: spec.Cron.Generation, Type: spec.Cron.Status.Type}
	if spec.Adapter != nil {
		status.Type = spec.Adapter.Kind.Kind
	}
	status.ObservedSchedule, status.ScheduleChangedTime = spec.Cron.Status.ObservedSchedule, spec.Cron.Status.ScheduleChangedTime
	if spec.Invalid == nil {
		if edited := spec.edited(s.Now); !edited.IsZero() {
			status.ScheduleChangedTime = ptr.To(podstate.Time(edited))
		}
		status.ObservedSchedule = spec.scheduleText()
	}
	last := due.Last
	if Started(outcome) && due.Run.After(last) {
		last = due.Run
	}
	if !last.IsZero() {
		status.LastScheduleTime = &metav1.Time{Time: last}
	}
	if !due.Next.IsZero() && !spec.Paused && !spec.Deleting && spec.Managed {
		status.NextScheduleTime = &metav1.Time{Time: due.Next}
	}
	active := activeRuns(s)
	for _, run := range active[max(len(active)-maxActive, 0):] {
		status.Active = append(status.Active, corev1.ObjectReference{
			APIVersion: run.Object.GetAPIVersion(), Kind: run.Object.GetKind(), Namespace: run.Object.GetNamespace(), Name: run.Object.GetName(), UID: run.Object.GetUID(),
		})
	}

	list := conditions.NewList(conditions.From(spec.Cron.Status.Conditions), s.Now)
	list.SetIf(podset.RequestFailed(appsv1beta1.AdvancedCronJobFailedCreate, outcome, "creating", StepCreateRun))
	progress := progressOf(spec, s, due, plan, outcome).WithRefusals(list)
	list.SetIf(podset.RequestFailed(appsv1beta1.AdvancedCronJobFailedDelete, outcome, "", StepDeleteRun)) // it holds up no run
	list.Set(progress.Conditions()...)
	status.Conditions = conditions.To[metav1.Condition](list)
	return status
}

// progressOf describes the object, by the first match:
//
//  1. it is being deleted;
//  2. its spec cannot be parsed: stalled;
//  3. nobody would carry its runs out: stalled;
//  4. it is paused;
//  5. a run is due: it is too late, waits for an active one, or is being started;
//  6. the next run is not due yet, or never will be: stalled.
//
// A stalled active run is named, and stalls the object while in the way
// of others. Refusals come first, see podset.Progress.WithRefusals.
func progressOf(spec *Spec, s Snapshot, due Due, plan planning.Plan, outcome planning.Outcome) podset.Progress {
	switch {
	case spec.Deleting:
		return podset.Reconciling(appsv1beta1.ReasonDeleting, "The object is being deleted, and its runs with it.")
	case spec.Invalid != nil:
		return podset.Stalled(appsv1beta1.ReasonInvalidSpec, spec.Invalid.Error())
	case !spec.Managed:
		return podset.Stalled(appsv1beta1.ReasonKindOff, "No run is started: the kind "+spec.Adapter.Kind.Kind+
			" is not managed by this operator, and nobody would carry it out. Name it in --kinds or in the Kruise object.")
	case spec.Paused:
		return podset.Progress{Reason: appsv1beta1.ReasonPaused, Message: "No run is started while spec.paused is true." + stuck(s)}
	case due.TooLate:
		return leftOut(spec, s)
	case !due.Run.IsZero() && !Started(outcome):
		return waiting(spec, s, plan)
	case due.Next.IsZero():
		return podset.Stalled(appsv1beta1.ReasonNeverDue, fmt.Sprintf("spec.schedule %q names no time within the next years.", spec.Cron.Spec.Schedule))
	case due.Behind:
		return podset.Progress{Reason: appsv1beta1.ReasonClockBehind,
			Message: "status.lastScheduleTime lies in the future: a clock went back. The next run is started at status.nextScheduleTime."}
	}
	return podset.Progress{Reason: appsv1beta1.ReasonScheduled, Message: "The next run is started when it is due." + stuck(s)}
}

// stuck is a sentence about stalled active runs; empty: none.
func stuck(s Snapshot) string {
	active := activeRuns(s)
	run, message := firstStalled(active)
	if run == nil {
		return ""
	}
	return fmt.Sprintf(" %s, and %s is stalled: %s", podset.Count(len(active), "run is active", "runs are active"), run.Object.GetName(), message)
}

// firstStalled returns the first stalled run and its message; nil: none.
func firstStalled(runs []*Run) (*Run, string) {
	for _, run := range runs {
		if stalled, message := run.stalled(); stalled {
			return run, message
		}
	}
	return nil, ""
}

// leftOut is the progress after a run was left out because its deadline was over.
func leftOut(spec *Spec, s Snapshot) podset.Progress {
	message := "The newest run was left out: it could not be started within spec.startingDeadlineSeconds."
	stalled := stuck(s)
	if stalled != "" && spec.ConcurrencyPolicy == appsv1beta1.ForbidConcurrent {
		return podset.Stalled(appsv1beta1.ReasonRunStalled, message+stalled)
	}
	return podset.Progress{Reason: appsv1beta1.ReasonMissedDeadline, Message: message + " The next one is started when it is due." + stalled}
}

// waiting is the progress while a run is due and not started.
func waiting(spec *Spec, s Snapshot, plan planning.Plan) podset.Progress {
	switch {
	case creates(plan):
		return podset.Reconciling(appsv1beta1.ReasonStarting, "A run is due and is being started.")
	case spec.ConcurrencyPolicy == appsv1beta1.ReplaceConcurrent:
		return podset.Reconciling(appsv1beta1.ReasonRunActive,
			fmt.Sprintf("A run is due and waits, because concurrencyPolicy is Replace and more than %d runs are active. They are deleted first, %d at a time.", maxDeleted, maxDeleted))
	}
	active := activeRuns(s)
	if run, message := firstStalled(active); run != nil {
		return podset.Stalled(appsv1beta1.ReasonRunStalled,
			fmt.Sprintf("A run is due and waits, because concurrencyPolicy is Forbid and %s is stalled: %s", run.Object.GetName(), message))
	}
	return podset.Reconciling(appsv1beta1.ReasonRunActive,
		fmt.Sprintf("A run is due and waits, because concurrencyPolicy is Forbid and %s %s.", active[0].Object.GetName(), active[0].doing()))
}

// EmittedEvents prevents duplicates.
type EmittedEvents struct {
	// Missed is the last run reported as left out, or as newest of many.
	Missed time.Time
	// Waiting is the last run reported as waiting.
	Waiting time.Time
}

// Events reports runs left out or waiting, once each. Actions report the rest.
func Events(spec *Spec, s Snapshot, due Due, plan planning.Plan, emitted *EmittedEvents) []planning.Event {
	if spec.Deleting || spec.Invalid != nil || spec.Paused || !spec.Managed || due.Run.IsZero() {
		return nil
	}
	var events []planning.Event
	at := due.Run.Format(time.RFC3339)
	if (due.TooLate || due.Missed > manyMissed) && !emitted.Missed.Equal(due.Run) {
		emitted.Missed = due.Run
		if due.TooLate {
			events = append(events, planning.Event{Warning: true, Reason: "MissSchedule", Message: fmt.Sprintf("The run of %s was not started within startingDeadlineSeconds", at)})
		} else {
			events = append(events, planning.Event{Warning: true, Reason: "TooManyMissedTimes", Message: fmt.Sprintf("More than %d runs were missed; only the newest, of %s, is started", manyMissed, at)})
		}
	}
	if !due.TooLate && !creates(plan) && !emitted.Waiting.Equal(due.Run) {
		emitted.Waiting = due.Run
		if active := activeRuns(s); len(active) > 0 {
			events = append(events, planning.Event{Reason: "JobAlreadyActive", Message: fmt.Sprintf("The run of %s waits: %s %s", at, active[0].Object.GetName(), active[0].doing())})
		}
	}
	return slices.Clip(events)
}
