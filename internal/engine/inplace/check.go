// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
	"github.com/kruise-operator/kruise-operator/internal/engine/lifecycle"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/engine/restart"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
)

// Check is the progress of the pod's update. It is Done when, in this order,
//
//  1. no edit waits for its grace period;
//  2. containers run with the variables from changed metadata;
//  3. the node has applied changed resources;
//  4. containers run their changed images (see effectOn);
//  5. no later batch waits.
//
// A pod out of service with nothing left to prove is Done as well. It may look so because its edit
// was never sent after the conditions. The planner then begins that update again, if the pod is not
// at its revision. An unreadable annotation blocks the update until the next revision or a
// replacement by the user: its contents would otherwise be lost.
func Check(pod *corev1.Pod, o Options, now time.Time) Status {
	if atRest(pod) {
		return Status{}
	}
	if grace, found, err := readGrace(pod); err != nil {
		return malformed(err)
	} else if found {
		return checkGrace(pod, grace, now)
	}
	update, found, err := readRun(pod)
	if err != nil {
		return malformed(err)
	}
	if found {
		if s := update.check(pod, o, now); s.Progress != Done {
			return s
		}
	}
	condition := podstate.Condition(pod, shared.GateInPlaceUpdateReady)
	outOfService := condition != nil && condition.Status != corev1.ConditionTrue
	if outOfService || lifecycle.StateOf(pod) == shared.StateUpdating {
		return Status{Progress: Done}
	}
	return Status{}
}

// Continue returns the next Edit of an update under way: the end of the grace period, or the next
// batch once the one before is proven and ready. False: there is nothing to write now.
//
// After a grace period an edit is dropped if the pod's label names another revision by now.
func Continue(pod *corev1.Pod, o Options, now time.Time) (edit.Edit, bool) {
	if atRest(pod) {
		return edit.Edit{}, false
	}
	if grace, found, err := readGrace(pod); err != nil {
		return edit.Edit{}, false
	} else if found {
		return endGrace(pod, grace, now)
	}
	update, found, err := readRun(pod)
	if err != nil || !found || update.check(pod, o, now).Reason != ReasonNextBatch {
		return edit.Edit{}, false
	}
	e := update.start(pod, update.pending(), now)
	update.write(&e, pod)
	return e, true
}

// Finish puts the pod back in service: its InPlaceUpdateReady condition becomes True, without reason or message. Zero when it
// is so already, or when the pod does not list the gate. The kubelet makes the pod Ready.
func Finish(pod *corev1.Pod, now time.Time) edit.Edit {
	var e edit.Edit
	old := podstate.Condition(pod, shared.GateInPlaceUpdateReady)
	isSo := old != nil && old.Status == corev1.ConditionTrue && old.Reason == "" && old.Message == ""
	if !isSo && podstate.HasGate(pod, shared.GateInPlaceUpdateReady) {
		e.SetCondition(gate(pod, corev1.ConditionTrue, now))
	}
	return e
}

// Began is when containers of the pod were changed in place last: when the last batch of the last update began. A grace period before it does
// not count. Zero if there was no update, or if its annotation cannot be decoded.
func Began(pod *corev1.Pod) time.Time {
	update, _, _ := readRun(pod)
	return update.began()
}

// began is when the last batch of the update began.
func (r run) began() time.Time {
	last := r.UpdateTimestamp.Time
	if n := len(r.ContainerBatchesRecord); n > 0 {
		last = podstate.Later(last, r.ContainerBatchesRecord[n-1].Timestamp.Time)
	}
	return last
}

func malformed(err error) Status {
	return Status{Progress: Blocked, Reason: ReasonMalformed, Message: err.Error()}
}

func checkGrace(pod *corev1.Pod, grace *graceEdit, now time.Time) Status {
	s := Status{Progress: Grace, Reason: ReasonGracePeriod, Message: "the edit is recorded and about to be sent"}
	if grace == nil || !sameRevision(grace.Revision, pod.Labels[shared.LabelControllerRevisionHash]) {
		return s
	}
	if left := graceLeft(pod, grace, now); left > 0 {
		s.Message = fmt.Sprintf("the edit waits for the grace period of %d s", grace.GraceSeconds)
		s.RecheckAfter = left
	}
	return s
}

func endGrace(pod *corev1.Pod, grace *graceEdit, now time.Time) (edit.Edit, bool) {
	var e edit.Edit
	dropGrace(&e, pod)
	if grace == nil || !sameRevision(grace.Revision, pod.Labels[shared.LabelControllerRevisionHash]) {
		return e, true
	}
	if graceLeft(pod, grace, now) > 0 {
		return edit.Edit{}, false
	}
	// A missing or unreadable state is no loss: the grace annotation has all that is left to do.
	update, found, err := readRun(pod)
	if err != nil || !found {
		update = run{InPlaceUpdateState: shared.InPlaceUpdateState{Revision: grace.Revision, UpdateTimestamp: podstate.Time(now)}}
	}
	update.UpdateEnvFromMetadata = update.UpdateEnvFromMetadata || grace.UpdateEnvFromMetadata
	e.Merge(grace.metadata)
	e.Merge(update.start(pod, grace.change(), now))
	update.write(&e, pod)
	return e, true
}

// sameRevision compares two names of revisions of one workload; either may be the hash alone.
func sameRevision(a, b string) bool {
	return revision.HashOf(a) == revision.HashOf(b)
}

