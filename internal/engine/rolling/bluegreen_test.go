// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package rolling_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kruise-operator/kruise-operator/internal/engine/rolling"
	"github.com/kruise-operator/kruise-operator/internal/engine/rolling/testutil"
	"github.com/kruise-operator/kruise-operator/internal/testutil/sample"
)

// phase is what is stored of a release with two sets of pods.
type phase int

const (
	preparing phase = iota
	batches
	leaving  // requests are on their way, and pods stay
	resuming // the Deployment gets its own numbers back
	restored
	over
)

// route is where requests go.
type route int

const (
	toOld  route = iota
	toBoth       // by their share
	toNew
	toAll // the Service of the user has all pods
)

// why a release ends.
type why int

const (
	success why = iota
	rollback
	leave
	again
)

// pair is a release with two sets of pods, what requests it gets, and what its user may still do. It is comparable.
type pair struct {
	testutil.Controllers
	phase phase
	why   why
	step  int
	route route
	// Pending was decided, and valid says that its object has not changed since.
	pending rolling.Step
	valid   bool
	// shrunk: replicas got fewer. scaled: they changed. The user may still do the rest.
	shrunk, scaled            bool
	third, undo, ends, failed int
	scale                     [2]int
}

// Writes that only BatchReleases know.
const (
	control rolling.Verb = "control"
	restore rolling.Verb = "restore"
)

func (w *pair) view(p testutil.Plan) rolling.View {
	r := testutil.Release{Controllers: w.Controllers, Step: w.step}
	return r.View(p)
}

// decide is the BatchRelease.
func (w *pair) decide(p testutil.Plan) {
	v := w.view(p)
	step := rolling.Step{Verb: rolling.Wait}
	switch w.phase {
	case preparing:
		if !v.Observed {
			break
		}
		if step = rolling.Slowed(v); step.Verb == rolling.Reached {
			step = rolling.Step{Verb: control}
		}
	case batches, leaving:
		if w.phase == batches {
			step = rolling.Beside(v)
		}
	case resuming:
		if !v.CaughtUp {
			break
		}
		if step = (rolling.Step{Verb: restore}); w.why == rollback {
			if down := rolling.Withdraw(v); down.Verb != rolling.Reached {
				step = down
			}
		}
	case restored:
		if !v.Observed {
			break
		}
		if step = rolling.Ended(v); step.Verb == rolling.Reached && (w.why != success || v.Alone()) {
			w.phase, w.route = over, toAll
		}
	case over:
	}
	if w.pending, w.valid = step, true; step.Verb == rolling.Wait || step.Verb == rolling.Reached {
		w.pending, w.valid = rolling.Step{}, false
	}
}

// act carries out what was decided. The server refuses it when the object has changed.
func (w *pair) act(p testutil.Plan) {
	step, valid := w.pending, w.valid
	w.pending, w.valid = rolling.Step{}, false
	if !valid {
		return
	}
	d := w.Deployment
	switch step.Verb {
	case control:
		if w.phase = batches; !d.Huge {
			d.Paused, d.Huge, d.Surge, d.Unavailable = true, true, 1, 0
		}
		w.Write(d)
	case restore:
		w.phase = restored
		d.Paused, d.Huge, d.Surge, d.Unavailable = false, false, p.Surge, p.Unavailable
		w.Write(d)
	case rolling.Move:
		d.Paused, d.Huge, d.Surge, d.Unavailable = false, true, step.Surge, rolling.MaxUnavailable(step.Surge)
		w.Write(d)
	default:
		i := step.Set
		if i >= d.Version {
			i++
		}
		s := w.Sets[i]
		switch step.Verb {
		case rolling.Slow:
			s.Huge = true
		case rolling.Quick:
			s.Huge = false
		case rolling.Note:
			s.Replicas, s.Desired = step.Replicas, d.Replicas
		default:
			s.Replicas = step.Replicas
		}
		w.WriteSet(i, s)
	}
}

// begun: the batch of the present step is done.
func (w *pair) begun(p testutil.Plan) bool {
	s := w.Sets[w.Deployment.Version]
	return w.phase == batches && rolling.Beside(w.view(p)).Verb == rolling.Reached && s.Status.Ready >= p.Limit(w.step, w.Deployment.Replicas)
}

