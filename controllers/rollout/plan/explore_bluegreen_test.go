// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/testutil/sample"
)

// newTwin is a world in which new pods come beside all old ones.
func newTwin(requests bool, actions ...string) *world {
	w := newWorld(actions...)
	one, all := intstr.FromInt32(1), intstr.FromString("100%")
	b := &v1beta1.BlueGreenStrategy{Steps: []v1beta1.CanaryStep{{Replicas: &one}, {Replicas: &all}}}
	if w.Twin = true; requests {
		w.Net = &net{Route: -1, Seen: -1}
		b.TrafficRoutings = []v1beta1.TrafficRoutingRef{{Service: "web"}}
		b.Steps[0].Traffic, b.Steps[1].Traffic = ptr.To("0%"), ptr.To("20%")
	}
	w.Rollout.Spec.Strategy = v1beta1.RolloutStrategy{BlueGreen: b}
	Unify(w.Rollout)
	return w
}

// calm: requests do not care which pods there are.
func (w *world) calm() bool {
	return !w.Twin || w.Net == nil || w.Missing || w.Net.Dead || w.Net.Gone || w.Net.Spoilt || w.Took || w.Fault != ""
}

// succeeds: another template at the end belongs to the next release, also that from before.
func (w *world) succeeds() bool {
	return w.Twin && w.Release.Spec.ReleasePlan.FinalizingPolicy == v1beta1.WaitResumeFinalizingPolicyType
}

// withdrawn is when pods of a version in the middle go.
func (w *world) withdrawn() {
	if !w.calm() && w.Middle > 0 && (w.Net.Seen > 0 || w.Net.Route > 0) {
		w.Fault = "I8: pods of a version in the middle go while it has requests"
	}
}

// resumed is when the workload gets its own numbers back: one version goes.
func (w *world) resumed() {
	switch {
	case w.calm() || !w.Braked:
	case w.Template == w.Stable && w.Middle > 0 && (w.Net.Seen > 0 || w.Net.Route > 0):
		w.Fault = "I8: new pods go while they have requests"
	case w.Template != w.Stable && w.Net.Pinned != "":
		w.Fault = "old pods go while a Service has them alone"
	case w.Template != w.Stable && w.Net.Seen >= 0 && w.Net.Seen < 100:
		w.Fault = "old pods go while they have a share of requests"
	}
}

// TestExploreTwins visits each order of passes, crashes, the gateway, and what users may do to a release with two sets of pods.
func TestExploreTwins(t *testing.T) {
	cases := [][]string{
		{"v2"}, {"v2", "v3"}, {"v2", "v1"}, {"v2", "refuse"}, {"v2", "edit"}, {"v2", "back"}, {"v2", "delete"}, {"v2", "take"}, {"v2", "remove"},
		{"v2", "disable"}, {"v2", "drop"}, {"v2", "unroute"}, {"v2", "scale"}, {"v2", "plan"}, {"v2", "forward"}, {"v2", "hasty"},
		{"v2", "v1", "refuse"}, {"v2", "v1", "delete"}, {"v2", "v3", "edit"}, {"v2", "v3", "v1"}, {"v2", "v1", "scale"}, {"v2", "back", "v1"}, {"v2", "v3", "delete"},
	}
	for i, actions := range cases {
		for _, requests := range []bool{true, false} {
			name := strings.Join(actions, " ")
			if !requests {
				name += " alone"
			}
			t.Run(name, func(t *testing.T) {
				if i > 2 && !sample.Has(i, 6) {
					t.Skip("left to another day")
				}
				for _, action := range actions {
					if !requests && strings.Contains("refuse edit drop unroute", action) {
						t.Skip("it is about requests")
					}
				}
				exploreFrom(t, newTwin(requests, actions...))
			})
		}
	}
}
