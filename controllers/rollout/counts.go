// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/rollout/plan"
	"github.com/kruise-operator/kruise-operator/internal/platform/metrics"
	"github.com/kruise-operator/kruise-operator/internal/quantity"
)

// standings yields the state of each Rollout for the metrics, and since when. Before the cache is filled it yields nothing.
func (r *Reconciler) standings(yield func(string, time.Time) bool) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second) //nolint:forbidigo // a collector of metrics gets no context
	defer cancel()
	stored, err := r.Stored(ctx)
	if err != nil {
		return
	}
	for i := range stored {
		o := &v1beta1.Rollout{}
		if quantity.FromUnstructured(stored[i].Object, o) != nil {
			continue // kruise_objects counts it
		}
		plan.Unify(o)
		if !yield(standing(o)) {
			return
		}
		guarded := plan.ConditionOf(&o.Status, v1beta1.RolloutConditionGuarded)
		if guarded.Status == metav1.ConditionFalse && guarded.Reason != v1beta1.ReasonWorkloadNotFound && !yield(metrics.RolloutUnguarded, guarded.LastTransitionTime.Time) {
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
		return metrics.RolloutEnding, since
	case phase != v1beta1.RolloutPhaseProgressing || sub == nil:
		return metrics.RolloutRest, since
	case progressing.Reason == v1beta1.ReasonFinalising || progressing.Reason == v1beta1.ReasonCancelling:
		return metrics.RolloutEnding, since
	case progressing.Reason == v1beta1.ReasonPaused:
		return metrics.RolloutPause, progressing.LastUpdateTime.Time
	case sub.CurrentStepState != v1beta1.CanaryStepStatePaused:
		return metrics.RolloutStep, since
	}
	canary, i := o.Spec.Strategy.Canary, int(sub.CurrentStepIndex)-1
	if canary != nil && i >= 0 && i < len(canary.Steps) && canary.Steps[i].Pause.Duration == nil {
		return metrics.RolloutApproval, since
	}
	return metrics.RolloutPause, since
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
