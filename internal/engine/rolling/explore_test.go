// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package rolling_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kruise-operator/kruise-operator/internal/engine/rolling/testutil"
	"github.com/kruise-operator/kruise-operator/internal/testutil/sample"
)

// world is a release and what its user may still do.
type world struct {
	testutil.Release
	third, undo, crashes int
	scale                [2]int
}

type step struct {
	name string
	do   func(*world)
}

// machines are the steps of all who act without a user.
func machines(p testutil.Plan) []step {
	all := make([]step, 0, 20)
	for _, m := range testutil.Machines(p) {
		all = append(all, step{m.Name, func(w *world) { m.Do(&w.Release) }})
	}
	return all
}

// users are the steps of the user, and of faults.
func users(p testutil.Plan) []step {
	all := []step{
		{"the user approves", func(w *world) {
			if w.rests(p) && w.reached(p) {
				w.Approve(p)
			}
		}},
		{"the user applies a third version", func(w *world) {
			if w.third > 0 && !w.Done {
				w.third--
				w.Template(2)
			}
		}},
		{"the user sets the template back", func(w *world) {
			if w.undo > 0 && !w.Done {
				w.undo--
				w.Template(0)
			}
		}},
	}
	for i := range 2 {
		all = append(all, step{"the user scales", func(w *world) {
			if to := w.scale[i]; to > 0 && !w.Done && (i == 0 || w.scale[0] == 0) {
				w.scale[i] = 0
				w.Scale(to)
			}
		}})
	}
	for i := range testutil.Versions {
		all = append(all, step{fmt.Sprintf("a pod of set %d fails", i), func(w *world) {
			if w.crashes > 0 && w.Sets[i].Ready > 0 {
				w.crashes--
				w.Sets[i].Ready--
				w.Sets[i].Unready++
				w.Excused = true
				w.Failed++
			}
		}})
	}
	return all
}

// reached: the step has what it allows.
func (w *world) reached(p testutil.Plan) bool {
	return w.Sets[w.Deployment.Version].Replicas >= p.Limit(w.Step, w.Deployment.Replicas)
}

// rests: nothing of ours is in force. In the last step that goes on by itself.
func (w *world) rests(p testutil.Plan) bool {
	return !w.Deployment.Huge && (w.Deployment.Paused || p.Last(w.Step))
}

// end lets the world come to rest, and says what is missing of what its step, or its user, wants.
func (w *world) end(p testutil.Plan) string {
	if !w.Settle(p) {
		return "there is no rest"
	}
	d := w.Deployment
	s := w.Sets[d.Version]
	switch {
	case w.Done && (s.Ready != d.Replicas || w.ready() != d.Replicas):
		return "the release has not ended"
	case !w.Done && (!w.reached(p) || w.ready() < d.Replicas || s.Unready > 0 || !w.rests(p)):
		return "the step has not ended"
	}
	return ""
}

func (w *world) ready() (n int) {
	for _, s := range w.Sets {
		n += s.Ready
	}
	return n
}

type exploration struct {
	name  string
	plan  testutil.Plan
	pods  int
	start world
}

func explorations() []exploration {
	half := []int{50, 100}
	return []exploration{
		{"two pods, a surge", testutil.Plan{Surge: 1, Steps: half}, 2, world{}},
		{"two pods, no surge", testutil.Plan{Unavailable: 1, Steps: half}, 2, world{}},
		{"two pods, both", testutil.Plan{Surge: 1, Unavailable: 1, Steps: half}, 2, world{}},
		{"set back", testutil.Plan{Surge: 1, Steps: half}, 2, world{undo: 1}},
		{"three pods, both", testutil.Plan{Surge: 1, Unavailable: 1, Steps: []int{60, 100}}, 3, world{}},
		{"three pods, no surge", testutil.Plan{Unavailable: 1, Steps: []int{60, 100}}, 3, world{}},
		{"a third version, no surge", testutil.Plan{Unavailable: 1, Steps: half}, 2, world{third: 1}},
		{"a third version, a surge", testutil.Plan{Surge: 1, Steps: half}, 2, world{third: 1}},
		{"scaled up", testutil.Plan{Surge: 1, Steps: half}, 2, world{scale: [2]int{3}}},
		{"scaled down", testutil.Plan{Unavailable: 1, Steps: half}, 3, world{scale: [2]int{2}}},
		{"a pod fails", testutil.Plan{Surge: 1, Steps: half}, 2, world{crashes: 1}},
		{"four pods, by two", testutil.Plan{Surge: 2, Steps: half}, 4, world{}},
	}
}

