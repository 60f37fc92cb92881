// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
)

const (
	// registering is when to look again while the API server is being told of the brake.
	registering = 500 * time.Millisecond
	// unregistered is the same while it cannot be told.
	unregistered = 10 * time.Second
)

// late: the template changed while nothing braked it.
func (p *pass) late() bool {
	w, sub := p.Workload, p.Status.CanaryStatus
	switch {
	case w.InRelease || w.Replicas == 0 || w.Unsupported != "" || w.over():
		return false
	case sub == nil || sub.CanaryRevision == "":
		return w.Moving
	case w.ByID && w.RolloutID == sub.ObservedRolloutID:
		return false // by contract
	}
	return w.Revision != sub.StableRevision && w.Revision != sub.CanaryRevision
}

// over: no pod has another version, so nothing is left to hold.
func (w *Workload) over() bool { return w.Settled && w.Stable == w.Revision }

// uncontrolled tells of a change under the same annotation rollout-id: it is no release.
func (p *pass) uncontrolled(was *v1beta1.CanaryStatus) {
	w := p.Workload
	if w.ByID && w.RolloutID == was.ObservedRolloutID && w.Revision != was.CanaryRevision && w.Revision != was.StableRevision {
		p.warn(v1beta1.ReasonUncontrolled, "the template changed without another rollout-id, so it went on without steps")
	}
}

// guarded tells whether the next change of the workload will be caught.
func (p *pass) guarded() {
	say := func(reason, message string) {
		p.condition(v1beta1.RolloutConditionGuarded, metav1.ConditionFalse, reason, message)
	}
	switch w := p.Workload; {
	case p.rollout.DeletionTimestamp != nil || p.rollout.Spec.Disabled:
		p.drop(v1beta1.RolloutConditionGuarded)
	case w == nil:
		say(v1beta1.ReasonWorkloadNotFound, "there is no "+p.rollout.Spec.WorkloadRef.Kind+" "+p.rollout.Spec.WorkloadRef.Name)
	case w.Other != "":
		say(v1beta1.ReasonOtherRollout, "the workload belongs to Rollout "+w.Other)
	case !w.Guarded:
		say(v1beta1.ReasonRegistering, "the label of the Rollout is not on the workload")
	case p.HookFault != "":
		say(v1beta1.ReasonNotRegistered, p.HookFault)
		p.soon(unregistered)
	case p.Registering && p.found(v1beta1.RolloutConditionGuarded).Status != metav1.ConditionTrue: // after a restart what was known holds
		say(v1beta1.ReasonRegistering, "the API server is being told of the brake")
		p.soon(registering)
	default:
		p.condition(v1beta1.RolloutConditionGuarded, metav1.ConditionTrue, v1beta1.ReasonInForce, "the next change of the template is caught")
	}
}

// stalled tells what does not pass by itself.
func (p *pass) stalled() {
	sub := p.Status.CanaryStatus
	switch {
	case p.Fault != "":
		p.stall(v1beta1.ReasonRequestFailed, p.Fault)
	case p.Workload != nil && p.Workload.Unsupported != "" && p.rollout.DeletionTimestamp == nil && !p.rollout.Spec.Disabled:
		p.stall(v1beta1.ReasonUnsupported, p.Workload.Unsupported)
	case p.blocked != "":
		p.stall(v1beta1.ReasonNotRouted, p.blocked)
	case sub != nil && p.Status.Phase == v1beta1.RolloutPhaseProgressing && p.reason() == v1beta1.ReasonInRolling && p.timed(sub):
		p.deadline(sub)
	default:
		p.drop(v1beta1.RolloutConditionStalled)
	}
}

func (p *pass) stall(reason, message string) {
	if was := p.found(v1beta1.RolloutConditionStalled); was.Status != metav1.ConditionTrue || was.Reason != reason {
		p.warn(reason, message)
	}
	p.condition(v1beta1.RolloutConditionStalled, metav1.ConditionTrue, reason, message)
}

// timed: pods or gateways have to do something for the step.
func (p *pass) timed(sub *v1beta1.CanaryStatus) bool {
	switch sub.CurrentStepState {
	case v1beta1.CanaryStepStateUpgrade:
		return true
	case v1beta1.CanaryStepStateInit, v1beta1.CanaryStepStateTrafficRouting:
		return p.routed()
	}
	return false
}

// deadline measures how long a step goes on without another ready pod, or a gateway. The condition keeps the time.
func (p *pass) deadline(sub *v1beta1.CanaryStatus) {
	i := int(sub.CurrentStepIndex)
	if i < 1 || i > len(p.steps()) || p.steps()[i-1].ProgressDeadlineSeconds == nil {
		p.drop(v1beta1.RolloutConditionStalled)
		return
	}
	seconds := *p.steps()[i-1].ProgressDeadlineSeconds
	now, then := fmt.Sprintf("in step(%d/%d) %d new pods are ready", i, len(p.steps()), sub.CanaryReadyReplicas), "no other became ready"
	if sub.CurrentStepState != v1beta1.CanaryStepStateUpgrade {
		now, then = fmt.Sprintf("in step(%d/%d) requests are not routed yet", i, len(p.steps())), "nothing changed that"
	}
	was := p.found(v1beta1.RolloutConditionStalled)
	if !strings.HasPrefix(was.Message, now) {
		p.condition(v1beta1.RolloutConditionStalled, metav1.ConditionFalse, v1beta1.ReasonInRolling, now)
		was = p.found(v1beta1.RolloutConditionStalled)
	}
	left := time.Duration(seconds)*time.Second - p.Now.Sub(was.LastUpdateTime.Time)
	if left > 0 && was.Status != metav1.ConditionTrue {
		p.soon(left)
		return
	}
	message := fmt.Sprintf("%s, and %s within %d seconds", now, then, seconds)
	if why := p.unready(sub); why != "" {
		message += ": " + why
	}
	p.stall(v1beta1.ReasonDeadlineExceeded, message)
}

// unready is why a step does not go on.
func (p *pass) unready(sub *v1beta1.CanaryStatus) string {
	switch {
	case sub.CurrentStepState != v1beta1.CanaryStepStateUpgrade:
		return p.waits
	case p.Release != nil:
		return p.Release.Status.Message
	}
	return ""
}
