// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/rollouts/shared"
	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
)

// progress is a release.
func (p *pass) progress() {
	sub := p.Status.CanaryStatus
	if sub == nil || sub.CurrentStepIndex < 1 {
		p.begin()
		return
	}
	switch reason := p.reason(); {
	case reason == v1beta1.ReasonCompleted:
		p.Status.Phase, p.Status.Message = v1beta1.RolloutPhaseHealthy, "rollout is healthy"
	case reason == v1beta1.ReasonFinalising:
		p.end(v1beta1.WaitResumeFinalizingPolicyType, sub.CanaryRevision, metav1.ConditionTrue, "completed")
	case reason == v1beta1.ReasonCancelling:
		p.end(v1beta1.ImmediateFinalizingPolicyType, sub.StableRevision, metav1.ConditionFalse, "canceled")
	case p.Workload.Foreign && p.Workload.Settled:
		p.adopt()
	case !p.Workload.Guarded && !p.Workload.Foreign:
		p.takenOver()
	case !p.Workload.Settled:
		p.soon(unsettled)
	case reason == v1beta1.ReasonInitializing:
		p.initialize(sub)
	default:
		p.roll(sub)
	}
}

// adopt goes on with a release of OpenKruise. It named versions in its own way, so the steps begin again.
func (p *pass) adopt() {
	p.begin()
	if p.Guard = true; p.routed() {
		p.Status.CanaryStatus.FinalisingStep = p.ending()[0]
	}
}

// takenOver is for a workload that somebody took out of control.
func (p *pass) takenOver() {
	if !p.returned() {
		return
	}
	p.Unmark, p.Drop = p.Workload.InRelease, p.Release != nil && !p.leaving()
	if !p.Unmark && p.Release == nil {
		p.tookOver()
	}
}

func (p *pass) tookOver() {
	p.Status.CanaryStatus.FinalisingStep = v1beta1.FinalisingStepTypeEnd
	p.condition(v1beta1.RolloutConditionProgressing, metav1.ConditionFalse, v1beta1.ReasonCompleted, "Rollout progressing has been canceled")
	p.condition(v1beta1.RolloutConditionSucceeded, metav1.ConditionFalse, v1beta1.ReasonTakenOver, "somebody removed the label of the Rollout from the workload")
	p.event("the workload was taken over")
}

// initialize waits until nothing is left of an earlier release, and a moment.
func (p *pass) initialize(sub *v1beta1.CanaryStatus) {
	if !p.again(sub) {
		return
	}
	if p.astray() || p.leaving() {
		p.Drop = !p.leaving()
		return
	}
	if p.changed(sub) {
		return
	}
	if left := p.since(sub.LastUpdateTime) - gather; left < 0 {
		p.After = -left
		return
	}
	if !p.shared(sub) {
		return
	}
	if at := p.reached(); at > 1 {
		p.enter(sub, at)
	}
	p.rolling()
}

// reached is the first step that allows as many pods as are new already, after a change that went unseen.
func (p *pass) reached() int32 {
	if p.Workload.Revision == p.Workload.Stable || p.extra() || p.beside() {
		return 1
	}
	return p.first(p.Workload.Updated)
}

// first is the first step that allows as many pods, else the last one.
func (p *pass) first(pods int) int32 {
	i := slices.IndexFunc(p.steps(), func(step v1beta1.CanaryStep) bool { return p.limit(step.Replicas) >= pods })
	if i < 0 {
		return int32(len(p.steps()))
	}
	return int32(i) + 1
}

// leaving: the BatchRelease is being deleted.
func (p *pass) leaving() bool { return p.Release != nil && p.Release.DeletionTimestamp != nil }

func (p *pass) since(t *metav1.Time) time.Duration {
	if t == nil {
		return 0
	}
	return p.Now.Sub(t.Time)
}

// changed handles another template. It says whether there is one.
func (p *pass) changed(sub *v1beta1.CanaryStatus) bool {
	switch {
	case p.Workload.Revision == sub.CanaryRevision && !p.astray():
		p.renamed(sub)
		return false
	case p.Workload.Revision == sub.StableRevision && !p.backInBatches():
		p.cancel()
	default:
		stable := sub.StableRevision
		p.begin()
		p.Status.CanaryStatus.StableRevision = stable
		if p.routed() {
			p.Status.CanaryStatus.FinalisingStep = p.ending()[0]
		}
	}
	return true
}

