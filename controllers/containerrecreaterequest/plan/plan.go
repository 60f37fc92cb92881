// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/engine/restart"
	"github.com/kruise-operator/kruise-operator/internal/engine/virtualnode"
)

// Steps of plans for requests.
const (
	// StepMark writes the labels or finalizers of the request itself.
	StepMark planning.Step = "MarkRequest"
	// StepHold takes the pod out of service, StepRelease gives it back.
	StepHold    planning.Step = "HoldPod"
	StepRelease planning.Step = "ReleasePod"
	// StepDelete deletes the request, after its time to live.
	StepDelete planning.Step = "DeleteRequest"
)

// Reasons of actions.
const (
	reasonGrace    = "UnreadyGrace"
	reasonOver     = "Over"
	reasonNew      = "New"
	reasonFinished = "TTL"
)

const (
	// Silence is how long the daemon of the node may take to take up a request.
	Silence = 60 * time.Second
	// Starting is the time for a starting daemon: a first request deploys it.
	Starting = 5 * time.Minute
	// lookAgain is between looks at a starting daemon.
	lookAgain = 5 * time.Second
	// daemonInterval is between looks at a request's daemon, working or gone.
	daemonInterval = time.Minute
	// Absence is the time without a daemon before the request is stalled: a replacement takes some seconds.
	Absence = 30 * time.Second
	// holdInterval is between questions to a budget. A request held for longHeld or longer is annotated when it begins.
	holdInterval = time.Second
	longHeld     = 10 * time.Second
	// annotationBegun is when a request that waited for a budget was shown to the daemon.
	annotationBegun = "operator.kruise.io/restart-begun"
	// soon is the pause after a write without a triggered pass.
	soon = 200 * time.Millisecond
	// holdAgent is how a request signs its hold on a pod.
	holdAgent = "ContainerRecreateRequest"
)

// Messages of requests ended by the operator.
const (
	messageGone    = "pod has gone"
	messageSilent  = "daemon has not responded for a long time"
	messageOverdue = "recreating has exceeded the activeDeadlineSeconds"
)

// Kind is the kind of requests, in its stored version.
func Kind() schema.GroupVersionKind {
	return appsv1beta1.GroupVersion().WithKind("ContainerRecreateRequest")
}

// Snapshot is the state of a request's pod.
type Snapshot struct {
	Now time.Time
	// Virtual: Pod is on a virtual node. Read for unfilled requests.
	Virtual bool
	// PodKnown: the request's pod, by UID, exists and is not being deleted.
	PodKnown bool
	// Pod from the API server, read if NeedsPod. Nil: gone.
	Pod *corev1.Pod
	// DaemonStarting: the node's daemon is not ready yet. Read if DaemonTimedOut or DaemonMayBeGone.
	DaemonStarting bool
	// AbsentSince is since when the node has no daemon; zero: it has one. Read if DaemonMayBeGone.
	AbsentSince time.Time
	// DaemonBusy: the node's ready daemon restarts containers for First, and
	// meanwhile takes no other request for the pod. Read if DaemonTimedOut.
	DaemonBusy bool
	// First names the pod's request to run before this one; empty: none.
	First string
	// BudgetHolds is why the budget of the pod denies the restart now; empty: it may begin. Asked for unfilled requests.
	BudgetHolds string
	// Trouble keeps new instances unready. Read if MayNeverBeReady.
	Trouble podstate.Trouble
}

// NeedsPod reports whether the plan needs the whole pod, to take it out of service or give it back.
func NeedsPod(r *appsv1beta1.ContainerRecreateRequest) bool {
	return marked(r) || wantsHold(r) || Unfilled(r)
}

// Unfilled reports whether the request lacks the pod's facts.
func Unfilled(r *appsv1beta1.ContainerRecreateRequest) bool {
	return !restart.Over(r) && r.DeletionTimestamp == nil && r.Labels[restart.LabelPin] != ""
}

// DaemonTimedOut reports whether the daemon's silence would end the request, unless it is starting.
func DaemonTimedOut(r *appsv1beta1.ContainerRecreateRequest, now time.Time) bool {
	return !restart.Over(r) && r.Status.Phase == "" && now.Sub(begun(r)) >= Silence
}

