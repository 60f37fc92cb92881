// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan decides the next step of a Rollout. It has no client, clock or log.
//
// A pass makes at most one transition. It is stored before anything is done for it, so any pass may be the first one.
package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/rollable"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic"
)

// gather lets a Rollout arrive that was changed together with its workload.
const gather = 3 * time.Second

// unsettled is when to look again until the controller of a workload has seen its spec. No event tells.
const unsettled = 250 * time.Millisecond

// Workload is what was read of a workload. It is Guarded by this Rollout, and has its Revision and Stable in any case.
type Workload struct {
	rollable.Workload
	rollable.Facts
	// Noted: notes of the brake are there, beside its label.
	Noted bool
	// Foreign: OpenKruise has it in a release.
	Foreign bool
	// PodHash is the label of pods with the Revision; empty while there are none.
	PodHash string
	// Moving: by its own strategy, pods of another version are being replaced.
	Moving bool
	// Other is an earlier Rollout that it belongs to.
	Other string
}

// Snapshot is everything a pass has read.
type Snapshot struct {
	Now time.Time
	// Workload is nil when it is not there.
	Workload *Workload
	// Release is the BatchRelease; nil when there is none.
	Release *v1beta1.BatchRelease
	// Registering: the API server is being told of the brake. HookFault says why it cannot be.
	Registering bool
	HookFault   string
	// Fault is a write that the API server refuses.
	Fault string
	// World is what was read of requests, for what was Wanted; nil when that was nothing.
	World *traffic.World
	// Shared is the TrafficRouting; nil: the Rollout names none.
	Shared *Shared
	// Corrected is a route that somebody else changed after the operator; empty: none.
	Corrected string
}

// Decision is what comes next.
type Decision struct {
	Status v1beta1.RolloutStatus
	// Order is what the BatchRelease should say. Nil: it stays as it is.
	Order *v1beta1.BatchReleaseSpec
	// Drop deletes the BatchRelease.
	Drop bool
	// Unmark takes the note of the brake from the workload.
	Unmark bool
	// Guard puts the label of the brake on the workload, Unguard takes it away. Catch brakes a change that went unseen.
	Guard, Unguard, Catch bool
	// Act is the one thing to do about requests; empty: nothing.
	Act traffic.Act
	// Hold says on the TrafficRouting that the release uses it, LetGo that it does not.
	Hold, LetGo bool
	// Ended: the finalizer can go.
	Ended bool
	// After is when time alone may change the answer; 0 is never.
	After  time.Duration
	Events []planning.Event
}

// pass is one decision in the making.
type pass struct {
	rollout *v1beta1.Rollout
	Snapshot
	Decision
	// blocked is what the user has to change before requests can be routed.
	blocked string
	// waits is what requests wait for.
	waits string
}

// Reconciling is a condition of Rollouts only while the operator does nothing for them.
const Reconciling = "Reconciling"

// Plan decides the next step. The rules are in the order of their numbers; the first one that fits is taken.
func Plan(r *v1beta1.Rollout, s Snapshot) Decision {
	p := &pass{rollout: r, Snapshot: s}
	p.Status = *r.Status.DeepCopy()
	p.Status.ObservedGeneration = r.Generation
	p.unapprove()
	p.drop(Reconciling)
	switch {
	case r.DeletionTimestamp != nil: // 1
		p.terminate()
	case r.Spec.Disabled: // 2
		p.disable()
	case s.Workload == nil: // 3
		p.forget()
	case p.Status.Phase == v1beta1.RolloutPhaseProgressing: // 4
		p.progress()
	default: // 5
		p.rest()
	}
	p.holds()
	p.guarded()
	p.stalled()
	p.copyUp()
	return p.Decision
}

// unapprove ignores an approval that came before its step waits. The copy of the state says what it was.
func (p *pass) unapprove() {
	sub, was := p.Status.CanaryStatus, p.Status.CurrentStepState
	if sub == nil || sub.CurrentStepState != v1beta1.CanaryStepStateReady {
		return
	}
	switch was {
	case v1beta1.CanaryStepStateInit, v1beta1.CanaryStepStateUpgrade, v1beta1.CanaryStepStateTrafficRouting, v1beta1.CanaryStepStateMetricsAnalysis:
		sub.CurrentStepState = was
	}
}

// copyUp fills in what the status has twice.
func (p *pass) copyUp() {
	p.Status.CurrentStepIndex, p.Status.CurrentStepState = 0, ""
	if sub := p.Status.CanaryStatus; sub != nil {
		p.Status.CurrentStepIndex, p.Status.CurrentStepState = sub.CurrentStepIndex, sub.CurrentStepState
	}
}

