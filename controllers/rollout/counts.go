// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/rollout/plan"
	"github.com/kruise-operator/kruise-operator/internal/quantity"
)

// States of Rollouts in the metrics. One that is Unguarded has another state, too.
const (
	atRest    = "Rest"
	inStep    = "Step"
	inPause   = "Pause"
	approval  = "Approval"
	ending    = "Ending"
	unguarded = "Unguarded"
)

// count counts Rollouts by state.
func (r *Reconciler) count(set func(float64, ...string)) {
	counts, _ := r.standings()
	for state, n := range counts {
		set(n, state)
	}
}

// since is since when the Rollout that is longest in a state is in it.
func (r *Reconciler) since(set func(float64, ...string)) {
	_, oldest := r.standings()
	delete(oldest, atRest)
	for state, at := range oldest {
		set(at, state)
	}
}

// standings counts Rollouts by state, and has the earliest time of each state in seconds since 1970. Before the cache is filled all are 0.
func (r *Reconciler) standings() (counts, oldest map[string]float64) {
	counts = map[string]float64{atRest: 0, inStep: 0, inPause: 0, approval: 0, ending: 0, unguarded: 0}
	oldest = maps.Clone(counts)
	add := func(state string, since time.Time) {
		counts[state]++
		if at := float64(since.Unix()); oldest[state] == 0 || at < oldest[state] {
			oldest[state] = at
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second) //nolint:forbidigo // a collector of metrics gets no context
	defer cancel()
	stored, err := r.Stored(ctx)
	if err != nil {
		return counts, oldest
	}
	for i := range stored {
		o := &v1beta1.Rollout{}
		if quantity.FromUnstructured(stored[i].Object, o) != nil {
			continue // kruise_objects counts it
		}
		plan.Unify(o)
		add(standing(o))
		guarded := plan.ConditionOf(&o.Status, v1beta1.RolloutConditionGuarded)
		if guarded.Status == metav1.ConditionFalse && guarded.Reason != v1beta1.ReasonWorkloadNotFound {
			add(unguarded, guarded.LastTransitionTime.Time)
		}
	}
	return counts, oldest
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
		return ending, since
	case phase != v1beta1.RolloutPhaseProgressing || sub == nil:
		return atRest, since
	case progressing.Reason == v1beta1.ReasonFinalising || progressing.Reason == v1beta1.ReasonCancelling:
		return ending, since
	case progressing.Reason == v1beta1.ReasonPaused:
		return inPause, progressing.LastUpdateTime.Time
	case sub.CurrentStepState != v1beta1.CanaryStepStatePaused:
		return inStep, since
	}
	canary, i := o.Spec.Strategy.Canary, int(sub.CurrentStepIndex)-1
	if canary != nil && i >= 0 && i < len(canary.Steps) && canary.Steps[i].Pause.Duration == nil {
		return approval, since
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