// cancel ends a release whose template was set back.
func (p *pass) cancel() {
	p.condition(v1beta1.RolloutConditionProgressing, metav1.ConditionTrue, v1beta1.ReasonCancelling, "the template was set back")
	p.Status.Message, p.Status.CanaryStatus.ObservedRolloutID = "the template was set back, and the release is canceled", p.Workload.RolloutID
	p.beginFinalising()
	p.event("workload has been rollback, then rollout is canceled")
}

// astray: the BatchRelease has seen another template that came and went.
func (p *pass) astray() bool {
	return p.Release != nil && p.Release.Status.UpdateRevision != "" && p.Release.Status.UpdateRevision != p.Workload.Revision
}

// renamed lets a release go on with another rollout-id. The BatchRelease labels its pods again.
func (p *pass) renamed(sub *v1beta1.CanaryStatus) {
	if id := p.Workload.RolloutID; id != sub.ObservedRolloutID {
		sub.ObservedRolloutID = id
		p.event("the release goes on with the rollout-id %q", id)
	}
}

// backInBatches: a template that was set back goes by steps, too.
func (p *pass) backInBatches() bool {
	return p.rollout.Annotations[shared.AnnotationRollbackInBatch] == "true" && !p.beside() && p.Workload.Sized && p.Workload.Partition != nil
}

// roll takes steps. The special cases are in the order of their numbers.
func (p *pass) roll(sub *v1beta1.CanaryStatus) {
	switch {
	case p.changed(sub): // 1: another template
	case sub.FinalisingStep != "": // the workload was gone, and is back
		sub.FinalisingStep = ""
		p.enter(sub, sub.CurrentStepIndex)
	case p.rollout.Spec.Strategy.Paused: // 2
		p.Status.Message = "Rollout has been paused, you can resume it by kube-cli"
		p.condition(v1beta1.RolloutConditionProgressing, metav1.ConditionTrue, v1beta1.ReasonPaused, p.Status.Message)
	case p.reason() == v1beta1.ReasonPaused:
		p.rolling()
	case sub.RolloutHash != Hash(p.rollout): // 3: another plan
		p.replan(sub)
	case p.jump(sub): // 4: somebody wants another step
	default: // 5
		p.step(sub)
	}
	if sub := p.Status.CanaryStatus; p.Release != nil {
		if sub.CurrentStepState == v1beta1.CanaryStepStateUpgrade && p.Release.Status.CanaryStatus.UpdatedReadyReplicas > sub.CanaryReadyReplicas {
			sub.LastUpdateTime = p.time()
		}
		sub.CanaryReplicas = p.Release.Status.CanaryStatus.UpdatedReplicas
		sub.CanaryReadyReplicas = p.Release.Status.CanaryStatus.UpdatedReadyReplicas
		sub.PodTemplateHash = p.Workload.PodHash
	}
}

func (p *pass) rolling() {
	p.condition(v1beta1.RolloutConditionProgressing, metav1.ConditionTrue, v1beta1.ReasonInRolling, "steps are taken")
}

// replan finds the step of a changed plan: the present one when it allows as many pods, else the first that allows at least as many.
func (p *pass) replan(sub *v1beta1.CanaryStatus) {
	sub.RolloutHash = Hash(p.rollout)
	steps, at := p.steps(), int(sub.CurrentStepIndex)-1
	have := 0
	if p.Release != nil && at < len(p.Release.Spec.ReleasePlan.Batches) {
		have = p.limit(&p.Release.Spec.ReleasePlan.Batches[at].CanaryReplicas)
	}
	if at < len(steps) && p.limit(steps[at].Replicas) == have {
		sub.NextStepIndex = p.after(sub.CurrentStepIndex)
		p.reroute(sub)
		return
	}
	p.enter(sub, p.first(have))
}

// jump goes to the step that somebody wrote into the status.
func (p *pass) jump(sub *v1beta1.CanaryStatus) bool {
	to, usual := sub.NextStepIndex, p.after(sub.CurrentStepIndex)
	if to == usual {
		return false
	}
	if to < 1 || int(to) > len(p.steps()) {
		sub.NextStepIndex = usual
		return true
	}
	p.event("jumping from step %d to step %d", sub.CurrentStepIndex, to)
	p.enter(sub, to)
	if r := p.Release; r != nil && p.routes(to) && p.limit(p.steps()[to-1].Replicas) == int(r.Status.CanaryStatus.UpdatedReplicas) {
		p.state(sub, v1beta1.CanaryStepStateTrafficRouting)
	}
	return true
}

