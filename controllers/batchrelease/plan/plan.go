// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan decides the next write of a BatchRelease. It has no client, clock or log.
package plan

import (
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/rollable"
	"github.com/kruise-operator/kruise-operator/internal/engine/rolling"
)

// maxNamed is how many pods a message names.
const maxNamed = 5

// Workload is what was read of a workload.
type Workload struct {
	rollable.Workload
	rollable.Facts
	// Controlled: the numbers of this release are in its spec. Other is another BatchRelease with it.
	Controlled bool
	Other      string
	// Held: the brake has paused it, and it has no batches.
	Held bool
	// Foreign: OpenKruise has it for this release, and named versions in its own way.
	Foreign bool
	// Ready are its pods with the Revision that are ready.
	Ready int
	// Unready names updated pods that are not ready, with the cause.
	Unready []string
	// Blocked are pods that are not ready and will be replaced in any case. Some controllers wait for them.
	Blocked []string
	// Rolling is a Deployment; its Limit is filled in by the plan.
	Rolling *rolling.View
	// Deadline is how long a Deployment may make no progress; 0 is the default.
	Deadline time.Duration
	// Pods are those of a DaemonSet.
	Pods []Pod
	// Twin are the pods beside old ones of a CloneSet, Old is the number of old ones, Middle names pods of neither version.
	Twin   rollable.Twin
	Old    int
	Middle []string
	// New are those of the new version, when their labels matter. Labeled: all of them have the labels of the release, and New is empty.
	New     []NewPod
	Labeled bool
}

// Snapshot is everything a pass has read.
type Snapshot struct {
	Now time.Time
	// Workload is nil when it is not there.
	Workload *Workload
	// Canary is nil when the workload's own pods are updated. Else the updated pods of Workload are those of the canary Deployment, until the
	// release ends.
	Canary *Canary
	// Scaling: an autoscaler of the workload may take pods. Held: one is kept from it. Only releases with all old pods look.
	Scaling, Held bool
	// Labels: pods get labels of the release. Keeps: a release that is ended early leaves its workload as it is.
	Labels, Keeps bool
}

// Act is one write to the workload or its pods. At most one field is set.
type Act struct {
	// Control takes the workload from its user.
	Control bool
	// Partition is the next partition.
	Partition *int
	// Rolling is the next write to a Deployment or its ReplicaSets.
	Rolling *rolling.Step
	// Delete names pods.
	Delete []string
	// Size is the next one of the canary Deployment, which begins with 0. Drop names canary Deployments to delete.
	Size *int
	Drop []string
	// Beside is how many new pods come beside all old ones of a CloneSet.
	Beside *int
	// Hold keeps autoscalers from taking pods, Free lets them.
	Hold, Free bool
	// Restore gives the workload its own strategy back. Keep leaves it held: it is only given up.
	Restore, Keep bool
}

func (a Act) any() bool {
	return a.Control || a.Partition != nil || a.Rolling != nil || len(a.Delete) > 0 || a.Restore || a.Beside != nil || a.Hold || a.Free || a.Size != nil || len(a.Drop) > 0
}

// Decision is what comes next.
type Decision struct {
	Status v1beta1.BatchReleaseStatus
	Act    Act
	// Label is what to write on pods.
	Label []Label
	// Ended: the finalizer can go.
	Ended bool
	// Moving: the workload has to be looked at again soon. After is when time alone may change the answer; 0 is never.
	Moving bool
	After  time.Duration
	// Stalled: looks may be rare.
	Stalled bool
	// stalled and why: somebody has to do something.
	stalled, why string
}

// Acts says that something is to be written beside the status.
func (d Decision) Acts() bool { return d.Act.any() || len(d.Label) > 0 }

// pass is one decision in the making.
type pass struct {
	release *v1beta1.BatchRelease
	Snapshot
	Decision
}

// Plan decides the next write. The rules are in the order of their numbers; the first one that fits is taken.
func Plan(b *v1beta1.BatchRelease, s Snapshot) Decision {
	p := &pass{release: b, Snapshot: s}
	p.Status = *b.Status.DeepCopy()
	p.Status.ObservedGeneration, p.Status.Message = b.Generation, ""
	if s.Workload != nil && s.Workload.Foreign {
		p.Status.UpdateRevision, p.Status.StableRevision = "", s.Workload.Stable
	}
	switch {
	case s.Workload == nil: // 1
		p.Status.Phase, p.Ended = v1beta1.BatchReleasePhaseCompleted, !p.drop(true) && !p.free()
	case b.DeletionTimestamp != nil && (s.Workload.InRelease || b.Status.Phase == v1beta1.BatchReleasePhaseCompleted): // 2
		// Another BatchRelease follows, or there is nothing to restore.
		p.Ended = !p.drop(false)
	case p.refused(): // 3
	case b.DeletionTimestamp != nil || b.Spec.ReleasePlan.BatchPartition == nil: // 4
		p.finalize()
	case s.Workload.InRelease && !s.Workload.Guarded: // 5
		p.Status.Message = "somebody took the workload over; the Rollout decides about it"
	case !s.Workload.Settled: // 6
		p.Moving = true
	case p.begun() && p.Status.UpdateRevision != s.Workload.Revision: // 7
		p.Status.Message = "the template has changed; the Rollout decides about it"
		if !s.Workload.InRelease {
			p.stalled, p.why = v1beta1.ReasonOtherTemplate, p.Status.Message
		}
	case !s.Workload.Controlled: // 8
		p.prepare()
	default: // 9
		p.progress()
	}
	p.conditions()
	return p.Decision
}

