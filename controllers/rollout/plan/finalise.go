// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
)

// beginFinalising stores where ending begins.
func (p *pass) beginFinalising() {
	if p.Status.CanaryStatus == nil && p.Workload != nil {
		p.completed()
	}
	if p.Status.CanaryStatus != nil {
		p.Status.CanaryStatus.FinalisingStep, p.Status.CanaryStatus.LastUpdateTime = p.ending()[0], p.time()
	}
}

// finalise takes ending a release one step further, and says whether it has ended. A change of the template to another revision than
// expected belongs to the next release; any is expected when control ends.
func (p *pass) finalise(policy v1beta1.FinalizingPolicyType, expected ...string) bool {
	sub := p.Status.CanaryStatus
	if !p.unshared(sub) {
		return false
	}
	if sub == nil || p.Workload == nil {
		if !p.returned() {
			return false
		}
		p.Drop = p.Release != nil && !p.leaving()
		return p.Release == nil
	}
	switch next := len(expected) > 0 && !slices.Contains(expected, p.Workload.Revision) || p.relabeled(policy); sub.FinalisingStep {
	case v1beta1.FinalisingStepResumeWorkload:
		switch {
		case next || p.Release != nil && p.resumed():
			p.finalised(sub)
		case p.Workload.InRelease:
			// First, so that a later mark is that of another change.
			p.Unmark = true
		case !p.leaving():
			p.Order = p.order(1)
			p.Order.ReleasePlan.BatchPartition, p.Order.ReleasePlan.FinalizingPolicy = nil, policy
		}
	case v1beta1.FinalisingStepReleaseWorkloadControl:
		p.Drop = p.Release != nil && !p.leaving()
		if p.Release == nil {
			p.finalised(sub)
		}
	case v1beta1.FinalisingStepRouteTrafficToNew:
		if next || p.reach(sub, "the new version gets all requests") {
			p.finalised(sub)
		}
	case v1beta1.FinalisingStepRestoreStableService, v1beta1.FinalisingStepRouteTrafficToStable, v1beta1.FinalisingStepRemoveCanaryService:
		if p.reach(sub, "requests go as before the release") {
			p.finalised(sub)
		}
	default:
		return true
	}
	return false
}

// relabeled: another rollout-id came after the last step, and belongs to the next release.
func (p *pass) relabeled(policy v1beta1.FinalizingPolicyType) bool {
	return policy == v1beta1.WaitResumeFinalizingPolicyType && p.Workload.InRelease && p.Workload.RolloutID != p.Status.CanaryStatus.ObservedRolloutID
}

// resumed: the workload goes on by itself.
func (p *pass) resumed() bool {
	return p.Release.Spec.ReleasePlan.BatchPartition == nil && p.Release.Status.ObservedGeneration == p.Release.Generation &&
		p.Release.Status.Phase == v1beta1.BatchReleasePhaseCompleted
}

func (p *pass) finalised(sub *v1beta1.CanaryStatus) {
	order := p.ending()
	sub.FinalisingStep, sub.LastUpdateTime = order[slices.Index(order, sub.FinalisingStep)+1], p.time()
}

// end finalises a release, and tells how it ended.
func (p *pass) end(policy v1beta1.FinalizingPolicyType, revision string, success metav1.ConditionStatus, how string) {
	if !p.finalise(policy, revision) {
		return
	}
	if success == metav1.ConditionTrue {
		p.state(p.Status.CanaryStatus, v1beta1.CanaryStepStateCompleted)
	}
	message := "Rollout progressing has been " + how
	p.Status.Message = message
	p.condition(v1beta1.RolloutConditionProgressing, metav1.ConditionFalse, v1beta1.ReasonCompleted, message)
	p.condition(v1beta1.RolloutConditionSucceeded, success, v1beta1.ReasonCompleted, message)
	p.event("%s", message)
}

// reason is that of the condition Progressing.
func (p *pass) reason() string { return p.found(v1beta1.RolloutConditionProgressing).Reason }

// found is a condition of the status in the making.
func (p *pass) found(kind string) v1beta1.RolloutCondition { return ConditionOf(&p.Status, kind) }

// ConditionOf is a condition of a status; an empty one when there is none.
func ConditionOf(s *v1beta1.RolloutStatus, kind string) v1beta1.RolloutCondition {
	for _, c := range s.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return v1beta1.RolloutCondition{}
}

// condition sets one; a time changes only with what it is about.
func (p *pass) condition(kind string, status metav1.ConditionStatus, reason, message string) {
	list := conditions.NewList(conditions.From(p.Status.Conditions), p.Now)
	list.Set(conditions.New(kind, status == metav1.ConditionTrue, reason, message))
	made := conditions.To[v1beta1.RolloutCondition](list)
	i := slices.IndexFunc(p.Status.Conditions, func(c v1beta1.RolloutCondition) bool { return c.Type == kind })
	if i < 0 {
		p.Status.Conditions = append(p.Status.Conditions, made...)
		return
	}
	p.Status.Conditions[i] = made[0]
}

func (p *pass) drop(kind string) {
	p.Status.Conditions = slices.DeleteFunc(p.Status.Conditions, func(c v1beta1.RolloutCondition) bool { return c.Type == kind })
}
