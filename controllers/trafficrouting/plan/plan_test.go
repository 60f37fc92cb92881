// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/rollouts/shared"
	"github.com/kruise-operator/kruise-operator/api/rollouts/v1alpha1"
	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic"
)

var now = time.Unix(1_000_000, 0)

func object(phase v1alpha1.TrafficRoutingPhase, users ...string) *v1alpha1.TrafficRouting {
	o := &v1alpha1.TrafficRouting{}
	o.Name, o.Generation, o.Status.Phase, o.Finalizers = "chain", 1, phase, []string{shared.FinalizerTrafficRouting}
	for _, user := range users {
		o.Finalizers = append(o.Finalizers, shared.FinalizerInUse+user)
	}
	o.Spec.ObjectRef = []v1beta1.TrafficRoutingRef{{Service: "web"}}
	o.Spec.Strategy.Matches = []v1alpha1.HTTPRouteMatch{{Headers: []v1beta1.HTTPNamedMatch{{Name: "user", Value: "a"}}}}
	return o
}

// told is a decision in words.
func told(d Decision) string {
	reconciling, _ := conditions.Find(conditions.From(d.Status.Conditions), v1alpha1.TrafficRoutingReconciling)
	stalled, _ := conditions.Find(conditions.From(d.Status.Conditions), v1alpha1.TrafficRoutingStalled)
	text := fmt.Sprintf("%s %s/%s", d.Status.Phase, reconciling.Status, reconciling.Reason)
	if stalled.Status == "True" {
		text += " stalled " + stalled.Reason
	}
	if d.Act != "" {
		text += " " + string(d.Act)
	}
	for _, event := range d.Events {
		text += " !" + event.Reason
	}
	return text + ": " + d.Status.Message
}

func TestPhases(t *testing.T) {
	route := func(state traffic.RouteState) *traffic.World {
		state.Name, state.Exists, state.Sight = "HTTPRoute web", true, traffic.Seen
		return &traffic.World{OneService: true, Waited: true, Routes: []traffic.RouteState{state}}
	}
	deleted := func(o *v1alpha1.TrafficRouting) *v1alpha1.TrafficRouting {
		o.DeletionTimestamp = &metav1.Time{Time: now}
		return o
	}
	none := func(o *v1alpha1.TrafficRouting) *v1alpha1.TrafficRouting {
		o.Spec.ObjectRef = nil
		return o
	}
	const (
		initial, healthy, progressing = v1alpha1.TrafficRoutingPhaseInitial, v1alpha1.TrafficRoutingPhaseHealthy, v1alpha1.TrafficRoutingPhaseProgressing
		finalizing, terminating       = v1alpha1.TrafficRoutingPhaseFinalizing, v1alpha1.TrafficRoutingPhaseTerminating
	)
	for name, tc := range map[string]struct {
		object *v1alpha1.TrafficRouting
		world  *traffic.World
		want   string
	}{
		"new":                       {object(""), nil, "Initial True/Initial: nobody has looked at it yet"},
		"seen":                      {object(initial), nil, "Healthy False/Returned: no Rollout uses it"},
		"in use":                    {object(healthy, "a"), nil, "Progressing True/Progressing: requests are routed for Rollout a"},
		"in use by several":         {object(healthy, "a", "b", "c", "d", "e", "f"), nil, "Progressing True/Progressing: requests are routed for Rollouts a, b, c, d, e and 1 more"},
		"routes to be set":          {object(progressing, "a"), route(traffic.RouteState{}), "Progressing True/Progressing SetRoutes: requests are routed for Rollout a"},
		"routes set":                {object(progressing, "a", "b"), route(traffic.RouteState{Current: true}), "Progressing False/Routed !Routed: requests are routed for Rollouts a, b"},
		"a fault of a route":        {object(progressing, "a"), route(traffic.RouteState{Fault: "no rule"}), "Progressing False/Progressing stalled NotRouted !NotRouted: requests are routed for Rollout a: no rule"},
		"no longer in use":          {object(progressing), nil, "Finalizing True/Finalizing: no Rollout uses it any more, and routes are set back"},
		"routes to be set back":     {object(finalizing), route(traffic.RouteState{}), "Finalizing True/Finalizing EndRoutes: routes are set back"},
		"routes set back":           {object(finalizing), route(traffic.RouteState{Back: true}), "Healthy False/Returned !Returned: no Rollout uses it"},
		"in use again":              {object(finalizing, "a"), nil, "Progressing True/Progressing: requests are routed for Rollout a"},
		"deleted at rest":           {deleted(object(healthy)), nil, "Healthy False/: "},
		"deleted in use":            {deleted(object(progressing, "a")), nil, "Terminating True/Terminating: it is being deleted, and routes are set back"},
		"deleted, to be set back":   {deleted(object(terminating, "a")), route(traffic.RouteState{}), "Terminating True/Terminating EndRoutes: it is being deleted, and routes are set back"},
		"deleted, set back":         {deleted(object(terminating, "a")), route(traffic.RouteState{Back: true}), "Terminating True/Terminating: "},
		"OpenKruise's without refs": {none(object(progressing, "a")), nil, "Progressing False/Progressing stalled NotRouted !NotRouted: requests are routed for Rollout a: spec.objectRef names no route"},
		"the same, deleted":         {deleted(none(object(terminating, "a"))), nil, "Terminating False/Terminating stalled NotRouted !NotRouted: it is being deleted, and routes are set back: spec.objectRef names no route"},
	} {
		t.Run(name, func(t *testing.T) {
			users := Named(tc.object.Finalizers)
			if goal, wanted := Wanted(tc.object, users); wanted != (tc.world != nil) {
				t.Fatalf("wanted %v %v", goal, wanted)
			} else if wanted {
				tc.world.Goal, tc.world.Share = goal, Share(tc.object.Spec.Strategy)
			}
			d := Plan(tc.object, Snapshot{Now: now, Users: users, World: tc.world})
			if got := told(d); got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
			free := !slices.ContainsFunc(d.Finalizers, func(f string) bool { return strings.Contains(f, "rollouts.kruise.io/") })
			if free != slices.Contains([]string{"deleted at rest", "deleted, set back", "the same, deleted"}, name) {
				t.Errorf("the finalizers are %v", d.Finalizers)
			}
		})
	}
}