// had: the workload is not its user's.
func (w *Workload) had() bool { return w.Controlled || w.Foreign }

// begun: batches have begun.
func (p *pass) begun() bool {
	return p.release.Status.Phase == v1beta1.BatchReleasePhaseProgressing && p.Status.UpdateRevision != ""
}

// refused says whether nothing can be done for the workload. A release that has it ends in any case.
func (p *pass) refused() bool {
	w, style := p.Workload, p.release.Spec.ReleasePlan.RollingStyle
	switch {
	case w.had() || p.release.DeletionTimestamp != nil || p.release.Spec.ReleasePlan.BatchPartition == nil && w.Unsupported != "":
		return false
	case w.Unsupported != "":
		p.stalled, p.why = v1beta1.ReasonUnsupportedWorkload, w.Unsupported
	case p.beside() && !w.Beside:
		p.stalled, p.why = v1beta1.ReasonUnsupportedWorkload, fmt.Sprintf("the style %s is not for a %s", style, w.Kind.Kind)
	case w.Other != "":
		p.stalled, p.why = v1beta1.ReasonControlledByOther, fmt.Sprintf("the BatchRelease %s has the %s", w.Other, w.Kind.Kind)
	default:
		return false
	}
	p.Status.Message = p.why
	return true
}

// prepare takes the workload over. What it had before is kept, so only once.
func (p *pass) prepare() {
	p.Moving = true
	if p.Status.Phase != v1beta1.BatchReleasePhasePreparing {
		p.Status.Phase = v1beta1.BatchReleasePhasePreparing
		if p.Status.StableRevision == "" {
			p.Status.StableRevision = p.Workload.Stable
		}
		return
	}
	if !p.keepOld() {
		p.Act.Control = true
	}
}

// finalize gives the workload its own strategy back.
func (p *pass) finalize() {
	w := p.Workload
	if p.held() {
		p.prepare()
		return
	}
	p.Status.Phase, p.Moving = v1beta1.BatchReleasePhaseFinalizing, true
	// The brake caught another template: the next release has it.
	other := w.InRelease && !w.Foreign && p.Status.UpdateRevision != w.Revision && (w.Revision != p.Status.StableRevision || p.served())
	switch {
	case w.had() && !other && w.Rolling != nil && !w.Rolling.CaughtUp && !w.Rolling.Refused:
		// Its controller would count by what it saw earlier.
		return
	case w.had() && !other && p.withdraw():
		return
	case w.had() && !other, w.Held:
		p.Act.Restore, p.Act.Keep = true, p.keeps() && w.had()
		return
	case !other && !w.Settled:
		return
	case !other && len(w.Blocked) > 0:
		p.Act.Delete = w.Blocked
		return
	case (other || !p.needed()) && p.drop(true):
		return
	case !other && p.tidy():
		return
	case !other && (p.needed() || !p.early() && !p.rolled()):
		p.count()
		p.Status.Message = p.blockers()
		return
	case !other && p.free():
		return
	}
	p.Moving = false
	p.Status.Phase, p.Ended = v1beta1.BatchReleasePhaseCompleted, p.release.DeletionTimestamp != nil
}

// held: the release ends before this BatchRelease had the workload. The brake or an earlier one may hold it, so it is taken over first.
func (p *pass) held() bool {
	phase := p.Status.Phase
	return !p.Workload.had() && p.Workload.Unsupported == "" && !p.Workload.InRelease && p.release.DeletionTimestamp == nil && (phase == "" || phase == v1beta1.BatchReleasePhasePreparing)
}

// rolled: all its pods are updated, and as many as its user asks for are ready.
func (p *pass) rolled() bool {
	w := p.Workload
	return w.Updated >= w.Replicas && w.Available >= w.Replicas-w.MaxUnavailable && (!p.beside() || w.alone())
}

// early: the release ends before its last batch.
func (p *pass) early() bool {
	return p.release.DeletionTimestamp != nil || p.release.Spec.ReleasePlan.FinalizingPolicy != v1beta1.WaitResumeFinalizingPolicyType
}

