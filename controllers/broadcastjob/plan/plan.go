// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

// Reasons of actions.
const (
	reasonNode    = "Node"
	reasonStopped = "Stopped"
	reasonUnfit   = "Unfit"
	reasonStray   = "Stray"
	reasonFailed  = "Failed"
)

// Reasons of notes.
const (
	// noteParallelism: nodes wait because as many pods are at work as may be.
	noteParallelism = "Parallelism"
	// noteStillTerminating is about nodes waiting for terminating pods.
	noteStillTerminating = "PodDoesNotEnd"
)

const (
	// storedSoon is the pause after a status write, since it triggers no pass.
	storedSoon = 100 * time.Millisecond
)

// Stage is the stage of a job.
type Stage string

// The stages of a job.
const (
	// Running: pods are started where nodes need one.
	Running Stage = "Running"
	// Paused: its user has paused it. PausedByFailure: its failure policy has.
	Paused          Stage = "Paused"
	PausedByFailure Stage = "PausedByFailure"
	// Stopping: it has failed, and its pods at work have to go.
	Stopping Stage = "Stopping"
	// Ended: it has completed or failed. Ending: it does so in this pass.
	Ended Stage = "Ended"
)

// Decision is a plan, and its reasons.
type Decision struct {
	planning.Plan
	// Stage of the job. Failure is the reason it fails or failed; empty: neither.
	Stage   Stage
	Failure string
	// resume: the resume annotation is new.
	resume bool
	// limit is how many pods may be at work, waiting how many nodes need a pod.
	limit, waiting int
	view           view
}

// ended is the condition type of a job's stored end; empty: none. A job of type Never ends only by failure.
func ended(spec *Spec) string {
	for _, c := range spec.Job.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		if c.Type == appsv1beta1.BroadcastJobConditionFailed || c.Type == appsv1beta1.BroadcastJobConditionComplete && !spec.Never {
			return c.Type
		}
	}
	return ""
}

// NeedsNodes reports whether the plan depends on nodes and pods. Ended jobs
// skip them: there may be thousands, and each pod's removal triggers a pass.
func (s *Spec) NeedsNodes() bool { return ended(s) == "" }

// Plan decides:
//
//  1. nothing for a job being deleted, invalid, or paused by its user before its deadline;
//  2. an ended job is deleted after its time to live;
//  3. the job fails on a failed pod (FailFast), or past its deadline with work left: its pods at work are deleted, and with the
//     last it ends;
//  4. running pods are deleted if their node no longer fits, should have none, or if they count as failed;
//  5. a failure pauses creations (Pause), as long as work is left; otherwise the job completes;
//  6. the job completes when every desired node is finished, except with type Never;
//  7. fitting, unfinished nodes get their pod, as parallelism allows, replacing one evicted or preempted.
//
// A running pod counted as failed is deleted only once the stored status has its node: until then it is the evidence.
func Plan(spec *Spec, s Snapshot) Decision {
	d := Decision{Stage: Running, view: look(spec, s, false)}
	v := &d.view
	d.resume = spec.Resume != "" && (spec.Job.Status.Finished == nil || spec.Job.Status.Finished.Resumed != spec.Resume)
	d.limit = spec.Parallelism(v.desired)
	for i := range s.Pods {
		d.Recheck(s.Pods[i].Trouble.RecheckAfter)
	}
	// Pods stopped by the deadline count as failed, but must not pause the job: it would never fail.
	stopped := spec.Job.Status.Phase == appsv1beta1.BroadcastJobFailed && ended(spec) == "" && d.Overdue(spec.Job.Status.StartTime, spec.Deadline, s.Now)
	switch {
	case spec.Deleting || spec.Invalid != nil:
		return d
	case ended(spec) != "":
		d.Stage = Ended
		d.Expire(Kind(), spec.Job, spec.Job.Status.CompletionTime, spec.TTL, s.Now)
		return d
	case spec.Paused && !stopped:
		d.Stage = Paused
		return d
	case spec.FailurePolicy == appsv1beta1.BroadcastJobPause && v.record.failures > d.resumedFailures(spec) && !stopped:
		d.Stage = PausedByFailure
	case stopped, d.Overdue(spec.Job.Status.StartTime, spec.Deadline, s.Now) && !d.finished():
		d.view = look(spec, s, true)
		d.Stage, d.Failure = Stopping, appsv1beta1.ReasonDeadlineExceeded
	case spec.FailurePolicy == appsv1beta1.BroadcastJobFailFast && v.record.failures > 0:
		d.Stage, d.Failure = Stopping, appsv1beta1.ReasonJobFailed
	}
	d.clean()
	if d.Stage == Stopping {
		d.remove(v.active, reasonStopped)
		d.remove(v.unfit, reasonStopped)
		if len(v.active)+len(v.unfit)+len(v.failedActive)+len(v.strays) == 0 {
			d.Stage = Ended
			d.Ends(spec.TTL)
		}
		return d
	}
	d.remove(v.unfit, reasonUnfit)
	if d.Stage == PausedByFailure && !spec.Never && d.finished() {
		d.Stage = Running // there is nothing to pause
	}
	if d.Stage == Running {
		d.create(spec, s.Retries)
		d.holdStillTerminating(s)
	}
	return d
}