// TestExploreTheSecondBatchOfAThirdVersion begins where two versions and a first pod of a third one are at rest: no second pod of the oldest
// version may go before those of the middle one.
func TestExploreTheSecondBatchOfAThirdVersion(t *testing.T) {
	e := exploration{plan: testutil.Plan{Unavailable: 1, Steps: []int{25, 50, 100}}}
	w := &e.start
	w.Release = testutil.Started(e.plan, 4)
	for _, user := range []func(){func() { w.Approve(e.plan) }, func() { w.Template(2) }, func() {}} {
		if wrong := w.end(e.plan); wrong != "" {
			t.Fatalf("%s: %+v", wrong, w)
		}
		user()
	}
	if sizes := w.Sizes(); sizes != [testutil.Versions]int{1, 2, 1} {
		t.Fatalf("the sizes are %v", sizes)
	}
	w.Oldest = 1 // the controller takes one by itself
	states, cut := explore(t, e, sample.Number(small, 300_000))
	t.Logf("%d states; all there are: %t", states, !cut)
}

// small is how many states a case may have each day.
const small = 11_000

// TestExploreBatches visits each order in which the controllers, we and the user can act: new pods stay within the step, ready ones
// within the limits of the user, and each step ends.
func TestExploreBatches(t *testing.T) {
	for i, e := range explorations() {
		t.Run(e.name, func(t *testing.T) {
			most := sample.Number(100_000, 300_000)
			if !sample.Has(i, 4) {
				most = small
			}
			e.start.Release = testutil.Started(e.plan, e.pods)
			states, cut := explore(t, e, most)
			t.Logf("%d states; all there are: %t", states, !cut)
		})
	}
}

// origin is the state before, and the step from there.
type origin struct {
	before world
	step   string
}

// history is how a state was reached.
func history(from map[world]origin, w world) (text string) {
	for o := from[w]; o.step != ""; o = from[w] {
		text = fmt.Sprintf("%s: %+v\n", o.step, w.Controllers) + text
		w = o.before
	}
	return text
}

// explore visits at most so many states, those with the fewest steps first.
func explore(t *testing.T, e exploration, most int) (states int, cut bool) {
	t.Helper()
	steps := append(machines(e.plan), users(e.plan)...)
	from := map[world]origin{e.start: {}}
	for todo := []world{e.start}; len(todo) > 0; todo = todo[1:] {
		w := todo[0]
		for _, s := range steps {
			next := w
			next.Sharing = false
			if broken := next.Do(e.plan, func(r *testutil.Release) { next.Release = *r; s.do(&next); *r = next.Release }); broken != "" {
				t.Fatalf("%s: %s\n%s", s.name, broken, history(from, w))
			}
			if _, known := from[next]; known {
				continue
			}
			if len(from) >= most {
				return len(from), true
			}
			from[next] = origin{w, s.name}
			todo = append(todo, next)
		}
		if len(from)%7 == 0 {
			rest := w
			if wrong := rest.end(e.plan); wrong != "" {
				t.Fatalf("%s\n%send  %+v", wrong, history(from, w), rest)
			}
		}
	}
	return len(from), false
}

// TestBatchesInRandomOrders does the same for large Deployments, in orders that follow from a seed.
func TestBatchesInRandomOrders(t *testing.T) {
	for seed := range uint64(sample.Number(300, 20_000)) {
		random := rand.New(rand.NewPCG(seed, uint64(sample.Day())))
		p := testutil.Plan{Surge: random.IntN(4), Unavailable: random.IntN(4), Steps: []int{10 + random.IntN(30), 40 + random.IntN(59), 100}}
		w := world{third: random.IntN(2), crashes: random.IntN(3)}
		if random.IntN(2) == 0 {
			w.scale = [2]int{1 + random.IntN(20), 1 + random.IntN(20)}
		}
		w.Release = testutil.Started(p, 1+random.IntN(20))
		walk(t, seed, random, p, w)
	}
}

func walk(t *testing.T, seed uint64, random *rand.Rand, p testutil.Plan, w world) {
	t.Helper()
	all, rare := machines(p), users(p)
	for range 400 {
		s := all[random.IntN(len(all))]
		if random.IntN(25) == 0 {
			s = rare[random.IntN(len(rare))]
		}
		w.Sharing = false
		before := w
		if broken := w.Do(p, func(r *testutil.Release) { w.Release = *r; s.do(&w); *r = w.Release }); broken != "" {
			t.Fatalf("seed %d, %+v: %s: %s\nbefore %+v\nafter  %+v", seed, p, s.name, broken, before, w)
		}
	}
	if wrong := w.end(p); wrong != "" {
		t.Fatalf("seed %d, %+v: %s: %+v", seed, p, wrong, w)
	}
}
