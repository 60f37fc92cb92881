// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/nodefit"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

// Status is the whole status after a pass. It shows the pods as observed.
// A job ended before changes only its conditions about cleanup.
func Status(spec *Spec, s Snapshot, d Decision, outcome planning.Outcome) appsv1beta1.BroadcastJobStatus {
	before := &spec.Job.Status
	status := *before.DeepCopy()
	status.ObservedGeneration = spec.Job.Generation
	how := ended(spec)
	if how == "" && spec.Invalid == nil {
		report(&status, spec, s, d)
	}
	list := conditions.NewList(conditions.From(before.Conditions), s.Now)
	switch {
	case how != "":
		list.Keep(how)
		list.SetIfEdited(before.ObservedGeneration, spec.Job.Generation)
	case d.Stage == Ended && d.Failure != "":
		list.Set(conditions.New(appsv1beta1.BroadcastJobConditionFailed, true, d.Failure, failureMessage(d)))
	case d.Stage == Ended:
		list.Set(conditions.New(appsv1beta1.BroadcastJobConditionComplete, true, appsv1beta1.ReasonJobComplete, endMessage(d)))
	}
	list.SetIf(podset.RequestFailed(appsv1beta1.BroadcastJobConditionFailedCreate, outcome, "creating the pod of node", podset.StepCreate))
	list.SetIf(podset.RequestFailed(appsv1beta1.BroadcastJobConditionFailedDelete, outcome, "", podset.StepDelete, planning.StepDeleteJob))
	list.Set(withBudget(progressOf(spec, s, d), &d.Plan).WithRefusals(list).Conditions()...)
	status.Conditions = conditions.To[appsv1beta1.BroadcastJobCondition](list)
	return status
}

// report fills in the counts, and the phase.
func report(status *appsv1beta1.BroadcastJobStatus, spec *Spec, s Snapshot, d Decision) {
	v := &d.view
	now := podstate.Time(s.Now)
	status.StartTime = cmp.Or(status.StartTime, &now)
	status.Active, status.Desired = int32(len(v.active)+len(v.unfit)), int32(v.desired)
	status.Succeeded, status.Failed = int32(v.succeeded), int32(v.failed)
	status.CompletionTime = nil
	if !spec.Deleting || status.Phase == "" { // one that is deleted stays at what it was: nothing is started again
		status.Phase = appsv1beta1.BroadcastJobRunning
	}
	switch d.Stage {
	case Paused, PausedByFailure:
		status.Phase = appsv1beta1.BroadcastJobPaused
	case Stopping:
		status.Phase = appsv1beta1.BroadcastJobFailed
	case Ended:
		status.CompletionTime = &now
		status.Phase = appsv1beta1.BroadcastJobCompleted
		if d.Failure != "" {
			status.Phase = appsv1beta1.BroadcastJobFailed
		}
	case Running:
	}
	finished := appsv1beta1.FinishedNodes{Succeeded: v.record.keys(Succeeded), Failed: v.record.keys(Failed), Failures: v.record.failures}
	if was := spec.Job.Status.Finished; was != nil {
		finished.Resumed, finished.ResumedFailures = was.Resumed, was.ResumedFailures
	}
	if d.resume {
		finished.Resumed, finished.ResumedFailures = spec.Resume, v.record.failures
	}
	status.Finished = &finished
	if len(finished.Succeeded)+len(finished.Failed) == 0 && finished.Failures == 0 && finished.Resumed == "" {
		status.Finished = nil
	}
}

// Urgent is a change to write at once: of what is counted once only.
func Urgent(before, after *appsv1beta1.BroadcastJobStatus) bool {
	was, is := ptr.Deref(before.Finished, appsv1beta1.FinishedNodes{}), ptr.Deref(after.Finished, appsv1beta1.FinishedNodes{})
	return !bytes.Equal(was.Failed, is.Failed) || was.Resumed != is.Resumed
}

func endMessage(d Decision) string {
	return fmt.Sprintf("Job completed, %d pods succeeded, %d pods failed", d.view.succeeded, d.view.failed)
}

// servedMessage describes a job waiting for further nodes: nothing else reports its failed pods.
func servedMessage(d Decision) string {
	const rest = "Nodes that join or begin to fit get one."
	if d.view.failed == 0 {
		return "The pods on all nodes that fit have ended. " + rest
	}
	return fmt.Sprintf("The pods on all nodes that fit have ended, %d of %d with a failure. %s", d.view.failed, d.view.desired, rest)
}

func failureMessage(d Decision) string {
	cause := "a pod has failed, and failurePolicy.type is FailFast" + failureExample(d)
	if d.Failure == appsv1beta1.ReasonDeadlineExceeded {
		cause = "the job was active for longer than completionPolicy.activeDeadlineSeconds"
	}
	return fmt.Sprintf("Job failed, %d pods succeeded, %d pods failed: %s", d.view.succeeded, d.view.failed, cause)
}

// failureExample names a failed pod and its reason; empty: none left.
func failureExample(d Decision) string {
	if len(d.view.failures) == 0 {
		return ""
	}
	return ": " + podset.Failed(d.view.failures[0].Object)
}