// DaemonMayBeGone reports whether the daemon took up the request, but
// may be gone: requests take seconds. Virtual nodes have no daemon.
func DaemonMayBeGone(r *appsv1beta1.ContainerRecreateRequest, now time.Time) bool {
	return !restart.Over(r) && r.Status.Phase != "" && now.Sub(r.CreationTimestamp.Time) >= Silence && !virtualnode.Labeled(r.Labels)
}

// MayNeverBeReady reports whether new instances take longer than seconds. Only the pod says why.
func MayNeverBeReady(r *appsv1beta1.ContainerRecreateRequest, now time.Time) bool {
	return DaemonMayBeGone(r, now) && r.Status.Phase == appsv1beta1.RecreateRecreating
}

// TroubleOf is the obstacle of containers the request waits for.
func TroubleOf(r *appsv1beta1.ContainerRecreateRequest, pod *corev1.Pod, now time.Time) podstate.Trouble {
	waited := func(all []corev1.Container) []corev1.Container {
		return slices.DeleteFunc(slices.Clone(all), func(c corev1.Container) bool {
			return !slices.ContainsFunc(r.Status.ContainerRecreateStates, func(s appsv1beta1.ContainerRecreateRequestContainerRecreateState) bool {
				return s.Name == c.Name && s.Phase == appsv1beta1.RecreateRecreating
			})
		})
	}
	looked := *pod
	looked.Spec.InitContainers, looked.Spec.Containers = waited(pod.Spec.InitContainers), waited(pod.Spec.Containers)
	return podstate.TroubleOf(&looked, func() time.Time { return time.Time{} }, now)
}

// begun is since when the daemon can see the request.
func begun(r *appsv1beta1.ContainerRecreateRequest) time.Time {
	if at, err := time.Parse(time.RFC3339, r.Annotations[annotationBegun]); err == nil && at.After(r.CreationTimestamp.Time) {
		return at
	}
	return r.CreationTimestamp.Time
}

// Decision is a plan with input for the status.
type Decision struct {
	planning.Plan
	// End is the message to end the request with, EndReason its reason; empty: it goes on.
	End, EndReason string
	// holding describes the pod as out of service, or as unable to be; empty: the grace period has not begun.
	holding string
}

// Holder is how a request signs its hold on its pod.
func Holder(r *appsv1beta1.ContainerRecreateRequest) shared.ReadinessHolder {
	return shared.ReadinessHolder{UserAgent: holdAgent, Key: r.Namespace + "/" + r.Name}
}

// Plan decides:
//
//  1. a request over or being deleted gives its pod back, then loses its finalizer;
//  2. a request over loses the daemons' label, and is deleted after its time to live;
//  3. a new one is filled in from its pod; without its pod or instances it is over;
//  4. without a deadline, it is over if the daemon ignores it for 60 seconds, or five minutes while starting, unless busy with
//     the one before; a daemon at work is looked at every minute;
//  5. it is over past its deadline;
//  6. begun, with an unready grace period, it gets its finalizer, then its pod leaves service, then the period begins.
func Plan(r *appsv1beta1.ContainerRecreateRequest, s Snapshot) Decision {
	var d Decision
	if restart.Over(r) {
		d.end(r, s)
		return d
	}
	if Unfilled(r) {
		d.fill(r, s)
		return d
	}
	if !s.PodKnown {
		d.End, d.EndReason = messageGone, appsv1beta1.ReasonPodGone
		return d
	}
	if r.Status.Phase == "" {
		age := s.Now.Sub(begun(r))
		switch {
		case age < Silence:
			d.Recheck(Silence - age)
		case s.DaemonBusy, s.DaemonStarting && age < Starting:
			d.Recheck(lookAgain)
		case r.Spec.ActiveDeadlineSeconds != nil: // its user has said how long it may take
			d.Recheck(daemonInterval)
		default:
			d.End, d.EndReason = messageSilent, appsv1beta1.ReasonDaemonSilent
			return d
		}
	}
	if d.overdue(r, s) {
		return d
	}
	d.watchDaemon(r, s)
	if wantsHold(r) {
		d.hold(r, s)
	}
	return d
}

