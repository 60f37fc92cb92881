// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/testutil/sample"
)

// joint is a TrafficRouting of several Rollouts.
type joint struct {
	Exists, Deleting, Held, Routing bool
	// Lost: it was not there in the middle of a release.
	Lost bool
}

// newShared is a world whose Rollout names a TrafficRouting.
func newShared(exists bool, actions ...string) *world {
	w := newWorld(actions...)
	w.Rollout.Spec.Strategy.Canary.TrafficRoutingRef = "chain"
	w.Joint = &joint{Exists: exists, Lost: !exists}
	return w
}

// read is what the controller reads of it.
func (j *joint) read() *Shared {
	s := &Shared{Name: "chain", Held: j.Held, Routing: j.Routing}
	switch {
	case !j.Exists:
		s.Fault = "there is none"
	case j.Deleting:
		s.Fault = "it is being deleted"
	}
	return s
}

// pass is its own controller.
func (j *joint) pass() {
	if j.Routing = j.Exists && j.Held && !j.Deleting; j.Deleting {
		*j = joint{Lost: true}
	}
}

func (j *joint) act(action string) bool {
	switch action {
	case "unshare":
		j.Deleting, j.Lost = true, true
		return j.Exists
	case "share":
		done := !j.Exists
		j.Exists = true
		return done
	}
	return false
}

// unheld: a release goes on that its TrafficRouting does not know of.
func (w *world) unheld() bool {
	j := w.Joint
	return j != nil && j.Exists && !j.Held && !j.Lost && !w.Missing && !w.Took && w.Rollout != nil && w.Release != nil && w.Release.DeletionTimestamp == nil &&
		w.Rollout.DeletionTimestamp == nil && !w.Rollout.Spec.Disabled && w.Release.Spec.ReleasePlan.BatchPartition != nil && progressing(w.Rollout).Reason == v1beta1.ReasonInRolling
}

func progressing(r *v1beta1.Rollout) v1beta1.RolloutCondition {
	return ConditionOf(&r.Status, v1beta1.RolloutConditionProgressing)
}

// TestExploreSharing visits each order of passes, crashes, the controller of the TrafficRouting, and what users may do.
func TestExploreSharing(t *testing.T) {
	cases := [][]string{
		{"v2"}, {"v2", "v3"}, {"v2", "delete"}, {"v2", "disable"}, {"v2", "remove"}, {"v2", "take"}, {"v2", "unshare"}, {"share", "v2"},
		{"v2", "v1"}, {"share", "v2", "delete"}, {"v2", "unshare", "share"}, {"v2", "delete", "unshare"},
	}
	for i, actions := range cases {
		t.Run(strings.Join(actions, " "), func(t *testing.T) {
			if i > 1 && !sample.Has(i, 4) {
				t.Skip("left to another day")
			}
			exploreFrom(t, newShared(actions[0] != "share", actions...))
		})
	}
}

// The same with two sets of pods.
func TestExploreSharingWithBlueGreen(t *testing.T) {
	for _, actions := range [][]string{{"v2"}, {"v2", "v1"}, {"v2", "delete"}, {"v2", "unshare"}} {
		t.Run(strings.Join(actions, " "), func(t *testing.T) {
			w := newTwin(false, actions...)
			w.Rollout.Spec.Strategy.BlueGreen.TrafficRoutingRef = "chain"
			Unify(w.Rollout)
			w.Joint = &joint{Exists: true}
			exploreFrom(t, w)
		})
	}
}

// A release waits for its TrafficRouting with a reason, and whoever waits gets out.
func TestAReleaseWaitsForItsTrafficRouting(t *testing.T) {
	for name, end := range map[string]string{"delete": "delete", "disable": "disable", "rollback": "v1", "it comes": "share"} {
		t.Run(name, func(t *testing.T) {
			w := newShared(false)
			for range 5 {
				w.turn()
			}
			w.apply("v2")
			for range 10 {
				w.turn()
			}
			stalled := ConditionOf(&w.Rollout.Status, v1beta1.RolloutConditionStalled)
			if w.Release != nil || !strings.Contains(w.Rollout.Status.Message, "there is none") || stalled.Status != metav1.ConditionTrue || stalled.Reason != v1beta1.ReasonNotRouted {
				t.Fatalf("the release does not wait: %q, %+v", w.Rollout.Status.Message, stalled)
			}
			w.act(end)
			if wrong := w.end(); wrong != "" {
				t.Errorf("%s: %s", wrong, w.key())
			}
		})
	}
}

// On the way back routes come before pods, for as long as somebody may still set them back.
func TestRoutesComeBeforePods(t *testing.T) {
	w := newShared(true)
	for range 5 {
		w.turn()
	}
	w.apply("v2")
	w.until(t, v1beta1.CanaryStepStatePaused, 1)
	if !w.Joint.Held {
		t.Fatal("the TrafficRouting is not held")
	}
	w.apply("v1")
	w.Joint.Routing = true
	held := false
	for range 10 {
		d := Plan(w.Rollout, w.snapshot())
		held = held || d.LetGo
		w.Rollout.Status = d.Status
		w.do(d)
		if w.Release == nil || w.Release.Spec.ReleasePlan.BatchPartition == nil {
			t.Fatal("pods go back before requests")
		}
	}
	if !held || w.Joint.Held || !strings.Contains(w.Rollout.Status.Message, "sets its routes back") {
		t.Errorf("held %v, %q", w.Joint.Held, w.Rollout.Status.Message)
	}
	w.sub().LastUpdateTime = &metav1.Time{Time: now.Add(-returning)}
	if d := Plan(w.Rollout, w.snapshot()); d.Order == nil && !d.Unmark {
		t.Error("a TrafficRouting without a controller holds up the end for ever")
	}
	w.Joint.pass()
	if wrong := w.end(); wrong != "" {
		t.Error(wrong)
	}
}
