// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/engine/restart"
)

// Status returns the new status. The daemon writes phase, states and snapshot, the operator the rest, and the end, by d.
func Status(r *appsv1beta1.ContainerRecreateRequest, s Snapshot, d Decision, outcome planning.Outcome) appsv1beta1.ContainerRecreateRequestStatus {
	status := *r.Status.DeepCopy()
	status.ObservedGeneration = r.Generation
	if d.End != "" {
		at := podstate.Time(s.Now)
		status.Phase, status.CompletionTime, status.Message = appsv1beta1.RecreateCompleted, &at, d.End
		endStates(&status)
	}
	list := conditions.NewList(conditions.From(r.Status.Conditions), s.Now)
	if d.holding != "" {
		list.Set(conditions.New(appsv1beta1.RecreatePreRecreateGrace, true, appsv1beta1.ReasonRecreateGrace, d.holding))
	} else {
		list.Keep(appsv1beta1.RecreatePreRecreateGrace)
	}
	over := restart.Over(&appsv1beta1.ContainerRecreateRequest{Status: status})
	if over {
		list.Set(succeeded(r, &status, d))
	}
	list.Set(progress(r, &status, s, d, outcome, over).Conditions()...)
	status.Conditions = conditions.To[metav1.Condition](list)
	for i := range status.Conditions {
		status.Conditions[i].ObservedGeneration = r.Generation
	}
	return status
}

// endStates fails containers not restarted in time.
func endStates(status *appsv1beta1.ContainerRecreateRequestStatus) {
	for i := range status.ContainerRecreateStates {
		state := &status.ContainerRecreateStates[i]
		if state.Phase != appsv1beta1.RecreateSucceeded && state.Phase != appsv1beta1.RecreateFailed {
			state.Phase, state.Message = appsv1beta1.RecreateFailed, status.Message
		}
	}
}