// fill is the first half of step 3. It makes the request visible to the node's daemon.
func (d *Decision) fill(r *appsv1beta1.ContainerRecreateRequest, s Snapshot) {
	if s.Pod == nil || s.Pod.DeletionTimestamp != nil || !restart.Pinned(r, s.Pod) {
		d.End, d.EndReason = messageGone, appsv1beta1.ReasonPodGone
		return
	}
	if s.BudgetHolds != "" {
		d.Recheck(holdInterval)
		d.overdue(r, s)
		return
	}
	filled := r.DeepCopy()
	restart.Fill(filled, s.Pod, s.Virtual)
	labels := map[string]any{restart.LabelPin: nil}
	for key, value := range filled.Labels {
		labels[key] = value
	}
	metadata := map[string]any{"labels": labels}
	if s.Now.Sub(r.CreationTimestamp.Time) >= longHeld {
		metadata["annotations"] = map[string]any{annotationBegun: s.Now.UTC().Format(time.RFC3339)}
	}
	d.Actions = append(d.Actions, planning.Action{
		Verb: planning.VerbPatch, Step: StepMark, Kind: Kind(), Object: r, Reason: reasonNew,
		Change: planning.MergePatch(r, map[string]any{
			"metadata": metadata,
			"spec":     map[string]any{"containers": filled.Spec.Containers, "strategy": filled.Spec.Strategy},
		}),
		Failure: planning.Event{Warning: true, Reason: "FailedUpdate", Message: "Filling in the request"},
	})
	d.Recheck(soon)
}

// overdue ends a request past its deadline.
func (d *Decision) overdue(r *appsv1beta1.ContainerRecreateRequest, s Snapshot) bool {
	if !d.Overdue(&r.CreationTimestamp, planning.Limit(r.Spec.ActiveDeadlineSeconds), s.Now) {
		return false
	}
	d.End, d.EndReason = messageOverdue, appsv1beta1.ReasonDeadlineExceeded
	return true
}

// watchDaemon schedules looks at the daemon of a request taken up.
func (d *Decision) watchDaemon(r *appsv1beta1.ContainerRecreateRequest, s Snapshot) {
	switch {
	case r.Status.Phase == "", virtualnode.Labeled(r.Labels):
	case !DaemonMayBeGone(r, s.Now):
		d.Recheck(Silence - s.Now.Sub(r.CreationTimestamp.Time))
	default:
		d.Recheck(daemonInterval)
		if !s.AbsentSince.IsZero() && !left(s) {
			d.Recheck(s.AbsentSince.Add(Absence).Sub(s.Now))
		}
	}
}

// left reports whether the node lacks a daemon for longer than a replacement takes.
func left(s Snapshot) bool {
	return !s.AbsentSince.IsZero() && s.Now.Sub(s.AbsentSince) >= Absence
}

// wantsHold reports whether the grace period is to begin.
func wantsHold(r *appsv1beta1.ContainerRecreateRequest) bool {
	return !restart.Over(r) && r.Status.Phase == appsv1beta1.RecreateRecreating && r.Spec.Strategy != nil &&
		r.Spec.Strategy.UnreadyGracePeriodSeconds != nil && !meta.IsStatusConditionTrue(r.Status.Conditions, appsv1beta1.RecreatePreRecreateGrace)
}

// marked reports whether the finalizer is there, so the request may hold its pod.
func marked(r *appsv1beta1.ContainerRecreateRequest) bool {
	return slices.Contains(r.Finalizers, appsv1beta1.FinalizerRequestUnready)
}

// hold is step 6.
func (d *Decision) hold(r *appsv1beta1.ContainerRecreateRequest, s Snapshot) {
	holder := Holder(r)
	switch {
	case s.Pod == nil:
		d.Recheck(soon) // it has just gone; the cache will say so
	case !podstate.HasGate(s.Pod, shared.GateKruisePodReady):
		d.holding = fmt.Sprintf("Pod %s has no readiness gate %s, so it stays in service; containers are stopped after the grace period all the same.",
			s.Pod.Name, shared.GateKruisePodReady)
	case slices.Contains(podstate.Holders(s.Pod), holder):
		d.holding = fmt.Sprintf("Pod %s is held not ready by %s %s until this request is over.", s.Pod.Name, holder.UserAgent, holder.Key)
	case !marked(r):
		d.mark(r, append(slices.Clone(r.Finalizers), appsv1beta1.FinalizerRequestUnready), nil, reasonGrace)
	default:
		d.edit(s.Pod, podstate.Hold(s.Pod, holder, s.Now), StepHold, reasonGrace)
	}
}