// What is in force costs nothing until somebody changes the spec.
func TestWhatIsInForceIsLeftAlone(t *testing.T) {
	o := object(v1alpha1.TrafficRoutingPhaseProgressing, "a")
	world := &traffic.World{Goal: traffic.Route, Share: Share(o.Spec.Strategy), OneService: true, Routes: []traffic.RouteState{{Exists: true, Current: true, Sight: traffic.Seen}}}
	d := Plan(o, Snapshot{Now: now, Users: []string{"a"}, World: world})
	o.Status = d.Status
	for range 3 {
		if _, wanted := Wanted(o, []string{"a"}); wanted || d.After > 0 {
			t.Fatalf("it is looked at again after %v", d.After)
		}
		next := Plan(o, Snapshot{Now: now.Add(time.Hour), Users: []string{"a"}})
		if len(next.Events) > 0 || next.Status.Phase != o.Status.Phase || !conditions.EqualIgnoringMessages(o.Status.Conditions, next.Status.Conditions) {
			t.Fatal(told(next))
		}
		o.Status, d = next.Status, next
	}
	o.Generation++
	if goal, wanted := Wanted(o, []string{"a"}); !wanted || goal != traffic.Route {
		t.Error("another spec is not put in force")
	}
}

// A finalizer is that of a Rollout which names the object. Others go, and those of other people stay.
func TestFinalizers(t *testing.T) {
	o := object(v1alpha1.TrafficRoutingPhaseHealthy, "a", "gone")
	o.Finalizers = append([]string{"example.com/own"}, o.Finalizers...)
	d := Plan(o, Snapshot{Now: now, Users: []string{"a"}})
	if want := []string{"example.com/own", shared.FinalizerTrafficRouting, shared.FinalizerInUse + "a"}; !slices.Equal(d.Finalizers, want) {
		t.Errorf("got %v", d.Finalizers)
	}
	o.Finalizers = nil
	if d := Plan(o, Snapshot{Now: now}); !slices.Equal(d.Finalizers, []string{shared.FinalizerTrafficRouting}) {
		t.Errorf("a new one gets %v", d.Finalizers)
	}
}

// A refused write stalls it, and is told once.
func TestARefusedWrite(t *testing.T) {
	o := object(v1alpha1.TrafficRoutingPhaseProgressing, "a")
	s := Snapshot{Now: now, Users: []string{"a"}, Fault: "forbidden", World: &traffic.World{Goal: traffic.Route, Share: Share(o.Spec.Strategy), OneService: true, Waited: true, Routes: []traffic.RouteState{{Exists: true}}}, Corrected: "HTTPRoute web"}
	d := Plan(o, s)
	if got, want := told(d), "Progressing False/Progressing stalled RequestFailed SetRoutes !RouteCorrected !RequestFailed: requests are routed for Rollout a"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	o.Status, s.Corrected = d.Status, ""
	if d := Plan(o, s); len(d.Events) > 0 {
		t.Errorf("told again: %v", d.Events)
	}
}

// No request is led to a subset without pods.
func TestPodsComeBeforeRequests(t *testing.T) {
	o := object(v1alpha1.TrafficRoutingPhaseProgressing, "a")
	s := Snapshot{Now: now, Users: []string{"a"}, Podless: "no pod of the subset is ready", World: &traffic.World{
		Goal: traffic.Route, Share: Share(o.Spec.Strategy), OneService: true, Waited: true, Routes: []traffic.RouteState{{Exists: true}},
	}}
	if d := Plan(o, s); told(d) != "Progressing True/Progressing: requests are routed for Rollout a: no pod of the subset is ready" || d.After == 0 {
		t.Errorf("got %q, again after %v", told(d), d.After)
	}
	s.Podless = ""
	if d := Plan(o, s); d.Act != traffic.SetRoutes {
		t.Errorf("got %q", told(d))
	}
}

func TestShare(t *testing.T) {
	s := Share(v1alpha1.TrafficStrategy{Weight: ptr.To(int32(5)), RequestHeaderModifier: &v1beta1.HTTPHeaderFilter{Remove: []string{"x"}}})
	if *s.Weight != 5 || s.Headers == nil || len(s.Matches) > 0 {
		t.Errorf("got %+v", s)
	}
	if n := Names(object("")); n.Stable != "web" || n.Canary != "web" || n.Rollout != "chain" {
		t.Errorf("got %+v", n)
	}
}
