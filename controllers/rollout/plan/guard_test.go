// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
)

// Guarded says whether the next change is caught, or why it is not, and when to ask again.
func TestWhatIsGuarded(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Snapshot)
		status string
		reason string
		says   string
		after  time.Duration
	}{
		"as usual":         {func(*Snapshot) {}, "True", v1beta1.ReasonInForce, "caught", 0},
		"no workload":      {func(s *Snapshot) { s.Workload = nil }, "False", v1beta1.ReasonWorkloadNotFound, "Deployment web", 0},
		"no label":         {func(s *Snapshot) { s.Workload.Guarded = false }, "False", v1beta1.ReasonRegistering, "label", 0},
		"another's":        {func(s *Snapshot) { s.Workload.Guarded, s.Workload.Other = false, "shop" }, "False", v1beta1.ReasonOtherRollout, "Rollout shop", 0},
		"a new brake":      {func(s *Snapshot) { s.Registering = true }, "False", v1beta1.ReasonRegistering, "is being told", registering},
		"a refused brake":  {func(s *Snapshot) { s.HookFault = "forbidden" }, "False", v1beta1.ReasonNotRegistered, "forbidden", unregistered},
		"refused at first": {func(s *Snapshot) { s.HookFault, s.Registering = "forbidden", true }, "False", v1beta1.ReasonNotRegistered, "forbidden", unregistered},
	} {
		t.Run(name, func(t *testing.T) {
			w := resting()
			w.Rollout.Status.Conditions = slices.DeleteFunc(w.Rollout.Status.Conditions, func(c v1beta1.RolloutCondition) bool {
				return c.Type == v1beta1.RolloutConditionGuarded
			})
			s := w.snapshot()
			tc.change(&s)
			d := Plan(w.Rollout, s)
			c := ConditionOf(&d.Status, v1beta1.RolloutConditionGuarded)
			if string(c.Status) != tc.status || c.Reason != tc.reason || !strings.Contains(c.Message, tc.says) || d.After != tc.after {
				t.Errorf("got %+v, and again after %s", c, d.After)
			}
			if tc.reason == v1beta1.ReasonOtherRollout && (d.Guard || d.Order != nil) {
				t.Errorf("it takes the workload of the other one: %+v", d)
			}
		})
	}
	w := resting()
	s := w.snapshot()
	s.Registering = true
	if d := Plan(w.Rollout, s); ConditionOf(&d.Status, v1beta1.RolloutConditionGuarded).Reason != v1beta1.ReasonInForce {
		t.Errorf("after a restart of the operator it says otherwise: %+v", d.Status.Conditions)
	}
	w.Rollout.Spec.Disabled = true
	if d := Plan(w.Rollout, w.snapshot()); ConditionOf(&d.Status, v1beta1.RolloutConditionGuarded).Type != "" {
		t.Errorf("a disabled Rollout says so: %+v", d.Status.Conditions)
	}
}

// TestAReleaseOfOpenKruiseBeginsAgain: its status names versions in another way.
func TestAReleaseOfOpenKruiseBeginsAgain(t *testing.T) {
	for _, settled := range []bool{false, true} {
		w := resting()
		s := w.snapshot()
		s.Workload.Guarded, s.Workload.Noted, s.Workload.Foreign, s.Workload.InRelease, s.Workload.Settled = false, false, true, true, settled
		s.Workload.Revision, s.Workload.Stable = "v2", "v1"
		s.Release = &v1beta1.BatchRelease{}
		w.Rollout.Status.Phase = v1beta1.RolloutPhaseProgressing
		sub := w.sub()
		sub.StableRevision, sub.CanaryRevision, sub.CurrentStepIndex, sub.CurrentStepState = "5c9b", "7d4f", 2, v1beta1.CanaryStepStatePaused
		d := Plan(w.Rollout, s)
		if d.Guard != settled || d.Drop || d.Unmark {
			t.Errorf("settled %t: %+v", settled, d)
		}
		if sub := d.Status.CanaryStatus; settled && (sub.StableRevision != "v1" || sub.CanaryRevision != "v2" || sub.CurrentStepIndex != 1) {
			t.Errorf("the status is %+v", sub)
		}
	}
}

// A change that nothing held is caught, unless its user said by an annotation that it is no release.
func TestWhatIsLate(t *testing.T) {
	changed := func(w *Workload) { w.Revision, w.Stable, w.Moving = "v2", "v1", true }
	for name, tc := range map[string]struct {
		change func(*Workload)
		caught bool
		event  string
	}{
		"nothing changed":                            {func(*Workload) {}, false, ""},
		"another template":                           {changed, true, v1beta1.ReasonCaughtLate},
		"another template that all pods have":        {func(w *Workload) { w.Revision, w.Stable = "v2", "v2" }, false, ""},
		"one that its controller has not seen":       {func(w *Workload) { w.Revision, w.Stable, w.Settled = "v2", "v2", false }, true, v1beta1.ReasonCaughtLate},
		"another template under the same label":      {func(w *Workload) { changed(w); w.RolloutID = "7" }, true, v1beta1.ReasonCaughtLate},
		"another template under the same annotation": {func(w *Workload) { changed(w); w.RolloutID, w.ByID = "7", true }, false, v1beta1.ReasonUncontrolled},
		"another template and another annotation":    {func(w *Workload) { changed(w); w.RolloutID, w.ByID = "8", true }, true, v1beta1.ReasonCaughtLate},
	} {
		t.Run(name, func(t *testing.T) {
			w := resting()
			w.sub().ObservedRolloutID = "7"
			s := w.snapshot()
			tc.change(s.Workload)
			d := Plan(w.Rollout, s)
			if !tc.caught && d.Status.CanaryStatus.StableRevision != s.Workload.Revision {
				t.Errorf("the stable version is %s", d.Status.CanaryStatus.StableRevision)
			}
			if event := append(d.Events, planning.Event{})[0].Reason; d.Catch != tc.caught || event != tc.event {
				t.Errorf("caught: %t, %q", d.Catch, event)
			}
		})
	}
}
