// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

// progressOf describes the job, the first true one:
//
//  1. it is being deleted; stalled once the server has refused a step for half a minute;
//  2. it has ended: stalled if it has failed, as only its user can help;
//  3. its spec cannot work: stalled;
//  4. no pod is a target: stalled;
//  5. added containers do not start: stalled;
//  6. it is paused;
//  7. parallelism is 0, and targets wait: stalled;
//  8. all remaining targets have no node yet;
//  9. containers are at work or are being added.
//
// Refused additions come before 8., see podset.Progress.WithRefusals.
func progressOf(spec *Spec, d Decision, outcome planning.Outcome, now time.Time) podset.Progress {
	v := &d.view
	if failure, ok := outcome.Failed(planning.StepDeleteJob, StepReleaseJob); ok {
		return podset.Refused(failure, failure.Message, now)
	}
	switch {
	case spec.Deleting:
		return podset.Reconciling(appsv1beta1.ReasonDeleting, "The job is being deleted. Containers that it has added stay in their pods.")
	case d.Stage == Ended:
		return progressOfEnded(spec, d)
	case spec.Invalid != nil:
		return podset.Stalled(appsv1beta1.ReasonInvalidSpec, spec.Invalid.Error())
	case len(v.targets) == 0 && spec.Replicas == 0:
		return podset.Stalled(appsv1beta1.ReasonNoReplicas, noTarget(spec, d))
	case len(v.targets) == 0:
		return podset.Stalled(appsv1beta1.ReasonMatchEmpty, noTarget(spec, d))
	}
	if waits := v.describe(Waiting, true); waits != "" {
		return podset.Stalled(appsv1beta1.ReasonContainersWait, "Containers do not start: "+waits)
	}
	if d.Stage == Paused {
		return podset.Progress{
			Reconciling: v.inProgress > 0, Reason: appsv1beta1.ReasonPaused,
			Message: fmt.Sprintf("Nothing is added while spec.paused is true; containers are at work in %s.", podset.Count(v.inProgress, "pod", "pods")),
		}
	}
	switch {
	case spec.Parallelism == 0 && d.bare > 0 && v.inProgress == 0:
		return podset.Stalled(appsv1beta1.ReasonNoParallelism, fmt.Sprintf("%d targets wait, and spec.parallelism is 0.", d.bare))
	case d.bare > 0 && d.unscheduled == d.bare && v.inProgress == 0:
		return podset.Reconciling(appsv1beta1.ReasonPodsNotRunning, fmt.Sprintf("%d targets have no node yet; containers are added when they have one.", d.unscheduled))
	}
	return podset.Reconciling(appsv1beta1.ReasonRunningPods, atWork(spec, d))
}

func atWork(spec *Spec, d Decision) string {
	v := &d.view
	parts := []string{fmt.Sprintf("Containers are at work in %s, or are being added", podset.Count(v.inProgress, "pod", "pods"))}
	if d.bare > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d targets wait: spec.parallelism lets %d work at a time", d.bare, len(v.targets), spec.Parallelism))
	}
	if waiting := v.describe(Waiting, false); waiting != "" {
		parts = append(parts, "not started yet: "+waiting)
	}
	if failed := v.describe(Failed, false); failed != "" {
		parts = append(parts, "failed: "+failed)
	}
	return strings.Join(parts, "; ")
}

func progressOfEnded(spec *Spec, d Decision) podset.Progress {
	if !ended(spec) {
		end := endOf(spec, d)
		return podset.Progress{Stalled: d.Failure != "", Reason: end.Reason, Message: end.Message}
	}
	status := &spec.Job.Status
	failed, kind := status.Phase == appsv1beta1.EphemeralJobFailed, appsv1beta1.EphemeralJobConditionSucceeded
	if failed {
		kind = appsv1beta1.EphemeralJobConditionFailed
	}
	c, _ := conditions.Find(conditions.From(status.Conditions), kind)
	return podset.Progress{
		Stalled: failed, Reason: cmp.Or(c.Reason, c.Type, string(status.Phase), appsv1beta1.ReasonJobComplete), Message: cmp.Or(c.Message, "The job has ended."),
	}
}

// noTarget says why no pod is a target.
func noTarget(spec *Spec, d Decision) string {
	v := &d.view
	switch {
	case spec.Replicas == 0:
		return "spec.replicas is 0, so no pod is a target."
	case v.taken > 0:
		all := "The pod that spec.selector matches has"
		if v.taken > 1 {
			all = fmt.Sprintf("All %d pods that spec.selector matches have", v.taken)
		}
		return fmt.Sprintf("%s an ephemeral container named %s that this job has not added. Names have to be new: create a job with others.",
			all, strings.Join(spec.Names, " or "))
	default:
		return "spec.selector matches no pod of the namespace that has not ended."
	}
}