// reroute lets requests follow another plan for a step that has its pods.
func (p *pass) reroute(sub *v1beta1.CanaryStatus) {
	switch sub.CurrentStepState {
	case v1beta1.CanaryStepStateTrafficRouting, v1beta1.CanaryStepStateMetricsAnalysis, v1beta1.CanaryStepStatePaused:
		if p.routes(sub.CurrentStepIndex) {
			p.state(sub, v1beta1.CanaryStepStateTrafficRouting)
		} else if p.routed() {
			p.state(sub, v1beta1.CanaryStepStateInit)
		}
	}
}

// enter begins a step.
func (p *pass) enter(sub *v1beta1.CanaryStatus, step int32) {
	sub.CurrentStepIndex, sub.NextStepIndex = step, p.after(step)
	p.state(sub, v1beta1.CanaryStepStateInit)
}

func (p *pass) state(sub *v1beta1.CanaryStatus, state v1beta1.CanaryStepState) {
	if sub.CurrentStepState != state {
		sub.CurrentStepState, sub.LastUpdateTime = state, p.time()
	}
}

// step takes the present step further.
func (p *pass) step(sub *v1beta1.CanaryStatus) {
	i, n := sub.CurrentStepIndex, len(p.steps())
	if int(i) > n {
		p.enter(sub, int32(n))
		return
	}
	where := fmt.Sprintf("Rollout is in step(%d/%d), ", i, n)
	step := p.steps()[i-1]
	switch sub.CurrentStepState {
	case v1beta1.CanaryStepStateUpgrade:
		p.Order = p.order(i)
		p.say(sub, where+"and upgrade workload to new version")
		if p.ready(i) {
			p.event("upgrade step(%d) canary pods with new versions done", i)
			if p.routes(i) {
				p.state(sub, v1beta1.CanaryStepStateTrafficRouting)
				return
			}
			p.state(sub, v1beta1.CanaryStepStatePaused)
			p.wait(sub, step, where)
		} else if p.Release != nil && p.Release.Status.Message != "" {
			p.say(sub, where+"and upgrade workload to new version: "+p.Release.Status.Message)
		}
	case v1beta1.CanaryStepStateTrafficRouting:
		p.Order = p.order(i)
		p.route(sub, where)
	case v1beta1.CanaryStepStateMetricsAnalysis:
		p.state(sub, v1beta1.CanaryStepStatePaused)
		p.wait(sub, step, where)
	case v1beta1.CanaryStepStatePaused:
		p.Order = p.order(i)
		if p.wait(sub, step, where) {
			p.state(sub, v1beta1.CanaryStepStateReady)
		}
	case v1beta1.CanaryStepStateReady:
		p.leave(sub)
	case v1beta1.CanaryStepStateCompleted:
		p.finish(sub)
	default:
		if p.reach(sub, where+"and requests are kept from new pods") {
			p.state(sub, v1beta1.CanaryStepStateUpgrade)
			p.say(sub, where+"and upgrade workload to new version")
		}
	}
}

// route gives new pods the requests of their step. Pods that fail meanwhile hold it up.
func (p *pass) route(sub *v1beta1.CanaryStatus, where string) {
	switch i := sub.CurrentStepIndex; {
	case !p.routes(i):
		p.state(sub, v1beta1.CanaryStepStateInit) // the plan or the size is another one
	case !p.reach(sub, where+"and requests are routed to the new version"):
	case !p.ready(i):
		p.say(sub, where+"and new pods are to become ready")
		if p.Release == nil || p.Release.Status.UpdateRevision != p.Workload.Revision {
			p.state(sub, v1beta1.CanaryStepStateUpgrade)
		}
	default:
		p.state(sub, v1beta1.CanaryStepStateMetricsAnalysis)
		p.event("traffic of step(%d) is %s", i, p.share(int(i)))
	}
}

// leave ends a step. Pods come first, whatever somebody wrote into the status.
func (p *pass) leave(sub *v1beta1.CanaryStatus) {
	switch i := sub.CurrentStepIndex; {
	case !p.ready(i) && !p.wasReady(sub): // the approval holds until they are, as after a change of replicas
		p.Order = p.order(i)
		p.say(sub, fmt.Sprintf("Rollout is in step(%d/%d), which is approved, and waits for its pods", i, len(p.steps())))
	case int(i) < len(p.steps()):
		p.enter(sub, i+1)
	default:
		p.state(sub, v1beta1.CanaryStepStateCompleted)
		p.finish(sub)
	}
}