// resumedFailures is how many failures do not pause the job any more.
func (d *Decision) resumedFailures(spec *Spec) int32 {
	switch {
	case d.resume:
		return d.view.record.failures
	case spec.Job.Status.Finished != nil:
		return spec.Job.Status.Finished.ResumedFailures
	}
	return 0
}

// clean deletes strays and pods counted as failed.
func (d *Decision) clean() {
	d.remove(d.view.strays, reasonStray)
	for _, at := range d.view.failedActive {
		if at.stored {
			d.remove([]*podset.Pod{at.pod}, reasonFailed)
		} else {
			d.Recheck(storedSoon)
		}
	}
}

func (d *Decision) remove(pods []*podset.Pod, reason string) {
	for _, pod := range pods {
		action := podset.DeletePod(pod.Slot, pod.Object, reason)
		// A pod succeeding meanwhile stays until its node is remembered.
		action.ExactVersion = reason != reasonFailed
		what := fmt.Sprintf("pod %s of node %s", pod.Object.Name, pod.Slot)
		action.Success = planning.Event{Reason: "SuccessfulDelete", Message: "Deleted " + what}
		if slices.Contains(d.view.duplicates, pod) {
			action.Success = planning.Event{Warning: true, Reason: "DuplicatePodCreatedOnSameNode", Message: "Deleted " + what + ", which has another one"}
		}
		action.Failure = planning.Event{Warning: true, Reason: "FailedDelete", Message: "Deleting " + what}
		d.Actions = append(d.Actions, action)
	}
}

// removeDisrupted makes room for another pod of the same name.
func (d *Decision) removeDisrupted(pod *podset.Pod) {
	action := podset.DeletePod(pod.Slot, pod.Object, podset.ReasonFinished)
	what := fmt.Sprintf("pod %s of node %s", podset.Failed(pod.Object), pod.Slot)
	action.Success = planning.Event{Reason: "SuccessfulDelete", Message: "Deleted " + what + ", to start it again: its program has not failed"}
	action.Failure = planning.Event{Warning: true, Reason: "FailedDelete", Message: "Deleting " + what}
	d.Actions = append(d.Actions, action)
}

// finished reports whether every desired node is finished, and no pod at work.
func (d *Decision) finished() bool {
	v := &d.view
	waits := func(at nodeState) bool { return at.Fits && at.outcome == Unfinished }
	return v.desired > 0 && len(v.active)+len(v.unfit)+len(v.strays)+len(v.failedActive) == 0 && !slices.ContainsFunc(v.nodes, waits)
}

// create creates missing pods, or finds none missing. A refused node passes its slot on until its next try.
func (d *Decision) create(spec *Spec, retries planning.Retries) {
	v := &d.view
	atWork := len(v.active) + len(v.unfit) + len(v.strays) + len(v.failedActive)
	unfinished := atWork
	room := d.limit - atWork
	created := 0 // without those that yield
	var waiting []planning.Slot
	for i := range v.nodes {
		at := &v.nodes[i]
		if !at.Fits || at.outcome != Unfinished {
			continue
		}
		unfinished++
		free := room > 0 && created < podset.MaxCreations
		switch {
		case at.disrupted != nil && !at.disrupted.Terminating:
			d.removeDisrupted(at.disrupted)
		case at.occupied: // by its pod, or by one that is going
		case retries != nil && d.SetAside(retries, spec.creationKey(at.Node), planning.Place(free)):
			d.createPod(spec, at.Node)
		case free:
			room--
			created++
			d.createPod(spec, at.Node)
		case room > 0:
			d.Recheck(time.Second)
		default:
			waiting = append(waiting, planning.Slot(at.Name))
		}
	}
	d.waiting = len(waiting)
	if len(waiting) > 0 {
		d.Held = append(d.Held, planning.Note{
			Reason: noteParallelism, Slots: waiting,
			Message: fmt.Sprintf("%s: spec.parallelism is %d", podset.Of(len(waiting), v.desired, "node waits", "nodes wait"), d.limit),
		})
	}
	if unfinished == 0 && v.desired > 0 && !spec.Never {
		d.Stage = Ended
		d.Ends(spec.TTL)
	}
}

// holdStillTerminating names terminating pods with waiting nodes: the job cannot complete yet.
func (d *Decision) holdStillTerminating(s Snapshot) {
	waits := map[planning.Slot]bool{}
	for i := range d.view.nodes {
		if at := &d.view.nodes[i]; at.Fits && at.outcome == Unfinished && at.occupied && at.pod == nil {
			waits[planning.Slot(at.Name)] = true
		}
	}
	going := slices.DeleteFunc(slices.Clone(s.Pods), func(pod podset.Pod) bool { return !waits[pod.Slot] })
	note, in := podset.StillTerminating(going, noteStillTerminating, s.Now)
	d.Recheck(in)
	if note.Message != "" {
		d.Held = append(d.Held, note)
	}
}

func (d *Decision) createPod(spec *Spec, node *Node) {
	pod := spec.newPod(node)
	action := planning.Action{
		Verb: planning.VerbCreate, Step: podset.StepCreate, Kind: podset.KindPod(), Object: pod, Slot: planning.Slot(node.Name), Reason: reasonNode,
	}
	what := fmt.Sprintf("pod %s for node %s", pod.Name, node.Name)
	action.Success = planning.Event{Reason: "SuccessfulCreate", Message: "Created " + what}
	action.Failure = planning.Event{Warning: true, Reason: "FailedCreate", Message: "Creating " + what}
	d.Actions = append(d.Actions, action)
}