// keeps: the release ends early, its template is not the one from before, and its workload stays held.
func (p *pass) keeps() bool {
	return p.Keeps && p.early() && p.Workload.Revision != p.Status.StableRevision
}

// progress takes the present batch further.
func (p *pass) progress() {
	w, plan, status := p.Workload, p.release.Spec.ReleasePlan, &p.Status.CanaryStatus
	last := int32(len(plan.Batches)) - 1
	if last < 0 {
		return
	}
	highest := min(*plan.BatchPartition, last)
	hash := Hash(&plan)
	begun := p.Status.Phase == v1beta1.BatchReleasePhaseProgressing
	switch {
	case !begun || status.CurrentBatch > last:
		p.goesBack()
		p.begin(0)
	case p.Status.ObservedRolloutID != plan.RolloutID: // pods get other labels
		p.begin(0)
	case p.Status.ObservedReleasePlanHash != hash || status.CurrentBatch > highest:
		p.begin(highest)
	case int(p.Status.ObservedWorkloadReplicas) != w.Replicas:
		p.begin(status.CurrentBatch)
	}
	p.Status.ObservedReleasePlanHash, p.Status.ObservedRolloutID, p.Status.ObservedWorkloadReplicas = hash, plan.RolloutID, int32(w.Replicas)
	p.Status.UpdateRevision = w.Revision
	if p.Status.StableRevision == "" {
		p.Status.StableRevision = w.Stable
	}
	p.count()
	p.batch(highest)
}

// begin begins a batch, from its pods on.
func (p *pass) begin(batch int32) {
	p.Status.Phase = v1beta1.BatchReleasePhaseProgressing
	p.Status.CanaryStatus.CurrentBatch = batch
	p.enter(v1beta1.BatchStateUpgrading)
}

func (p *pass) enter(state v1beta1.BatchState) {
	status := &p.Status.CanaryStatus
	status.CurrentBatchState, status.BatchReadyTime = state, nil
	if state == v1beta1.BatchStateReady {
		status.BatchReadyTime = &metav1.Time{Time: p.Now.Truncate(time.Second)}
	}
}

// count fills in how many pods there are.
func (p *pass) count() {
	p.Status.CanaryStatus.UpdatedReplicas, p.Status.CanaryStatus.UpdatedReadyReplicas = int32(p.Workload.Updated), int32(p.Workload.Ready)
}

// batch is the walk of one batch. Pods never get fewer: an earlier batch only has less to do.
func (p *pass) batch(highest int32) {
	w, status := p.Workload, &p.Status.CanaryStatus
	desired, moved := p.desired(status.CurrentBatch)
	ready := p.ready(desired) && p.kept(moved)
	switch {
	case status.CurrentBatchState == v1beta1.BatchStateReady && ready && highest > status.CurrentBatch:
		p.begin(status.CurrentBatch + 1)
		p.Moving = true
		return
	case ready && status.CurrentBatchState != v1beta1.BatchStateReady:
		p.enter(v1beta1.BatchStateReady)
	case !ready && w.Updated >= desired:
		p.enter(v1beta1.BatchStateVerifying)
	case !ready:
		p.enter(v1beta1.BatchStateUpgrading)
	}
	if p.label() {
		p.Act = p.move(moved)
	}
	p.Moving = !ready || len(p.Label) > 0 || p.Act.any() || w.Rolling != nil && w.Rolling.Moving && !p.beside()
	if !p.Act.any() && len(w.Blocked) > 0 && !ready {
		p.Act.Delete = w.Blocked
	}
	if !ready {
		p.Status.Message = p.blockers()
	}
}

// ready: enough pods are updated, and enough of them ready.
func (p *pass) ready(desired int) bool {
	w := p.Workload
	if w.Updated < desired || !p.labeled() {
		return false
	}
	return desired == 0 || w.Ready > 0 && w.Ready+tolerated(p.release.Spec.ReleasePlan.FailureThreshold, w.Updated) >= desired
}

// tolerated is how many updated pods need not be ready.
func tolerated(threshold *intstr.IntOrString, updated int) int {
	if threshold == nil {
		return 0
	}
	n, _ := intstr.GetScaledValueFromIntOrPercent(threshold, updated, true)
	return max(0, n)
}

// blockers names the pods that hold up the batch.
func (p *pass) blockers() string { return conditions.First(p.Workload.Unready, maxNamed, "; ") }

// Hash stands for a plan without what changes from batch to batch.
func Hash(plan *v1beta1.ReleasePlan) string {
	rest := plan.DeepCopy()
	rest.BatchPartition, rest.FinalizingPolicy, rest.FailureThreshold, rest.ProgressDeadlineSeconds = nil, "", nil, nil
	text, _ := json.Marshal(rest)
	return rollable.Digest(text)
}