// finish ends the steps.
func (p *pass) finish(sub *v1beta1.CanaryStatus) {
	p.say(sub, "all steps are done, and the workload goes on by itself")
	p.condition(v1beta1.RolloutConditionProgressing, metav1.ConditionTrue, v1beta1.ReasonFinalising, p.Status.Message)
	p.beginFinalising()
}

func (p *pass) say(sub *v1beta1.CanaryStatus, message string) {
	sub.Message, p.Status.Message = message, message
}

// wait says whether a step may be left without somebody.
func (p *pass) wait(sub *v1beta1.CanaryStatus, step v1beta1.CanaryStep, where string) bool {
	last := int(sub.CurrentStepIndex) == len(p.steps()) && p.limit(step.Replicas) >= p.Workload.Replicas
	switch d := step.Pause.Duration; {
	case last && d == nil && !p.beside():
		return true
	case d == nil:
		p.say(sub, where+"and you need manually confirm to enter the next step")
		return false
	default:
		p.say(sub, fmt.Sprintf("%sand wait duration(%d seconds) to enter the next step", where, *d))
		left := time.Duration(*d)*time.Second - p.since(sub.LastUpdateTime)
		p.After = max(0, left)
		return left <= 0
	}
}

// extra: new pods go into a Deployment beside the workload. Other kinds than Deployments are updated in place all the same.
func (p *pass) extra() bool {
	return p.Workload.Extra && p.strategy().EnableExtraWorkloadForCanary
}

// order is what the BatchRelease should do in a step.
func (p *pass) order(step int32) *v1beta1.BatchReleaseSpec {
	canary := p.strategy()
	partition := step - 1
	plan := v1beta1.ReleasePlan{
		BatchPartition: &partition, RolloutID: p.Status.CanaryStatus.ObservedRolloutID, FailureThreshold: canary.FailureThreshold,
		PatchPodTemplateMetadata: canary.PatchPodTemplateMetadata, RollingStyle: p.style(), EnableExtraWorkloadForCanary: p.extra(),
	}
	for _, s := range canary.Steps {
		plan.Batches = append(plan.Batches, v1beta1.ReleaseBatch{CanaryReplicas: *s.Replicas})
	}
	return &v1beta1.BatchReleaseSpec{WorkloadRef: p.rollout.Spec.WorkloadRef, ReleasePlan: plan}
}

// ready: the BatchRelease has done a step, by the present plan.
func (p *pass) ready(step int32) bool {
	if p.Release == nil || p.leaving() {
		return false
	}
	s := p.Release.Status
	return s.ObservedGeneration == p.Release.Generation && s.UpdateRevision == p.Workload.Revision &&
		int(s.ObservedWorkloadReplicas) == p.Workload.Replicas && p.ordered(step) &&
		s.CanaryStatus.CurrentBatch == step-1 && s.CanaryStatus.CurrentBatchState == v1beta1.BatchStateReady
}

// wasReady: the step has its pods, and the BatchRelease has not seen another plan yet. So an approval is not lost.
func (p *pass) wasReady(sub *v1beta1.CanaryStatus) bool {
	if p.Release == nil || p.leaving() {
		return false
	}
	s := p.Release.Status
	return s.UpdateRevision == p.Workload.Revision && s.ObservedRolloutID == sub.ObservedRolloutID && s.CanaryStatus.CurrentBatch == sub.CurrentStepIndex-1 &&
		s.CanaryStatus.CurrentBatchState == v1beta1.BatchStateReady && int(s.CanaryStatus.UpdatedReplicas) >= p.limit(p.steps()[sub.CurrentStepIndex-1].Replicas)
}

// ordered: the BatchRelease has the present plan.
func (p *pass) ordered(step int32) bool {
	plan := p.Release.Spec.ReleasePlan
	if plan.BatchPartition == nil || *plan.BatchPartition != step-1 || len(plan.Batches) != len(p.steps()) || plan.RolloutID != p.Status.CanaryStatus.ObservedRolloutID {
		return false
	}
	return plan.Batches[step-1].CanaryReplicas == *p.steps()[step-1].Replicas
}