// progressOf describes the job, by the first match:
//
//  1. it is being deleted;
//  2. its spec cannot be parsed: stalled;
//  3. it has completed, or has failed: stalled, because only its user can go on;
//  4. it has failed, and its pods are going;
//  5. its user has paused it: troubles of pods at work come first, and can stall the job; or a failure has: stalled;
//  6. no node fits: stalled;
//  7. parallelism is 0, and nodes wait: stalled;
//  8. pods are at work or starting; their troubles come first, and can stall the job;
//  9. all nodes are finished, and it waits for further ones.
//
// Refusals come first, see podset.Progress.WithRefusals.
func progressOf(spec *Spec, s Snapshot, d Decision) podset.Progress {
	atWork := len(d.view.active) + len(d.view.unfit) + len(d.view.failedActive) + len(d.view.strays)
	switch {
	case spec.Deleting:
		return podset.Reconciling(appsv1beta1.ReasonDeleting, "The job is being deleted, and its pods with it.")
	case spec.Invalid != nil:
		return podset.Stalled(appsv1beta1.ReasonInvalidSpec, spec.Invalid.Error())
	case d.Stage == Ended:
		return progressOfEnded(spec, d)
	case d.Stage == Stopping:
		return podset.Reconciling(appsv1beta1.ReasonStopping, fmt.Sprintf("The job fails (%s); %s deleted.", d.Failure, podset.Count(atWork, "pod at work is", "pods at work are")))
	case d.Stage == Paused:
		return podset.Progress{Reconciling: atWork > 0, Reason: appsv1beta1.ReasonPaused, Message: fmt.Sprintf("No pod is started while spec.paused is true; %s at work.",
			podset.Count(atWork, "pod is", "pods are"))}.WithTroubles(&d.Plan, s.Pods)
	case d.Stage == PausedByFailure:
		return podset.Stalled(appsv1beta1.ReasonPausedByFailure, fmt.Sprintf("Pods have failed (%d so far%s), and failurePolicy.type is Pause: no further pod is started. To resume, give the job another value of the annotation %s.",
			d.view.record.failures, failureExample(d), shared.AnnotationResume))
	case d.view.desired == 0:
		return podset.Stalled(appsv1beta1.ReasonNoFittingNode, noNode(s))
	case d.waiting > 0 && d.limit == 0 && atWork == 0:
		return podset.Stalled(appsv1beta1.ReasonNoParallelism, fmt.Sprintf("%s, and spec.parallelism is 0.", podset.Count(d.waiting, "node waits", "nodes wait")))
	case d.view.succeeded+d.view.failed == d.view.desired && atWork == 0:
		return podset.Progress{Reason: appsv1beta1.ReasonServing, Message: servedMessage(d)}
	}
	progress := podset.Reconciling(appsv1beta1.ReasonRunningPods, d.HeldMessages("Pods are at work, or are being started."))
	return progress.WithTroubles(&d.Plan, s.Pods)
}

// withBudget adds which budget pods wait for.
func withBudget(p podset.Progress, plan *planning.Plan) podset.Progress {
	if note, ok := plan.HeldFor(podset.ReasonBudget); ok && !strings.Contains(p.Message, note.Message) {
		p.Message += " " + note.Message + "."
	}
	return p
}

func progressOfEnded(spec *Spec, d Decision) podset.Progress {
	if how := ended(spec); how != "" {
		c, _ := conditions.Find(conditions.From(spec.Job.Status.Conditions), how)
		return podset.Progress{Stalled: how == appsv1beta1.BroadcastJobConditionFailed, Reason: cmp.Or(c.Reason, how), Message: c.Message}
	}
	if d.Failure != "" {
		return podset.Stalled(d.Failure, failureMessage(d))
	}
	return podset.Progress{Reason: appsv1beta1.ReasonJobComplete, Message: endMessage(d)}
}

// noNode says why no node fits.
func noNode(s Snapshot) string {
	reasons := make([]string, len(s.Nodes))
	for i := range s.Nodes {
		reasons[i] = s.Nodes[i].Unfit
	}
	return "No node fits the template: " + nodefit.WhyNone(reasons)
}

// Events are the events about new statements of a status.
func Events(spec *Spec, d Decision, after *appsv1beta1.BroadcastJobStatus) []planning.Event {
	before := &spec.Job.Status
	var events []planning.Event
	none := appsv1beta1.FinishedNodes{}
	if is, was := ptr.Deref(after.Finished, none).Failures, ptr.Deref(before.Finished, none).Failures; is > was {
		events = append(events, planning.Event{Warning: true, Reason: "PodFailed", Message: fmt.Sprintf("Pods have failed: %d more, %d in all", is-was, is)})
	}
	for _, c := range conditions.Begun(before.Conditions, after.Conditions) {
		switch c.Type {
		case appsv1beta1.BroadcastJobConditionComplete:
			events = append(events, planning.Event{Reason: "JobComplete", Message: c.Message})
		case appsv1beta1.BroadcastJobConditionFailed:
			reason := "JobFailed"
			if c.Reason == appsv1beta1.ReasonDeadlineExceeded {
				reason = appsv1beta1.ReasonDeadlineExceeded
			}
			events = append(events, planning.Event{Warning: true, Reason: reason, Message: c.Message})
		case appsv1beta1.BroadcastJobConditionStalled:
			if c.Reason == appsv1beta1.ReasonPausedByFailure || c.Reason == appsv1beta1.ReasonNoFittingNode || c.Reason == appsv1beta1.ReasonInvalidSpec {
				events = append(events, planning.Event{Warning: true, Reason: strings.TrimSuffix(c.Reason, "ByFailure"), Message: c.Message})
			}
		}
	}
	if before.Phase == appsv1beta1.BroadcastJobPaused && after.Phase == appsv1beta1.BroadcastJobRunning {
		events = append(events, planning.Event{Reason: "Continue", Message: "Pods are started again"})
	}
	if before.ObservedGeneration != after.ObservedGeneration && len(d.view.active) > d.limit {
		events = append(events, planning.Event{Warning: true, Reason: "TooManyActivePods", Message: fmt.Sprintf("%s at work, and spec.parallelism is %d; none is deleted for it", podset.Count(len(d.view.active), "pod is", "pods are"), d.limit)})
	}
	return events
}