// checkNext is the next batch's wait after proof of the one before.
func checkNext(pod *corev1.Pod, update run) Status {
	if update.PreCheckBeforeNext != nil {
		for _, name := range update.PreCheckBeforeNext.ContainersRequiredReady {
			status := restart.StatusOf(pod, name)
			if containerOf(pod.Spec.Containers, name) != nil && (status == nil || !status.Ready && !restart.IsOver(pod, status)) {
				return Status{
					Progress: Running, Reason: ReasonContainerNotReady,
					Message: fmt.Sprintf("container %s is not ready, so the containers after it are not updated yet", name),
				}
			}
		}
	}
	return Status{Progress: Running, Reason: ReasonNextBatch, Message: "the next batch of containers can begin"}
}

// check judges the batches begun so far, and then whether a later one waits.
func (r run) check(pod *corev1.Pod, o Options, now time.Time) Status {
	if !r.observed(pod) {
		return Status{Progress: Running, Reason: ReasonSpecNotObserved, Message: "the kubelet has not seen the new spec yet"}
	}
	report := readReport(pod)
	if r.UpdateEnvFromMetadata {
		if stale := r.staleEnvironment(pod, report, now); len(stale) > 0 {
			s := Status{Progress: Blocked, Reason: ReasonNodeDaemon}
			if o.EnvFromMetadata {
				s.Progress = Running
			}
			s.Message = fmt.Sprintf("container %s reads changed metadata through its environment and waits for the node daemon to restart it or to confirm that it did", stale[0])
			return s
		}
	}
	if r.UpdateResources && o.Resources && !resized(pod) {
		return resizing(pod)
	}
	if s := r.checkImages(pod, report, now); s.Progress != Done || r.pending().isZero() {
		return s
	}
	return checkNext(pod, r)
}

func (r run) checkImages(pod *corev1.Pod, report report, now time.Time) Status {
	s := Status{Progress: Done}
	for i := range pod.Spec.Containers {
		name := pod.Spec.Containers[i].Name
		_, changed := r.LastContainerStatuses[name]
		if _, later := r.NextContainerImages[name]; !changed || later {
			// A later batch gives the container another image: the present one does not matter.
			continue
		}
		effect := r.effectOn(pod, name, report, now)
		switch {
		case effect.proven:
		case effect.in == 0:
			return Status{Progress: Running, Reason: ReasonContainerNotRestarted, Message: effect.why}
		case effect.in > s.RecheckAfter:
			s = Status{Progress: Running, Reason: ReasonContainerNotRestarted, Message: effect.why, RecheckAfter: effect.in}
		}
	}
	return s
}

// observed says that the pod's status belongs to our edit, or that nothing can tell. Evidence of a
// future generation comes from another pod: this one is its copy.
func (r run) observed(pod *corev1.Pod) bool {
	return pod.Status.ObservedGeneration == 0 || r.evidence.Generation > pod.Generation || pod.Status.ObservedGeneration >= r.evidence.Generation
}

// staleEnvironment returns the containers without proof of their variables. The proof is the hash
// in the node daemon's report, or a new instance after an edit of ours: it brought the metadata
// along.
func (r run) staleEnvironment(pod *corev1.Pod, report report, now time.Time) []string {
	var stale []string
	for i := range pod.Spec.Containers {
		container := &pod.Spec.Containers[i]
		if len(metadataVariables(container)) == 0 {
			continue
		}
		status := restart.StatusOf(pod, container.Name)
		if status != nil {
			if entry, ok := report[container.Name]; ok && entry.current(status) && entry.Hashes.Environment == environmentHash(pod, container) {
				continue
			}
			before, ok := r.evidence.Containers[container.Name]
			if ok && pod.Status.ObservedGeneration > 0 && status.ContainerID != before.ContainerID && r.effectOn(pod, container.Name, report, now).proven {
				continue
			}
		}
		stale = append(stale, container.Name)
	}
	return stale
}

// resized says that the node has applied the resources of every container of the spec.
func resized(pod *corev1.Pod) bool {
	if len(pod.Status.ContainerStatuses) != len(pod.Spec.Containers) {
		return false
	}
	for i := range pod.Spec.Containers {
		container := &pod.Spec.Containers[i]
		status := restart.StatusOf(pod, container.Name)
		if status == nil {
			return false
		}
		var applied corev1.ResourceRequirements
		if status.Resources != nil {
			applied = *status.Resources
		}
		if !equality.Semantic.DeepEqual(applied.Limits, container.Resources.Limits) ||
			!equality.Semantic.DeepEqual(applied.Requests, container.Resources.Requests) {
			return false
		}
	}
	return true
}

// resizing says why the resources are not applied yet.
func resizing(pod *corev1.Pod) Status {
	reason, message := string(pod.Status.Resize), "" // the field: servers before 1.33 say it nowhere else
	if pending := podstate.Condition(pod, corev1.PodResizePending); pending != nil && pending.Status == corev1.ConditionTrue {
		reason, message = pending.Reason, pending.Message
	}
	if message != "" {
		message = ": " + message
	}
	switch {
	case slices.Contains([]string{corev1.PodReasonDeferred, string(corev1.PodResizeStatusDeferred)}, reason):
		return Status{Progress: Blocked, Reason: ReasonResizeDeferred, Message: "the node has no room for the new resources now" + message}
	case slices.Contains([]string{corev1.PodReasonInfeasible, string(corev1.PodResizeStatusInfeasible)}, reason):
		return Status{Progress: Blocked, Reason: ReasonResizeInfeasible, Message: "the node can never give the new resources" + message}
	}
	if progress := podstate.Condition(pod, corev1.PodResizeInProgress); progress != nil && progress.Reason == corev1.PodReasonError {
		message = ": " + progress.Message
	}
	return Status{Progress: Running, Reason: ReasonResizing, Message: "the node has not applied the new resources yet" + message}
}
