// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

// Refusals are those to remember after a pass: of existing pods without the containers.
func Refusals(s Snapshot, d Decision, outcome planning.Outcome) map[types.UID]Refusal {
	after := map[types.UID]Refusal{}
	for _, pod := range s.Pods {
		if refusal, known := s.Refused[pod.UID]; known {
			after[pod.UID] = refusal
		}
	}
	for _, failure := range outcome.Failures {
		if failure.Step != StepAdd || !failure.Refused {
			continue
		}
		for i := range d.Actions {
			if d.Actions[i].Slot == failure.Slot {
				uid := d.Actions[i].Object.GetUID()
				after[uid] = Refusal{Tries: after[uid].Tries + 1, Message: failure.Message}
			}
		}
	}
	return after
}

// NextAfter is the wait for targets without a turn because the server refused others; zero: none.
func NextAfter(d Decision, outcome planning.Outcome) time.Duration {
	if d.bare-d.unscheduled <= len(d.Actions) {
		return 0
	}
	for _, failure := range outcome.Failures {
		if failure.Step == StepAdd && failure.Refused {
			return storedSoon
		}
	}
	return 0
}

// Status is the status after a pass, for the pods as observed. Of a job ended before, only conditions about its
// remaining steps change.
func Status(spec *Spec, s Snapshot, d Decision, outcome planning.Outcome) appsv1beta1.EphemeralJobStatus {
	before := &spec.Job.Status
	status := *before.DeepCopy()
	status.ObservedGeneration = spec.Job.Generation
	list := conditions.NewList(conditions.From(before.Conditions), s.Now)
	if ended(spec) || spec.Deleting { // the pods of one that is deleted are not looked at
		list.Keep(appsv1beta1.EphemeralJobInitialized, appsv1beta1.EphemeralJobMatchedEmpty,
			appsv1beta1.EphemeralJobConditionSucceeded, appsv1beta1.EphemeralJobConditionFailed)
	} else {
		report(&status, spec, s, d)
		list.Set(conditions.New(appsv1beta1.EphemeralJobInitialized, true, appsv1beta1.ReasonInitialized, "The pods that the job selects are known."))
		if len(d.view.targets) == 0 && spec.Invalid == nil {
			list.Set(conditions.New(appsv1beta1.EphemeralJobMatchedEmpty, true, appsv1beta1.ReasonMatchEmpty, noTarget(spec, d)))
		}
		if d.Stage == Ended {
			list.Set(endOf(spec, d))
		}
	}
	if ended(spec) {
		list.SetIfEdited(before.ObservedGeneration, spec.Job.Generation)
	}
	if spec.Invalid != nil {
		list.Set(conditions.New(appsv1beta1.EphemeralJobConditionError, true, appsv1beta1.ReasonEphemeralJobError, spec.Invalid.Error()))
	}
	if refused := refusedAdditions(d, outcome); refused != "" {
		list.Set(conditions.New(appsv1beta1.EphemeralJobCreateFailed, true, appsv1beta1.ReasonRequestFailed, refused))
	}
	progress := progressOf(spec, d, outcome, s.Now)
	if d.Stage != Paused { // Nothing is tried while it is paused.
		progress = progress.WithRefusals(list)
	}
	list.Set(progress.Conditions()...)
	status.Conditions = conditions.To[appsv1beta1.EphemeralJobCondition](list)
	return status
}

// refusedAdditions names the targets the server refuses, now or at the last try; empty: none. Given-up ones are left out.
func refusedAdditions(d Decision, outcome planning.Outcome) string {
	if refused := d.view.describe(Bare, true); refused != "" {
		return refused
	}
	if failure, ok := outcome.Failed(StepAdd); ok {
		return fmt.Sprintf("pod %s: %s", failure.Slot, failure.Message)
	}
	return ""
}

func report(status *appsv1beta1.EphemeralJobStatus, spec *Spec, s Snapshot, d Decision) {
	v := &d.view
	now := podstate.Time(s.Now)
	status.StartTime = cmp.Or(status.StartTime, &now)
	status.Matches = int32(len(v.targets))
	status.Running, status.Succeeded = int32(v.counts[Running]), int32(v.counts[Succeeded])
	status.Waiting, status.Failed = int32(v.counts[Waiting]), int32(v.counts[Failed])
	switch {
	case d.Stage == Ended && d.Failure == "":
		status.Phase, status.CompletionTime = appsv1beta1.EphemeralJobSucceeded, &now
	case d.Stage == Ended:
		status.Phase, status.CompletionTime = appsv1beta1.EphemeralJobFailed, &now
		status.Running, status.Waiting, status.Failed = 0, 0, status.Matches-status.Succeeded // what the deadline ended has failed
	case spec.Invalid != nil:
		status.Phase = appsv1beta1.EphemeralJobError
	case spec.Paused:
		status.Phase = appsv1beta1.EphemeralJobPaused
	case v.counts[Running]+v.counts[Succeeded]+v.counts[Failed] > 0:
		status.Phase = appsv1beta1.EphemeralJobRunning
	default:
		status.Phase = appsv1beta1.EphemeralJobWaiting
	}
}

// endOf is the condition about how a job ends in this pass.
func endOf(spec *Spec, d Decision) conditions.Condition {
	if d.Failure == "" {
		return conditions.New(appsv1beta1.EphemeralJobConditionSucceeded, true, appsv1beta1.ReasonEphemeralJobSucceeded, endMessage(spec, d))
	}
	return conditions.New(appsv1beta1.EphemeralJobConditionFailed, true, d.Failure, endMessage(spec, d))
}

// endMessage says how a job ends in this pass.
func endMessage(spec *Spec, d Decision) string {
	v := &d.view
	parts := []string{fmt.Sprintf("%d of %d targets succeeded, %d failed", v.counts[Succeeded], len(v.targets), v.counts[Failed])}
	if d.Failure == appsv1beta1.ReasonDeadlineExceeded {
		parts = []string{"the job took longer than spec.activeDeadlineSeconds", fmt.Sprintf("%d of %d targets succeeded", v.counts[Succeeded], len(v.targets))}
		if v.inProgress > 0 {
			parts = append(parts, fmt.Sprintf("containers in %s go on", podset.Count(v.inProgress, "pod", "pods")))
		}
		if spec.Invalid != nil {
			parts = append(parts, spec.Invalid.Error())
		}
	}
	if what := v.describe(Failed, false); what != "" {
		parts = append(parts, what)
	}
	if what := v.describe(Waiting, true); what != "" {
		parts = append(parts, what)
	}
	return strings.Join(parts, "; ")
}

// Events are the events about new statements of a status.
func Events(spec *Spec, after *appsv1beta1.EphemeralJobStatus) []planning.Event {
	var events []planning.Event
	for _, c := range conditions.Begun(spec.Job.Status.Conditions, after.Conditions) {
		switch c.Type {
		case appsv1beta1.EphemeralJobConditionSucceeded:
			events = append(events, planning.Event{Reason: "Completed", Message: c.Message})
		case appsv1beta1.EphemeralJobConditionFailed, appsv1beta1.EphemeralJobMatchedEmpty:
			events = append(events, planning.Event{Warning: true, Reason: c.Reason, Message: c.Message})
		case appsv1beta1.EphemeralJobStalled:
			if c.Reason == appsv1beta1.ReasonInvalidSpec || c.Reason == appsv1beta1.ReasonContainersWait {
				events = append(events, planning.Event{Warning: true, Reason: c.Reason, Message: c.Message})
			}
		}
	}
	return events
}
