// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic"
	"github.com/kruise-operator/kruise-operator/internal/testutil/sample"
)

// net are the Services of a workload, and one route with its gateway.
type net struct {
	// Pinned is the version that the Service of the user chooses; empty: all. Canary is that of the other Service; empty: there is none.
	Pinned, Canary string
	// Route and Seen are the weights in the stored route and in force; -1 is that of the user. Marked: managed fields name the operator.
	Route, Seen    int
	Marked         bool
	Refusing, Dead bool
	// Gone: the user deleted the route. Spoilt: he deleted a Service that had requests.
	Gone, Spoilt bool
}

// newRouted is a world whose first step has traffic.
func newRouted(actions ...string) *world {
	w := newWorld(actions...)
	w.Net = &net{Route: -1, Seen: -1}
	canary := w.Rollout.Spec.Strategy.Canary
	canary.TrafficRoutings = []v1beta1.TrafficRoutingRef{{Service: "web"}}
	canary.Steps[0].Traffic = ptr.To("20%")
	return w
}

// pods are those of a version.
func (w *world) pods(version string) int {
	switch {
	case w.Twin && version == w.Stable:
		return w.Replicas
	case version == w.Template && version == w.Stable:
		return w.Replicas - w.Middle
	case version == w.Template:
		return w.New
	case version == w.Stable:
		return w.Replicas - w.New - w.Middle
	}
	return w.Middle
}

// requests are what the controller reads of them.
func (w *world) requests(stored *Workload) *traffic.World {
	want := Wanted(w.Rollout, stored, w.Release)
	if want == nil {
		return nil
	}
	n, waited := w.Net, now.Sub(w.sub().LastUpdateTime.Time) > 3*time.Second
	sight := traffic.Seen
	switch {
	case n.Gone:
		sight = traffic.Silent
	case n.Dead:
		sight = traffic.Behind
	case n.Refusing:
		sight = traffic.Refused
	case n.Route != n.Seen:
		sight = traffic.Behind
	}
	return &traffic.World{
		Goal: want.Goal, Share: want.Share, Empties: want.Empties, StableReady: !want.Ahead && w.pods(w.sub().StableRevision) > 0, Waited: waited, Overdue: waited && n.Dead,
		Stable: traffic.ServiceState{Exists: true, Pinned: n.Pinned != ""},
		Canary: traffic.ServiceState{Exists: n.Canary != "", Current: n.Canary == w.Template, Ready: n.Canary != "" && w.pods(n.Canary) > 0},
		Routes: []traffic.RouteState{{
			Name: "route", Exists: !n.Gone, Current: n.Route == int(ptr.Deref(want.Share.Weight, -1)), Back: n.Route == -1 || n.Gone, Marked: n.Marked && !n.Gone, Sight: sight,
		}},
	}
}

func (n *net) do(act traffic.Act, w *world) {
	switch act {
	case traffic.PinStable:
		n.Pinned = w.sub().StableRevision
	case traffic.OpenStable:
		n.Pinned = ""
	case traffic.MakeCanary:
		n.Canary = w.Template
	case traffic.DropCanary:
		n.Canary = ""
	case traffic.SetRoutes:
		n.Route, n.Marked = 20, true
		if want := Wanted(w.Rollout, w.snapshot().Workload, w.Release); want != nil && want.Share.Weight != nil {
			n.Route = int(*want.Share.Weight)
		}
	case traffic.EndRoutes:
		n.Route = -1
	case traffic.DisownRoutes:
		n.Marked = false
	}
}

// sees is the gateway.
func (n *net) sees() {
	switch {
	case n.Gone:
		n.Route, n.Seen = -1, -1
	case !n.Refusing && !n.Dead:
		n.Seen = n.Route
	}
}

// act is somebody else.
func (n *net) act(action string) bool {
	switch action {
	case "refuse":
		n.Refusing = true
	case "edit":
		if n.Route == -1 {
			return false
		}
		n.Route = -1
	case "drop":
		n.Spoilt, n.Canary = n.Spoilt || n.Route >= 0 || n.Seen >= 0, ""
	case "unroute":
		n.Gone, n.Marked, n.Route = true, false, -1
	case "die":
		n.Dead = true
	}
	return true
}

// lost says which requests are lost.
func (w *world) lost() string {
	n := w.Net
	free := n.Spoilt || n.Dead || n.Gone || w.Took
	switch {
	case (n.Route > 0 || n.Seen > 0) && n.Canary != "" && w.pods(n.Canary) == 0 && !free:
		return "I1, I8: requests go to a version without pods"
	case (n.Route >= 0 || n.Seen >= 0) && n.Canary == "" && !free:
		return "I2: a route names a Service that is not there"
	case n.Pinned != "" && (n.Pinned != w.Stable || w.pods(n.Pinned) == 0) && !w.Took:
		return "I3: the Service of the user has no pods"
	}
	return ""
}

// left says what of a release is left.
func (n *net) left() string {
	if n != nil && (n.Pinned != "" || n.Canary != "" || n.Route >= 0 && !n.Gone || n.Marked && !n.Gone) {
		return "I6: something about requests is left"
	}
	return ""
}

// TestExploreRequests visits each order of passes, crashes, the gateway, and what users may do to a release with traffic.
func TestExploreRequests(t *testing.T) {
	cases := [][]string{
		{"v2"}, {"v2", "v3"}, {"v2", "v1"}, {"v2", "refuse"}, {"v2", "edit"}, {"v2", "back"}, {"v2", "delete"}, {"v2", "take"}, {"v2", "remove"},
		{"v2", "disable"}, {"v2", "drop"}, {"v2", "unroute"}, {"v2", "scale"}, {"v2", "plan"}, {"v2", "forward"}, {"v2", "hasty"},
		{"v2", "v1", "refuse"}, {"v2", "v1", "delete"}, {"v2", "v3", "edit"}, {"v2", "delete", "die"}, {"v2", "v3", "take"}, {"v2", "v1", "remove"}, {"v2", "v3", "v1"},
		{"v2", "back", "scale"}, {"v2", "pause", "resume", "edit"}, {"v2", "forward", "back", "v1"}, {"v2", "v3", "remove"}, {"v2", "drop", "v1"}, {"v2", "take", "delete"},
	}
	for i, actions := range cases {
		t.Run(strings.Join(actions, " "), func(t *testing.T) {
			if i > 2 && !sample.Has(i, 4) {
				t.Skip("left to another day")
			}
			exploreFrom(t, newRouted(actions...))
		})
	}
}
