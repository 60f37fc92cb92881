// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/rollouts/shared"
	"github.com/kruise-operator/kruise-operator/api/rollouts/v1alpha1"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic"
	"github.com/kruise-operator/kruise-operator/internal/testutil/walk"
)

// world is a TrafficRouting with its Rollouts, a route and its gateway.
type world struct {
	Object *v1alpha1.TrafficRouting
	// There are the Rollouts that exist, and name it.
	There []string
	// Stored and Seen are the generation of the spec that the route is for, as stored and in force; 0: it is that of the user.
	Stored, Seen   int64
	Marked, Gone   bool
	Refusing, Dead bool
	Waited         bool
	// Actions are what somebody may still do, once each.
	Actions []string
}

func newWorld(actions ...string) *world {
	o := object("")
	o.Finalizers = nil
	return &world{Object: o, There: []string{"a", "b"}, Waited: true, Actions: actions}
}

func (w *world) key() string {
	text, err := json.Marshal(w)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func (w *world) copy() *world {
	c := *w
	c.Object, c.There, c.Actions = w.Object.DeepCopy(), slices.Clone(w.There), slices.Clone(w.Actions)
	return &c
}

func (w *world) snapshot() Snapshot {
	s := Snapshot{Now: now}
	for _, name := range Named(w.Object.Finalizers) {
		if slices.Contains(w.There, name) {
			s.Users = append(s.Users, name)
		}
	}
	goal, wanted := Wanted(w.Object, s.Users)
	if !wanted {
		return s
	}
	sight := traffic.Seen
	switch {
	case w.Gone:
		sight = traffic.Silent
	case w.Refusing:
		sight = traffic.Refused
	case w.Dead || w.Stored != w.Seen:
		sight = traffic.Behind
	}
	s.World = &traffic.World{
		Goal: goal, Share: Share(w.Object.Spec.Strategy), OneService: true, Waited: w.Waited, Overdue: w.Waited && w.Dead,
		Routes: []traffic.RouteState{{
			Name: "route", Exists: !w.Gone, Current: w.Stored == w.Object.Generation, Back: w.Stored == 0 || w.Gone, Marked: w.Marked && !w.Gone, Sight: sight,
		}},
	}
	return s
}

// pass is the controller: the status is stored first, and what follows may be lost.
func (w *world) pass(crash bool) {
	if w.Object == nil {
		return
	}
	d := Plan(w.Object, w.snapshot())
	if !slices.Equal(w.Object.Finalizers, d.Finalizers) {
		w.finalizers(d.Finalizers)
		return
	}
	if w.Object.Status = d.Status; !crash {
		w.do(d.Act)
	}
}

func (w *world) do(act traffic.Act) {
	switch act {
	case traffic.SetRoutes:
		w.Stored, w.Marked, w.Waited = w.Object.Generation, true, false
	case traffic.EndRoutes:
		w.Stored, w.Waited = 0, false
	case traffic.DisownRoutes:
		w.Marked = false
	}
}

func (w *world) finalizers(all []string) {
	if w.Object.Finalizers = all; w.Object.DeletionTimestamp != nil && len(all) == 0 {
		w.Object = nil
	}
}

func (w *world) sees() {
	switch {
	case w.Gone:
		w.Stored, w.Seen = 0, 0
	case !w.Refusing && !w.Dead:
		w.Seen = w.Stored
	}
}

// act is a Rollout or a person. It says whether that can be done now.
func (w *world) act(action string) bool {
	verb, name, _ := strings.Cut(action, " ")
	finalizer := shared.FinalizerInUse + name
	if w.Object == nil {
		return false
	}
	switch verb {
	case "hold":
		if w.Object.DeletionTimestamp != nil || !slices.Contains(w.There, name) {
			return false
		}
		w.Object.Finalizers = append(w.Object.Finalizers, finalizer)
	case "leave":
		w.finalizers(slices.DeleteFunc(slices.Clone(w.Object.Finalizers), func(f string) bool { return f == finalizer }))
	case "vanish":
		w.There = slices.DeleteFunc(w.There, func(n string) bool { return n == name })
	case "delete":
		if w.Object.DeletionTimestamp = (&metav1.Time{Time: now}); len(w.Object.Finalizers) == 0 {
			w.Object = nil
		}
	case "spec":
		w.Object.Generation++
	case "edit":
		w.Stored = 0
	case "unroute":
		w.Gone, w.Marked, w.Stored = true, false, 0
	case "refuse":
		w.Refusing = true
	case "die":
		w.Dead = true
	}
	return true
}

// broken says what must not be.
func (w *world) broken(before *world) string {
	if w.Object == nil {
		if w.Marked || w.Stored != 0 && !w.Gone {
			return "it is gone, and its route is left"
		}
		return ""
	}
	if w.Stored == 0 || before.Object == nil {
		return ""
	}
	if !slices.Contains(w.Object.Finalizers, shared.FinalizerTrafficRouting) {
		return "requests are routed without a finalizer"
	}
	return ""
}

// end lets everything go on, and says what is wrong then.
func (w *world) end() string {
	w.Refusing = false
	for range 60 {
		before := w.key()
		w.pass(false)
		w.Waited = true
		w.sees()
		if w.key() == before {
			break
		}
	}
	if w.Object == nil {
		return ""
	}
	users := Named(w.Object.Finalizers)
	for _, user := range users {
		if !slices.Contains(w.There, user) {
			return "a finalizer of a Rollout that is gone is left"
		}
	}
	status := w.Object.Status
	_, looks := Wanted(w.Object, users)
	switch {
	case w.Object.DeletionTimestamp != nil:
		return "it is still there"
	case w.Dead && len(users) > 0, w.Gone && len(users) > 0:
		return "" // the user has to do something
	case looks:
		return "it is looked at for ever"
	case len(users) > 0 && (status.Phase != v1alpha1.TrafficRoutingPhaseProgressing || !routed(w.Object)):
		return "it is in use, and not routed"
	case len(users) == 0 && (status.Phase != v1alpha1.TrafficRoutingPhaseHealthy || w.Stored != 0 || w.Marked):
		return "nobody uses it, and something is left"
	}
	return ""
}

// TestExplore visits each order of passes, crashes, the gateway, and what Rollouts and people do.
func TestExplore(t *testing.T) {
	for _, actions := range [][]string{
		{"hold a", "hold b", "leave a", "leave b"}, {"hold a", "leave a", "hold b", "delete"}, {"hold a", "vanish a", "hold b"}, {"hold a", "hold b", "vanish b", "leave a"},
		{"hold a", "spec", "leave a"}, {"hold a", "edit", "leave a", "hold b"}, {"hold a", "unroute", "leave a"}, {"hold a", "refuse", "leave a", "delete"},
		{"hold a", "die", "leave a"}, {"hold a", "die", "delete"}, {"delete", "hold a"}, {"hold a", "vanish a", "delete"},
	} {
		t.Run(strings.Join(actions, ", "), func(t *testing.T) {
			states := walk.From(newWorld(actions...), (*world).key, func(w *world) []*world {
				rest := w.copy()
				if wrong := rest.end(); wrong != "" {
					t.Fatalf("%s\nfrom %s\nend %s", wrong, w.key(), rest.key())
				}
				return w.next(t)
			})
			t.Logf("%d states", states)
		})
	}
}

// next are the states one step further.
func (w *world) next(t *testing.T) (all []*world) {
	t.Helper()
	add := func(name string, do func(*world) bool) {
		n := w.copy()
		if !do(n) {
			return
		}
		if broken := n.broken(w); broken != "" {
			t.Fatalf("%s: %s\nbefore %s\nafter %s", name, broken, w.key(), n.key())
		}
		all = append(all, n)
	}
	add("a pass", func(n *world) bool { n.pass(false); return true })
	add("a pass with a crash", func(n *world) bool { n.pass(true); return true })
	add("the gateway", func(n *world) bool { n.sees(); return true })
	add("time", func(n *world) bool { n.Waited = true; return true })
	for i, action := range w.Actions {
		add(action, func(n *world) bool {
			n.Actions = slices.Delete(n.Actions, i, i+1)
			return n.act(action)
		})
	}
	return all
}
