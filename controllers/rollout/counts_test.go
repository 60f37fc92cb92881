// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
)

// progressing is a Rollout in its first of two steps: the first needs an approval, the second a pause.
func progressing(change func(*v1beta1.Rollout)) *v1beta1.Rollout {
	seconds := int32(60)
	o := &v1beta1.Rollout{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.Unix(1, 0)}}
	o.Spec.Strategy.Canary = &v1beta1.CanaryStrategy{Steps: []v1beta1.CanaryStep{{}, {Pause: v1beta1.RolloutPause{Duration: &seconds}}}}
	last := metav1.Unix(2, 0)
	o.Status.Phase = v1beta1.RolloutPhaseProgressing
	o.Status.CanaryStatus = &v1beta1.CanaryStatus{CommonStatus: v1beta1.CommonStatus{
		CurrentStepIndex: 1, CurrentStepState: v1beta1.CanaryStepStatePaused, LastUpdateTime: &last,
	}}
	o.Status.Conditions = []v1beta1.RolloutCondition{{
		Type: v1beta1.RolloutConditionProgressing, Status: metav1.ConditionTrue, Reason: v1beta1.ReasonInRolling, LastUpdateTime: metav1.Unix(3, 0),
	}}
	change(o)
	return o
}

func reason(o *v1beta1.Rollout, is string) { o.Status.Conditions[0].Reason = is }

func TestStatesForTheMetrics(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*v1beta1.Rollout)
		state  string
		since  int64
	}{
		"waits for an approval":           {func(*v1beta1.Rollout) {}, "Approval", 2},
		"waits for a time":                {func(o *v1beta1.Rollout) { o.Status.CanaryStatus.CurrentStepIndex = 2 }, "Pause", 2},
		"at a step that somebody invents": {func(o *v1beta1.Rollout) { o.Status.CanaryStatus.CurrentStepIndex = -7 }, "Pause", 2},
		"at a step that is gone":          {func(o *v1beta1.Rollout) { o.Status.CanaryStatus.CurrentStepIndex = 3 }, "Pause", 2},
		"replaces pods": {func(o *v1beta1.Rollout) {
			o.Status.CanaryStatus.CurrentStepState = v1beta1.CanaryStepStateUpgrade
		}, "Step", 2},
		"paused by the user":    {func(o *v1beta1.Rollout) { reason(o, v1beta1.ReasonPaused) }, "Pause", 3},
		"gives the strategy":    {func(o *v1beta1.Rollout) { reason(o, v1beta1.ReasonFinalising) }, "Ending", 2},
		"goes back":             {func(o *v1beta1.Rollout) { reason(o, v1beta1.ReasonCancelling) }, "Ending", 2},
		"being deleted":         {func(o *v1beta1.Rollout) { o.Status.Phase = v1beta1.RolloutPhaseTerminating }, "Ending", 2},
		"at rest":               {func(o *v1beta1.Rollout) { o.Status.Phase = v1beta1.RolloutPhaseHealthy }, "Rest", 2},
		"without a status":      {func(o *v1beta1.Rollout) { o.Status = v1beta1.RolloutStatus{} }, "Rest", 1},
		"without a sub-status":  {func(o *v1beta1.Rollout) { o.Status.CanaryStatus = nil }, "Rest", 1},
		"without its old steps": {func(o *v1beta1.Rollout) { o.Spec.Strategy.Canary = nil }, "Pause", 2},
	} {
		t.Run(name, func(t *testing.T) {
			state, since := standing(progressing(tc.change))
			if state != tc.state || !since.Equal(time.Unix(tc.since, 0)) {
				t.Errorf("%s since %d", state, since.Unix())
			}
		})
	}
}

func TestHowReleasesEndForTheMetrics(t *testing.T) {
	end := func(status metav1.ConditionStatus, reason string) func(*v1beta1.Rollout) {
		return func(o *v1beta1.Rollout) {
			o.Status.Conditions = append(o.Status.Conditions, v1beta1.RolloutCondition{Type: v1beta1.RolloutConditionSucceeded, Status: status, Reason: reason})
		}
	}
	same := func(*v1beta1.Rollout) {}
	for name, tc := range map[string]struct {
		before, after func(*v1beta1.Rollout)
		want          string
	}{
		"it goes on":            {same, same, ""},
		"all steps are done":    {same, end(metav1.ConditionTrue, v1beta1.ReasonCompleted), "Succeeded"},
		"once only":             {end(metav1.ConditionTrue, v1beta1.ReasonCompleted), end(metav1.ConditionTrue, v1beta1.ReasonCompleted), ""},
		"the template was back": {same, end(metav1.ConditionFalse, v1beta1.ReasonCompleted), "Canceled"},
		"it was taken over":     {same, end(metav1.ConditionFalse, v1beta1.ReasonTakenOver), "TakenOver"},
		"it was disabled":       {same, func(o *v1beta1.Rollout) { o.Status.Phase = v1beta1.RolloutPhaseDisabling }, "LetGo"},
		"it was deleted":        {same, func(o *v1beta1.Rollout) { o.Status.Phase = v1beta1.RolloutPhaseTerminating }, "LetGo"},
		"disabled at rest": {func(o *v1beta1.Rollout) { o.Status.Phase = v1beta1.RolloutPhaseHealthy },
			func(o *v1beta1.Rollout) { o.Status.Phase = v1beta1.RolloutPhaseDisabling }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ended(&progressing(tc.before).Status, &progressing(tc.after).Status); got != tc.want {
				t.Errorf("%q", got)
			}
		})
	}
}