// end is steps 1 and 2.
func (d *Decision) end(r *appsv1beta1.ContainerRecreateRequest, s Snapshot) {
	if marked(r) {
		if s.Pod != nil && s.Pod.DeletionTimestamp == nil {
			if e := podstate.Release(s.Pod, s.Now, Holder(r)); !e.IsZero() {
				d.edit(s.Pod, e, StepRelease, reasonOver)
				return
			}
		}
		others := slices.DeleteFunc(slices.Clone(r.Finalizers), func(name string) bool { return name == appsv1beta1.FinalizerRequestUnready })
		d.mark(r, others, r.Labels, reasonOver)
		return
	}
	if r.DeletionTimestamp != nil {
		return
	}
	if _, active := r.Labels[appsv1beta1.LabelRequestActive]; active {
		d.mark(r, r.Finalizers, r.Labels, reasonOver)
		return
	}
	d.expire(r, s.Now)
}

// expire deletes a request after its time to live, counted from the operator's record
// of its end: completionTime may follow the node's clock, and be over at once.
func (d *Decision) expire(r *appsv1beta1.ContainerRecreateRequest, now time.Time) {
	if r.Spec.TTLSecondsAfterFinished == nil || r.Status.CompletionTime == nil {
		return
	}
	end := meta.FindStatusCondition(r.Status.Conditions, appsv1beta1.RecreateConditionSucceeded)
	if end == nil {
		d.Recheck(soon)
		return
	}
	left := end.LastTransitionTime.Add(time.Duration(*r.Spec.TTLSecondsAfterFinished) * time.Second).Sub(now)
	if left > 0 {
		d.Recheck(left)
		return
	}
	d.Actions = append(d.Actions, planning.Action{
		Verb: planning.VerbDelete, Step: StepDelete, Kind: Kind(), Object: r, Reason: reasonFinished,
		Failure: planning.Event{Warning: true, Reason: "FailedDelete", Message: "Deleting the request after ttlSecondsAfterFinished"},
	})
}

// edit writes the readiness of the pod.
func (d *Decision) edit(pod *corev1.Pod, change planning.Change, step planning.Step, reason string) {
	d.Actions = append(d.Actions, planning.Action{
		Verb: planning.VerbPatch, Step: step, Kind: podset.KindPod(), Object: pod, Change: change, Reason: reason,
		Failure: planning.Event{Warning: true, Reason: "FailedUpdate", Message: fmt.Sprintf("Writing the condition %s of pod %s", shared.GateKruisePodReady, pod.Name)},
	})
	d.Recheck(soon)
}

// mark writes the finalizers. With labels, it removes the daemons' label: the request is over.
func (d *Decision) mark(r *appsv1beta1.ContainerRecreateRequest, finalizers []string, labels map[string]string, reason string) {
	metadata := map[string]any{"finalizers": finalizers}
	if _, active := labels[appsv1beta1.LabelRequestActive]; active {
		metadata["labels"] = map[string]any{appsv1beta1.LabelRequestActive: nil}
	}
	d.Actions = append(d.Actions, planning.Action{
		Verb: planning.VerbPatch, Step: StepMark, Kind: Kind(), Object: r, Reason: reason,
		Change:  planning.MetadataPatch(r, metadata),
		Failure: planning.Event{Warning: true, Reason: "FailedUpdate", Message: "Writing labels and finalizers of the request"},
	})
	d.Recheck(soon)
}

// Marks reports whether the plan writes the request itself, so its status waits for the new version.
func (d *Decision) Marks() bool {
	return slices.ContainsFunc(d.Actions, func(a planning.Action) bool { return a.Step == StepMark || a.Step == StepDelete })
}