// onPair are the steps of all who act without a user.
func onPair(p testutil.Plan) []func(*pair) string {
	var all []func(*pair) string
	for _, m := range testutil.Machines(p) {
		if m.Name == "we decide" || m.Name == "we act" || m.Name == "we take back" {
			continue
		}
		all = append(all, func(w *pair) string {
			r := testutil.Release{Controllers: w.Controllers}
			m.Do(&r)
			w.Controllers = r.Controllers
			return m.Name
		})
	}
	return append(all,
		func(w *pair) string { w.decide(p); return "we decide" },
		func(w *pair) string { w.act(p); return "we act" },
		func(w *pair) string {
			switch {
			case w.phase == leaving && w.why == success:
				w.phase, w.route = resuming, toNew
			case w.phase == leaving && w.why == rollback:
				w.phase, w.route = resuming, toOld
			case w.phase == leaving && w.why == again:
				w.phase, w.route = preparing, toOld
			case w.phase == leaving:
				w.phase, w.route = resuming, toAll
			}
			return "requests leave"
		},
	)
}

// byUser are the steps of the user, and of faults.
func byUser(p testutil.Plan) []func(*pair) string {
	set := func(w *pair, version int) {
		d := w.Deployment
		d.Version, d.Paused = version, true
		w.Write(d)
	}
	live := func(w *pair) bool { return w.phase == preparing || w.phase == batches }
	all := []func(*pair) string{
		func(w *pair) string {
			if w.begun(p) && w.route == toOld {
				w.route = toBoth
			}
			return "the step gets requests"
		},
		func(w *pair) string {
			switch {
			case !w.begun(p):
			case w.step+1 < len(p.Steps):
				w.step++
			default:
				w.phase, w.why = leaving, success
			}
			return "the user approves"
		},
		func(w *pair) string {
			if w.third > 0 && live(w) {
				w.third--
				w.phase, w.why, w.step = leaving, again, 0
				set(w, 2)
			}
			return "the user applies a third version"
		},
		func(w *pair) string {
			if w.undo > 0 && live(w) {
				w.undo--
				w.phase, w.why = leaving, rollback
				set(w, 0)
			}
			return "the user sets the template back"
		},
		func(w *pair) string {
			if w.ends > 0 && live(w) {
				w.ends--
				w.phase, w.why = leaving, leave
			}
			return "the user ends the control"
		},
		func(w *pair) string { w.pending, w.valid = rolling.Step{}, false; return "we crash" },
	}
	for i := range most2 {
		all = append(all, func(w *pair) string {
			if to := w.scale[i]; to > 0 && w.phase < over && (i == 0 || w.scale[0] == 0) {
				w.shrunk, w.scaled = w.shrunk || to < w.Deployment.Replicas, true
				w.scale[i] = 0
				d := w.Deployment
				d.Replicas = to
				w.Write(d)
			}
			return "the user scales"
		})
	}
	for i := range testutil.Versions {
		all = append(all, func(w *pair) string {
			if w.failed > 0 && w.Sets[i].Ready > 0 {
				w.failed--
				w.Sets[i].Ready--
				w.Sets[i].Unready++
			}
			return fmt.Sprintf("a pod of set %d fails", i)
		})
	}
	return all
}

// most2 is how often a user scales at most.
const most2 = 2

// do carries out a step, and says what is broken then.
func (w *pair) do(p testutil.Plan, step func(*pair) string) (name, broken string) {
	before := *w
	w.Sharing = false
	name = step(w)
	if w.valid && w.pending == before.pending {
		onDeployment := w.pending.Verb == control || w.pending.Verb == restore || w.pending.Verb == rolling.Move
		switch {
		case w.Deployment.Version != before.Deployment.Version || w.phase != before.phase:
			w.valid = false
		case onDeployment:
			w.valid = w.Deployment == before.Deployment && w.Observed == before.Observed && w.Total == before.Total
		default:
			i := w.pending.Set
			if i >= w.Deployment.Version {
				i++
			}
			a, b := w.Sets[i], before.Sets[i]
			a.Ready, a.Unready, b.Ready, b.Unready = 0, 0, 0, 0
			w.valid = a == b
		}
	}
	return name, w.broken(p, before)
}

func podsOf(s testutil.Set) int { return s.Ready + s.Unready }

