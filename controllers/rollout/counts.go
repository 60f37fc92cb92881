// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/rollout/plan"
	"github.com/kruise-operator/kruise-operator/internal/quantity"
)

// States of Rollouts in the metrics. One that is unguarded has another state, too.
const (
	inRest      = "Rest"
	inStep      = "Step"
	inPause     = "Pause"
	inApproval  = "Approval"
	inEnding    = "Ending"
	isUnguarded = "Unguarded"
)

// countStates counts the Rollouts in each state.
func (r *Reconciler) countStates(set func(value float64, labels ...string)) {
	counts := map[string]int{}
	for state := range r.standings {
		counts[state]++
	}
	for _, state := range []string{inRest, inStep, inPause, inApproval, inEnding, isUnguarded} {
		set(float64(counts[state]), state)
	}
}

// countSince says since when the longest Rollout of each state is in it.
func (r *Reconciler) countSince(set func(value float64, labels ...string)) {
	oldest := map[string]int64{}
	for state, since := range r.standings {
		if at := since.Unix(); oldest[state] == 0 || at < oldest[state] {
			oldest[state] = at
		}
	}
	for _, state := range []string{inStep, inPause, inApproval, inEnding, isUnguarded} {
		set(float64(oldest[state]), state)
	}
}

// standings yields the states of all Rollouts, and since when. Before the cache is filled it yields nothing.
func (r *Reconciler) standings(yield func(string, time.Time) bool) {
	for _, stored := range r.Counted() {
		o := &v1beta1.Rollout{}
		if quantity.FromUnstructured(stored.Object, o) != nil {
			continue // kruise_objects counts it
		}
		plan.Unify(o)
		if !yield(standing(o)) {
			return
		}
		guarded := plan.ConditionOf(&o.Status, v1beta1.RolloutConditionGuarded)
		if guarded.Status == metav1.ConditionFalse && guarded.Reason != v1beta1.ReasonWorkloadNotFound && !yield(isUnguarded, guarded.LastTransitionTime.Time) {
			return
		}
	}
}

// standing is the state of a Rollout, and since when it is in it.
func standing(o *v1beta1.Rollout) (state string, since time.Time) {
	sub, progressing := o.Status.CanaryStatus, plan.ConditionOf(&o.Status, v1beta1.RolloutConditionProgressing)
	since = o.CreationTimestamp.Time
	if sub != nil && sub.LastUpdateTime != nil {
		since = sub.LastUpdateTime.Time
	}
	switch phase := o.Status.Phase; {
	case phase == v1beta1.RolloutPhaseTerminating || phase == v1beta1.RolloutPhaseDisabling:
		return inEnding, since
	case phase != v1beta1.RolloutPhaseProgressing || sub == nil:
		return inRest, since
	case progressing.Reason == v1beta1.ReasonFinalising || progressing.Reason == v1beta1.ReasonCancelling:
		return inEnding, since
	case progressing.Reason == v1beta1.ReasonPaused:
		return inPause, progressing.LastUpdateTime.Time
	case sub.CurrentStepState != v1beta1.CanaryStepStatePaused:
		return inStep, since
	}
	canary, i := o.Spec.Strategy.Canary, int(sub.CurrentStepIndex)-1
	if canary != nil && i >= 0 && i < len(canary.Steps) && canary.Steps[i].Pause.Duration == nil {
		return inApproval, since
	}
	return inPause, since
}

// ended is how a release ended with a change of the status; empty: none did.
func ended(before, after *v1beta1.RolloutStatus) string {
	if before.Phase != v1beta1.RolloutPhaseProgressing {
		return ""
	}
	switch after.Phase {
	case v1beta1.RolloutPhaseDisabling, v1beta1.RolloutPhaseTerminating:
		return "LetGo"
	}
	was, is := plan.ConditionOf(before, v1beta1.RolloutConditionSucceeded), plan.ConditionOf(after, v1beta1.RolloutConditionSucceeded)
	switch {
	case was.Status != "" || is.Status == "":
		return ""
	case is.Status == metav1.ConditionTrue:
		return "Succeeded"
	case is.Reason == v1beta1.ReasonTakenOver:
		return "TakenOver"
	}
	return "Canceled"
}