// strategy is an empty one when OpenKruise has stored another.
func (p *pass) strategy() *v1beta1.CanaryStrategy {
	return cmp.Or(p.rollout.Spec.Strategy.Canary, &v1beta1.CanaryStrategy{})
}

func (p *pass) steps() []v1beta1.CanaryStep { return p.strategy().Steps }

// terminate ends the release of a Rollout that is being deleted.
func (p *pass) terminate() {
	switch was := p.Status.Phase; {
	case was != v1beta1.RolloutPhaseTerminating:
		p.Status.Phase, p.Status.Message = v1beta1.RolloutPhaseTerminating, "the Rollout is being deleted"
		p.condition(v1beta1.RolloutConditionTerminating, metav1.ConditionTrue, v1beta1.ReasonInTerminating, "the Rollout is being deleted")
		if was == v1beta1.RolloutPhaseProgressing || was == v1beta1.RolloutPhaseDisabling {
			p.beginFinalising()
		}
	case p.finalise(v1beta1.ImmediateFinalizingPolicyType) && p.free():
		p.condition(v1beta1.RolloutConditionTerminating, metav1.ConditionFalse, v1beta1.ReasonCompleted, "the workload goes on by itself")
		p.Ended = true
	}
}

// free takes the workload out of control, and says whether it is. A change that was still caught is let go.
func (p *pass) free() bool {
	switch {
	case p.Workload == nil:
		return true
	case p.Workload.Guarded || p.Workload.Noted:
		p.Unguard = true
		return false
	case p.Workload.InRelease:
		p.beginFinalising()
		return false
	}
	return true
}

// disable ends the control. A release goes on without steps.
func (p *pass) disable() {
	switch phase := p.Status.Phase; {
	case phase == v1beta1.RolloutPhaseDisabled && p.free():
	case phase == v1beta1.RolloutPhaseDisabled && !p.Workload.InRelease:
	case phase == v1beta1.RolloutPhaseDisabling:
		if p.finalise(v1beta1.ImmediateFinalizingPolicyType) {
			p.condition(v1beta1.RolloutConditionProgressing, metav1.ConditionFalse, v1beta1.ReasonCompleted, "the Rollout was disabled")
			p.Status.Phase, p.Status.Message = v1beta1.RolloutPhaseDisabled, "Rollout is disabled"
		}
	case phase == v1beta1.RolloutPhaseProgressing || p.Workload != nil && p.Workload.InRelease:
		p.Status.Phase, p.Status.Message = v1beta1.RolloutPhaseDisabling, "the release is ended, as the Rollout is disabled"
		p.beginFinalising()
	default:
		p.Status.Phase, p.Status.Message = v1beta1.RolloutPhaseDisabled, "Rollout is disabled"
	}
}

// forget is for a workload that is not there.
func (p *pass) forget() {
	if !p.returned() {
		return
	}
	p.Drop = p.Release != nil
	p.Status = v1beta1.RolloutStatus{ObservedGeneration: p.rollout.Generation, Phase: v1beta1.RolloutPhaseInitial, Message: "Workload Not Found"}
}

// rest is between releases.
func (p *pass) rest() {
	p.Guard = !p.Workload.Guarded && p.Workload.Other == ""
	switch {
	case p.Workload.Other != "":
		p.Status.Phase, p.Status.Message = v1beta1.RolloutPhaseInitial, "the workload belongs to Rollout "+p.Workload.Other
		return
	case p.Status.Phase == v1beta1.RolloutPhaseDisabling:
		p.disable()
		return
	case p.Workload.InRelease && !p.Workload.Settled:
		p.soon(unsettled) // its controller will say which version is new
		return
	case p.Workload.InRelease && !p.Workload.Guarded && p.Status.CanaryStatus != nil:
		// The brake keeps the label: somebody took it away while a change was held.
		p.Guard, p.Unmark = false, true
		if p.Status.CanaryStatus.CanaryRevision != p.Workload.Revision {
			p.Status.CanaryStatus.CanaryRevision = p.Workload.Revision
			p.tookOver()
		}
		return
	case p.late():
		p.Catch = true
		p.warn(v1beta1.ReasonCaughtLate, "a change of the workload went unseen; it is held now, and goes on by the steps")
		return
	case p.Status.Phase == "" && !p.Workload.InRelease:
		p.Status.Phase, p.Status.Message = v1beta1.RolloutPhaseInitial, "the workload is found"
		return
	case p.Workload.InRelease && p.Status.Phase == v1beta1.RolloutPhaseHealthy || p.Workload.InRelease && p.Status.Phase == "":
		was := p.Status.CanaryStatus
		if p.begin(); was != nil && was.ObservedRolloutID == p.Workload.RolloutID && p.Workload.over() {
			p.cancel() // before anybody saw the change
		}
		return
	case !p.Workload.Settled:
		p.soon(unsettled) // a change that comes first would have no version before it
		return
	}
	p.Status.Phase, p.Status.Message = v1beta1.RolloutPhaseHealthy, "rollout is healthy"
	p.atRest()
}