// broken compares with the state before.
func (w *pair) broken(p testutil.Plan, before pair) string {
	replicas := min(w.Deployment.Replicas, w.Seen.Replicas)
	old, was := w.Sets[0].Replicas, before.Sets[0].Replicas
	// After a change of replicas the controller shares by proportion, and may leave too few: they get their pods back from us.
	shared := w.scaled && w.Sharing
	if w.route != toNew && w.route != toAll && old < was && old < replicas && !shared {
		return fmt.Sprintf("%d old pods are left of %d while requests go there", old, replicas)
	}
	fresh := before.Deployment.Version
	if w.route != toOld && w.route != toAll && fresh > 0 && w.Sets[fresh].Replicas < before.Sets[fresh].Replicas && !w.shrunk {
		return "new pods go while requests go there"
	}
	for v := 1; v < testutil.Versions; v++ {
		if w.route == toBoth && w.Sets[v].Replicas < before.Sets[v].Replicas && !w.shrunk {
			return "pods of a version in the middle go while requests go there"
		}
	}
	most := 0
	for _, r := range []int{w.Deployment.Replicas, w.Seen.Replicas, before.Deployment.Replicas, before.Seen.Replicas} {
		most = max(most, p.Limit(w.step, r))
	}
	v := w.Deployment.Version
	if grown := w.Sets[v].Replicas; v > 0 && (w.phase == preparing || w.phase == batches) && grown > before.Sets[v].Replicas && grown > most && !w.Scaled && !w.scaled {
		return fmt.Sprintf("%d new pods, and the step allows %d", grown, most)
	}
	return ""
}

// end lets the world come to rest, and says what is missing.
func (w *pair) end(p testutil.Plan) string {
	rest := false
	for range 300 {
		before := *w
		for _, m := range onPair(p) {
			if _, broken := w.do(p, m); broken != "" {
				return broken
			}
		}
		if rest = *w == before; rest {
			break
		}
	}
	d := w.Deployment
	s := w.Sets[d.Version]
	switch {
	case !rest:
		return "there is no rest"
	case w.phase == over && (s.Ready != d.Replicas || d.Paused || d.Huge || d.Surge != p.Surge):
		return "the release has not ended"
	case w.phase == over && w.anyHuge():
		return "a set has numbers of the release"
	case w.phase == over:
		for i, other := range w.Sets {
			if i != d.Version && podsOf(other) > 0 {
				return "pods of another version are left"
			}
		}
	case w.phase != batches:
		return "the release stands still"
	case !w.begun(p) || w.Sets[0].Ready != d.Replicas || d.Version == 2 && podsOf(w.Sets[1]) > 0:
		return "the step has not ended"
	}
	return ""
}

func (w *pair) anyHuge() bool {
	for _, s := range w.Sets {
		if s.Huge {
			return true
		}
	}
	return false
}

func startedPair(p testutil.Plan, replicas int, w pair) pair {
	w.Controllers = testutil.Started(p, replicas).Controllers
	return w
}

type pairCase struct {
	name  string
	plan  testutil.Plan
	pods  int
	start pair
}

func pairCases() []pairCase {
	half, full := []int{50, 100}, []int{100}
	return []pairCase{
		{"one pod", testutil.Plan{Surge: 1, Steps: full}, 1, pair{undo: 1, ends: 1}},
		{"two pods", testutil.Plan{Surge: 1, Steps: half}, 2, pair{}},
		{"two pods without a surge", testutil.Plan{Unavailable: 1, Steps: full}, 2, pair{ends: 1}},
		{"set back", testutil.Plan{Surge: 1, Steps: full}, 2, pair{undo: 1}},
		{"set back at half", testutil.Plan{Unavailable: 1, Steps: half}, 3, pair{undo: 1}},
		{"a third version", testutil.Plan{Surge: 1, Steps: full}, 2, pair{third: 1}},
		{"a third version, set back", testutil.Plan{Surge: 1, Steps: full}, 1, pair{third: 1, undo: 1}},
		{"scaled up", testutil.Plan{Surge: 1, Steps: full}, 2, pair{scale: [2]int{3}}},
		{"scaled down", testutil.Plan{Surge: 1, Steps: half}, 3, pair{scale: [2]int{2}}},
		{"scaled, and set back", testutil.Plan{Surge: 1, Steps: full}, 2, pair{scale: [2]int{3}, undo: 1}},
		{"a pod fails", testutil.Plan{Surge: 1, Steps: full}, 2, pair{failed: 1, undo: 1}},
	}
}

// TestExploreTwoSets visits each order in which the controllers, gateways, we and the user can act: old pods stay while requests go to
// them, requests leave before pods, and each release ends.
func TestExploreTwoSets(t *testing.T) {
	for i, c := range pairCases() {
		t.Run(c.name, func(t *testing.T) {
			most := sample.Number(20_000, 300_000)
			if !sample.Has(i, 4) {
				most = small / 4
			}
			c.start = startedPair(c.plan, c.pods, c.start)
			states, cut := explorePair(t, c, most)
			t.Logf("%d states; all there are: %t", states, !cut)
		})
	}
}

type pairOrigin struct {
	before pair
	step   string
}