// succeeded says how a request has ended.
func succeeded(r *appsv1beta1.ContainerRecreateRequest, status *appsv1beta1.ContainerRecreateRequestStatus, d Decision) conditions.Condition {
	done := map[string]bool{}
	var failed []string
	for _, state := range status.ContainerRecreateStates {
		done[state.Name] = state.Phase == appsv1beta1.RecreateSucceeded
		if state.Phase == appsv1beta1.RecreateFailed {
			failed = append(failed, state.Name+": "+state.Message)
		}
	}
	var missing []string
	for i := range r.Spec.Containers {
		if name := r.Spec.Containers[i].Name; !done[name] {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		how := "restarted"
		if restart.Terminates(r) {
			how = "stopped"
		}
		return conditions.New(appsv1beta1.RecreateConditionSucceeded, true, appsv1beta1.ReasonRecreated,
			fmt.Sprintf("%s %s.", podset.Count(len(r.Spec.Containers), "container was", "containers were"), how))
	}
	message := "Not restarted: " + strings.Join(missing, ", ") + "."
	if len(failed) > 0 {
		message += " " + strings.Join(failed, "; ") + "."
	}
	if status.Message != "" {
		message = status.Message + ". " + message
	}
	return conditions.New(appsv1beta1.RecreateConditionSucceeded, false, reasonOfEnd(status, d), message)
}

// reasonOfEnd is the reason of an unsuccessful end: the operator's, now or by its message, or failed containers.
func reasonOfEnd(status *appsv1beta1.ContainerRecreateRequestStatus, d Decision) string {
	if d.EndReason != "" {
		return d.EndReason
	}
	switch status.Message {
	case "":
		return appsv1beta1.ReasonContainersFailed
	case messageGone:
		return appsv1beta1.ReasonPodGone
	case messageSilent:
		return appsv1beta1.ReasonDaemonSilent
	case messageOverdue:
		return appsv1beta1.ReasonDeadlineExceeded
	}
	return appsv1beta1.ReasonRecreateEnded
}

// progress explains a waiting request, and asks for help.
func progress(
	r *appsv1beta1.ContainerRecreateRequest, status *appsv1beta1.ContainerRecreateRequestStatus, s Snapshot, d Decision,
	outcome planning.Outcome, over bool,
) podset.Progress {
	if failure, refused := outcome.Failed(StepMark, StepHold, StepRelease, StepDelete); refused {
		return podset.Refused(failure, failure.Message, s.Now)
	}
	if over {
		end := succeeded(r, status, d)
		return podset.Progress{Stalled: end.Status != corev1.ConditionTrue, Reason: end.Reason, Message: end.Message}
	}
	if node := r.Labels[appsv1beta1.LabelRequestNode]; left(s) {
		return podset.Stalled(appsv1beta1.ReasonDaemonSilent, fmt.Sprintf(
			"There is no node daemon on node %s any more. nodeDaemon.mode of the Kruise object may be Disabled, or its pods cannot be scheduled there. "+
				"The request goes on with the daemon, or ends at its deadline or when it is deleted.", node))
	} else if status.Phase != "" && s.DaemonStarting {
		return podset.Reconciling(appsv1beta1.ReasonWaitingForDaemon, fmt.Sprintf(
			"The daemon of node %s is not ready; the request goes on when it is. Look at its pods in kruise-daemon-config.", node))
	}
	waiting := podset.Progress{Reconciling: true, Reason: appsv1beta1.ReasonRecreating}
	switch {
	case s.BudgetHolds != "" && Unfilled(r):
		waiting.Reason, waiting.Message = podset.ReasonBudget, "The restart waits: "+s.BudgetHolds+"."
	case s.First != "":
		waiting.Reason = appsv1beta1.ReasonWaitingForRequest
		waiting.Message = fmt.Sprintf("Request %s for the same pod is carried out first.", s.First)
	case status.Phase == "":
		waiting.Reason = appsv1beta1.ReasonWaitingForDaemon
		until := fmt.Sprintf("after %s without an answer, or %s while the daemon is being started", Silence, Starting)
		if r.Spec.ActiveDeadlineSeconds != nil {
			until = "at its deadline"
		}
		waiting.Message = fmt.Sprintf("The daemon of node %s has not taken up the request; the request ends %s.", r.Labels[appsv1beta1.LabelRequestNode], until)
	case status.Phase == appsv1beta1.RecreatePending:
		waiting.Reason = appsv1beta1.ReasonWaitingForDaemon
		waiting.Message = fmt.Sprintf("It is the turn of this request; the daemon of node %s begins it next.", r.Labels[appsv1beta1.LabelRequestNode])
	case wantsHold(r) && d.holding == "":
		waiting.Message = "The pod is taken out of service first."
	default:
		waiting.Message = atWork(status)
		if t := s.Trouble; t.Lasting {
			return podset.Stalled(t.Reason, fmt.Sprintf("A new instance will hardly become ready: %s. %s", t.Message, waiting.Message))
		}
	}
	return waiting
}

// atWork describes the waiting of unfinished containers. It names no time, to stay still.
func atWork(status *appsv1beta1.ContainerRecreateRequestStatus) string {
	var parts []string
	for _, state := range status.ContainerRecreateStates {
		switch {
		case state.Phase == appsv1beta1.RecreateSucceeded || state.Phase == appsv1beta1.RecreateFailed:
		case state.Message != "":
			parts = append(parts, fmt.Sprintf("%s is %s (%s)", state.Name, state.Phase, state.Message))
		default:
			parts = append(parts, fmt.Sprintf("%s is %s", state.Name, state.Phase))
		}
	}
	if len(parts) == 0 {
		return "No container has been stopped yet; with unreadyGracePeriodSeconds that period comes first."
	}
	return "Containers are being restarted: " + conditions.First(parts, 5, ", ") + "."
}

// Events are the events about new statements of a status.
func Events(r *appsv1beta1.ContainerRecreateRequest, after *appsv1beta1.ContainerRecreateRequestStatus) []planning.Event {
	before := conditions.From(r.Status.Conditions)
	var events []planning.Event
	for _, c := range conditions.From(after.Conditions) {
		if conditions.Contains(before, c) {
			continue
		}
		switch {
		case c.Type == appsv1beta1.RecreateConditionSucceeded && c.Status == corev1.ConditionTrue:
			events = append(events, planning.Event{Reason: "Succeeded", Message: c.Message})
		case c.Type == appsv1beta1.RecreateConditionSucceeded:
			events = append(events, planning.Event{Warning: true, Reason: "Failed", Message: c.Message})
		case c.Type == appsv1beta1.RecreatePreRecreateGrace:
			events = append(events, planning.Event{Reason: c.Reason, Message: c.Message})
		case c.Type == appsv1beta1.RecreateReconciling && c.Reason == appsv1beta1.ReasonRecreating && waited(before):
			events = append(events, planning.Event{Reason: "Started", Message: "The daemon of node " + r.Labels[appsv1beta1.LabelRequestNode] + " has taken up the request."})
		}
	}
	return events
}

// waited reports whether the request had not been taken up.
func waited(before []conditions.Condition) bool {
	c, found := conditions.Find(before, appsv1beta1.RecreateReconciling)
	return !found || c.Reason == appsv1beta1.ReasonWaitingForDaemon || c.Reason == appsv1beta1.ReasonWaitingForRequest
}

// End is a newly reported end: the reason of the condition Succeeded,
// and the time since creation. False: none, or an earlier one.
func End(r *appsv1beta1.ContainerRecreateRequest, after *appsv1beta1.ContainerRecreateRequestStatus) (reason string, took time.Duration, ok bool) {
	_, before := conditions.Find(conditions.From(r.Status.Conditions), appsv1beta1.RecreateConditionSucceeded)
	end, ended := conditions.Find(conditions.From(after.Conditions), appsv1beta1.RecreateConditionSucceeded)
	if !ended || before || after.CompletionTime == nil {
		return "", 0, false
	}
	return end.Reason, max(0, after.CompletionTime.Sub(r.CreationTimestamp.Time)), true
}