// atRest is by one rule that clients wait for: completed, at the generation and rollout-id of the workload. After a release without
// success the rest tells of that.
func (p *pass) atRest() {
	sub, w := p.Status.CanaryStatus, p.Workload
	if p.found(v1beta1.RolloutConditionSucceeded).Status != metav1.ConditionFalse || w.Revision != sub.StableRevision && w.Revision != sub.CanaryRevision {
		p.completed()
		return
	}
	sub.ObservedWorkloadGeneration, sub.ObservedRolloutID = w.Generation, w.RolloutID
	p.state(sub, v1beta1.CanaryStepStateCompleted)
}

// completed fills in the sub-status as after a release.
func (p *pass) completed() {
	n := int32(len(p.steps()))
	was := p.Status.CanaryStatus
	sub := &v1beta1.CanaryStatus{CommonStatus: v1beta1.CommonStatus{
		ObservedWorkloadGeneration: p.Workload.Generation, ObservedRolloutID: p.Workload.RolloutID, RolloutHash: Hash(p.rollout),
		StableRevision: p.Workload.Revision, PodTemplateHash: p.Workload.PodHash, CurrentStepIndex: n, NextStepIndex: -1,
		FinalisingStep: v1beta1.FinalisingStepTypeEnd, CurrentStepState: v1beta1.CanaryStepStateCompleted, Message: "workload deployment is completed",
	}, CanaryRevision: p.Workload.Revision, CanaryReplicas: int32(p.Workload.Replicas), CanaryReadyReplicas: int32(p.Workload.Replicas)}
	if was != nil {
		sub.LastUpdateTime = was.LastUpdateTime
		sub.CanaryReplicas, sub.CanaryReadyReplicas = was.CanaryReplicas, was.CanaryReadyReplicas
		p.uncontrolled(was)
	} else {
		sub.LastUpdateTime = p.time()
	}
	p.Status.CanaryStatus = sub
}

// begin starts a release.
func (p *pass) begin() {
	p.Status.Phase, p.Status.Message = v1beta1.RolloutPhaseProgressing, "Rollout is in Progressing"
	p.drop(v1beta1.RolloutConditionSucceeded)
	p.condition(v1beta1.RolloutConditionProgressing, metav1.ConditionTrue, v1beta1.ReasonInitializing, "the release begins")
	p.Status.CanaryStatus = &v1beta1.CanaryStatus{CommonStatus: v1beta1.CommonStatus{
		ObservedWorkloadGeneration: p.Workload.Generation, ObservedRolloutID: p.Workload.RolloutID, RolloutHash: Hash(p.rollout),
		StableRevision: p.Workload.Stable, CurrentStepIndex: 1, NextStepIndex: p.after(1),
		CurrentStepState: v1beta1.CanaryStepStateInit, LastUpdateTime: p.time(),
	}, CanaryRevision: p.Workload.Revision}
	p.After = gather
	p.event("the release of %s begins", p.Workload.Revision)
}

// after is the number of the step after another one; -1 is none.
func (p *pass) after(step int32) int32 {
	if int(step) >= len(p.steps()) {
		return -1
	}
	return step + 1
}

func (p *pass) time() *metav1.Time { return &metav1.Time{Time: p.Now.Truncate(time.Second)} }

// soon asks for a pass after a time at the latest.
func (p *pass) soon(after time.Duration) {
	if p.After == 0 || after < p.After {
		p.After = after
	}
}

func (p *pass) warn(reason, note string) {
	p.Events = append(p.Events, planning.Event{Warning: true, Reason: reason, Message: note})
}

func (p *pass) event(note string, args ...any) {
	p.Events = append(p.Events, planning.Event{Reason: v1beta1.RolloutConditionProgressing, Message: fmt.Sprintf(note, args...)})
}

// Hash stands for the plan of a Rollout without its pauses and threshold.
func Hash(r *v1beta1.Rollout) string {
	canary := r.Spec.Strategy.Canary.DeepCopy()
	if canary == nil {
		return ""
	}
	canary.FailureThreshold = nil
	for i := range canary.Steps {
		canary.Steps[i].Pause, canary.Steps[i].ProgressDeadlineSeconds = v1beta1.RolloutPause{}, nil
	}
	text, _ := json.Marshal(canary)
	return rollable.Digest(text)
}

// limit is how many pods a step allows to be new.
func (p *pass) limit(size *intstr.IntOrString) int {
	if size == nil {
		return 0
	}
	return p.Workload.Limit(*size, p.Workload.Replicas)
}