func explorePair(t *testing.T, c pairCase, most int) (states int, cut bool) {
	t.Helper()
	steps := append(onPair(c.plan), byUser(c.plan)...)
	from := map[pair]pairOrigin{c.start: {}}
	history := func(w pair) (text string) {
		for o := from[w]; o.step != ""; o = from[w] {
			text = fmt.Sprintf("%s: %s\n", o.step, w) + text
			w = o.before
		}
		return text
	}
	for todo := []pair{c.start}; len(todo) > 0; todo = todo[1:] {
		w := todo[0]
		for _, s := range steps {
			next := w
			name, broken := next.do(c.plan, s)
			if broken != "" {
				t.Fatalf("%s: %s\n%s%s", name, broken, history(w), next)
			}
			if _, known := from[next]; known {
				continue
			}
			if len(from) >= most {
				return len(from), true
			}
			from[next] = pairOrigin{w, name}
			todo = append(todo, next)
		}
		if len(from)%7 == 0 {
			rest := w
			if wrong := rest.end(c.plan); wrong != "" {
				t.Fatalf("%s\n%send  %s", wrong, history(w), rest)
			}
		}
	}
	return len(from), false
}

// TestTwoSetsInRandomOrders does the same for large Deployments, in orders that follow from a seed.
func TestTwoSetsInRandomOrders(t *testing.T) {
	for seed := range uint64(sample.Number(300, 20_000)) {
		random := rand.New(rand.NewPCG(seed, uint64(sample.Day())))
		p := testutil.Plan{Surge: random.IntN(4), Unavailable: 1 + random.IntN(3), Steps: []int{10 + random.IntN(30), 40 + random.IntN(59), 100}}
		w := pair{third: random.IntN(2), undo: random.IntN(2), ends: random.IntN(2), failed: random.IntN(3)}
		if random.IntN(2) == 0 {
			w.scale = [2]int{1 + random.IntN(20), 1 + random.IntN(20)}
		}
		w = startedPair(p, 1+random.IntN(20), w)
		all, rare := onPair(p), byUser(p)
		for range 500 {
			s := all[random.IntN(len(all))]
			if random.IntN(12) == 0 {
				s = rare[random.IntN(len(rare))]
			}
			before := w
			if name, broken := w.do(p, s); broken != "" {
				t.Fatalf("seed %d, %+v: %s: %s\nbefore %s\nafter  %s", seed, p, name, broken, before, w)
			}
		}
		if wrong := w.end(p); wrong != "" {
			t.Fatalf("seed %d, %+v: %s: %s", seed, p, wrong, w)
		}
	}
}

// String is short.
func (w pair) String() string {
	text := fmt.Sprintf("%+v phase %d why %d step %d route %d observed %t fresh %t pending %+v %t; ", w.Deployment, w.phase, w.why, w.step, w.route, w.Observed, w.Fresh, w.pending, w.valid)
	for i, s := range w.Sets {
		if s.Exists {
			text += fmt.Sprintf("set %d: %d of %d, huge %t, status %v, fresh %t; ", i, podsOf(s), s.Replicas, s.Huge, s.Status, w.FreshSets[i])
		}
	}
	return text
}

// TestAnOldVersionGetsItsPodsBack: a change of replicas took them, all of them even, while requests go there. A Deployment whose only
// ReplicaSet kept the note of another size would stand still.
func TestAnOldVersionGetsItsPodsBack(t *testing.T) {
	for name, tc := range map[string]struct {
		old  []rolling.Set
		want rolling.Step
	}{
		"some are gone":         {[]rolling.Set{{Replicas: 2, Desired: 4, Slow: true}}, rolling.Step{Verb: rolling.Note, Replicas: 4}},
		"all are gone":          {[]rolling.Set{{Desired: 4, Slow: true}}, rolling.Step{Verb: rolling.Note, Replicas: 4}},
		"before others go":      {[]rolling.Set{{Desired: 4, Slow: true}, {Replicas: 4, Desired: 4, Slow: true}}, rolling.Step{Verb: rolling.Note, Replicas: 4}},
		"with the former size":  {[]rolling.Set{{Replicas: 4, Desired: 7, Slow: true}}, rolling.Step{Verb: rolling.Note, Replicas: 4}},
		"nothing has to change": {[]rolling.Set{{Replicas: 4, Desired: 4, Slow: true}}, rolling.Step{Verb: rolling.Move, Surge: 2}},
	} {
		v := rolling.View{Replicas: 4, Limit: 2, Observed: true, CaughtUp: true, Old: tc.old}
		if got := rolling.Beside(v); got != tc.want {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}
