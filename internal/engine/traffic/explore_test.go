// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"fmt"
	"testing"

	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
)

// The phases of a step in the model.
const (
	before = iota
	upgrade
	routing
	paused
	ending
	over
)

// What somebody may do, once each.
const (
	refuse = 1 << iota
	unready
	edit
	dropRoute
	dropCanary
	abort
	disable
	jump
	another
	dies
)

var eventNames = map[int]string{
	refuse: "the gateway refuses", unready: "new pods fail", edit: "the user sets the route back", dropRoute: "the route is deleted", dropCanary: "the canary Service is deleted",
	abort: "abort", disable: "disable", jump: "jump back", another: "another version", dies: "the gateway is gone",
}

// model is a release with a gateway. None of it is remembered by what decides.
type model struct {
	style  v1beta1.RollingStyleType
	silent bool
	// phase, step and the ending are what the status has.
	phase, step, at int
	reason          Reason
	// old and fresh are pods; failing: new ones are not ready by themselves.
	old, fresh, failing bool
	// pinned and canary are Services; route is the weight in the stored route, -1 is the route of the user; beside is our own one: 1 leads
	// to the new version, 2 back.
	pinned, canary bool
	route, beside  int
	// seen and seenBeside are what the gateway does.
	seen, seenBeside int
	refusing, dead   bool
	gone             bool
	waited, overdue  bool
	// spoilt: somebody deleted a Service that had requests.
	spoilt bool
	left   int
}

func newModel(style v1beta1.RollingStyleType, silent bool, events int) model {
	return model{style: style, silent: silent, old: true, route: -1, seen: -1, waited: true, left: events}
}

// shares are those of the steps. In batches the last one leaves no old pod.
func (m model) shares() []Share {
	match := []v1beta1.HTTPRouteMatch{{Headers: []v1beta1.HTTPNamedMatch{{Name: "a", Value: "b"}}}}
	first := Share{Weight: ptr.To(int32(20))}
	if m.style == v1beta1.BlueGreenRollingStyle {
		first = Share{Weight: ptr.To(int32(0))}
	}
	return []Share{first, {Matches: match}, {}, {Weight: ptr.To(int32(100))}}
}

func (m model) last() bool { return m.step == len(m.shares())-1 }

// want are the route and our own one, as a share needs them.
func want(s Share) (int, int) {
	return int(ptr.Deref(s.Weight, -1)), len(s.Matches)
}

func (m model) world(goal Goal, share Share) World {
	route, beside := want(share)
	sight := Seen
	switch {
	case m.silent, m.gone && m.beside == 0:
		sight = Silent
	case m.dead:
		sight = Behind
	case m.refusing:
		sight = Refused
	case m.route != m.seen || m.beside != 0 && m.seenBeside != m.beside:
		sight = Behind
	}
	return World{
		Goal: goal, Share: share, StableReady: m.old, Empties: m.style == v1beta1.PartitionRollingStyle && m.last(), Waited: m.waited, Overdue: m.overdue,
		Stable: ServiceState{Exists: true, Pinned: m.pinned}, Canary: ServiceState{Exists: m.canary, Current: true, Ready: m.canary && m.fresh && !m.failing},
		Routes: []RouteState{{
			Name: "route", Exists: !m.gone, Current: m.route == route && (m.beside == beside || m.beside == 2 && beside == 0), Back: m.route == -1 && m.beside != 1,
			Rest: m.beside == 2, Sight: sight,
		}},
	}
}

// do is a write.
func (m model) do(act Act, share Share) model {
	switch act {
	case Done, Wait, Stuck:
		return m
	case PinStable, OpenStable:
		m.pinned = act == PinStable
	case MakeCanary, DropCanary:
		m.canary = act == MakeCanary
	case EndRoutes:
		m.route = -1
		if m.beside != 0 {
			m.beside = 2
		}
		if m.silent {
			m.beside = 0 // an Ingress cannot lead back
		}
	case ClearRoutes:
		m.beside = 0
	case SetRoutes:
		was := m.beside
		if m.route, m.beside = want(share); m.beside == 0 && was != 0 && !m.silent {
			m.beside = 2
		}
	}
	m.waited, m.overdue = false, false
	return m
}

// pass is the operator.
func (m model) pass() (model, Act) {
	share := m.shares()[m.step]
	step := func(goal Goal, next int) (model, Act) {
		act, _ := Next(m.world(goal, share))
		n := m.do(act, share)
		if act == Done {
			n.phase = next
		}
		return n, act
	}
	switch m.phase {
	case before:
		if share.None() {
			return step(Open, upgrade)
		}
		return step(Prepare, upgrade)
	case routing:
		if share.None() || m.style == v1beta1.PartitionRollingStyle && m.last() {
			m.phase = paused
			return m, Done
		}
		return step(Route, paused)
	case ending:
		return m.close()
	}
	return m, Wait
}

func (m model) close() (model, Act) {
	steps := Ending(m.style, m.reason)
	if steps[m.at] == v1beta1.FinalisingStepTypeEnd {
		m.phase = over
		if m.reason == Again {
			m.phase, m.step, m.at = before, 0, 0
		}
		return m, Done
	}
	goal, traffic := GoalOf(steps[m.at])
	if !traffic {
		return m, Wait // pods
	}
	share := Share{}
	if goal == Finish {
		share.Weight = ptr.To(int32(100))
	}
	act, _ := Next(m.world(goal, share))
	n := m.do(act, share)
	if act == Done {
		n.at++
	}
	return n, act
}

// pods is what the controllers of workloads do in the end; false: there is nothing to do.
func (m model) pods() (model, bool) {
	switch {
	case m.phase == upgrade:
		m.fresh, m.phase = true, routing
		m.old = m.old && (m.style != v1beta1.PartitionRollingStyle || !m.last())
		return m, true
	case m.phase != ending:
		return m, false
	}
	back := m.reason == Rollback || m.reason == Again
	switch Ending(m.style, m.reason)[m.at] {
	case v1beta1.FinalisingStepResumeWorkload:
		if m.old, m.fresh = back, !back; m.style == v1beta1.CanaryRollingStyle {
			m.fresh = true // until its Deployment is deleted
		}
	case v1beta1.FinalisingStepReleaseWorkloadControl:
		m.fresh = !back
	default:
		return m, false
	}
	m.at++
	return m, true
}

// events are what others may do now.
func (m model) events() map[string]model {
	all := map[string]model{}
	if n := m; !m.refusing && !m.dead && !m.silent {
		n.seen, n.seenBeside = m.route, m.beside
		all["the gateway sees"] = n
	}
	if n := m; !m.waited || m.dead && !m.overdue {
		n.waited, n.overdue = true, m.dead
		if m.silent {
			n.seen, n.seenBeside = m.route, m.beside
		}
		all["time"] = n
	}
	if n, some := m.pods(); some {
		all["pods"] = n
	}
	if n := m; m.phase == paused {
		if n.phase = before; m.last() {
			n.phase, n.at, n.reason = ending, 0, Success
		} else {
			n.step++
		}
		all["approve"] = n
	}
	if n := m; m.refusing {
		n.refusing = false
		all["the gateway accepts"] = n
	}
	if n := m; m.failing {
		n.failing = false
		all["new pods are ready"] = n
	}
	for event, name := range eventNames {
		if m.left&event != 0 {
			if n, can := m.happens(event); can {
				n.left &^= event
				all[name] = n
			}
		}
	}
	return all
}

// routed: requests go to the Service of the new version.
func (m model) routed() bool { return m.seen > 0 || m.seenBeside == 1 || m.route > 0 || m.beside == 1 }

func (m model) happens(event int) (model, bool) {
	switch event {
	case refuse:
		m.refusing = true
		return m, !m.silent && !m.dead
	case unready:
		m.failing = true
		return m, m.fresh
	case edit:
		m.route, m.waited = -1, false // managed fields tell when
		return m, !m.gone
	case dropRoute:
		m.gone, m.route, m.seen = true, -1, -1
	case dropCanary:
		m.spoilt = m.spoilt || m.routed() || m.route >= 0 || m.seen >= 0
		m.canary = false
	case dies:
		m.dead, m.seen, m.seenBeside, m.refusing = true, -1, 0, false
		return m, !m.silent
	case jump:
		m.step, m.phase = 0, before
		return m, m.phase < ending
	default:
		reason := map[int]Reason{abort: Rollback, disable: Leave, another: Again}[event]
		can := m.phase < ending && (event != another || m.style != v1beta1.BlueGreenRollingStyle)
		m.phase, m.at, m.reason = ending, 0, reason
		return m, can
	}
	return m, true
}

// broken says what must not be, after something happened to a state.
func (m model) broken(was model, act Act) string {
	gateway := m.seen > 0 || m.seenBeside == 1
	switch {
	case act == SetRoutes && (m.route > 0 || m.beside == 1) && (!was.canary || !was.fresh || was.failing):
		return "I1: requests were sent to a Service without a ready endpoint"
	case (m.route >= 0 || m.beside == 1 || m.seen >= 0 || m.seenBeside == 1) && !m.canary && !m.spoilt:
		return "I2: a route names a Service that is not there"
	case m.pinned && !m.old:
		return "I3: a pinned Service has no pods"
	case gateway && !m.fresh && !m.spoilt:
		return "I8: pods left the new version before its requests"
	case was.old && !m.old && m.phase == ending && m.reason == Success && m.style == v1beta1.BlueGreenRollingStyle && m.seen != 100 && m.route == 100 && !m.dead:
		return "old pods left before their requests"
	case m.phase == over && (m.route >= 0 || m.beside != 0 || m.pinned || m.canary):
		return "something is left"
	}
	return ""
}

// end lets everything go on, and a user who aborts what is stuck.
func (m model) end() (model, bool) {
	m.left, m.refusing, m.failing = 0, false, false
	for range 200 {
		if m.phase == over {
			return m, true
		}
		n, act := m.pass()
		if act == Stuck && n.phase < ending || act == Wait && m.dead && n.phase < ending {
			n.phase, n.at, n.reason = ending, 0, Rollback
		}
		m = n
		for _, name := range []string{"the gateway sees", "time", "pods", "approve"} {
			if n, can := m.events()[name]; can {
				m = n
			}
		}
	}
	return m, false
}

func TestExploreOrder(t *testing.T) {
	cases := map[string]int{
		"alone": 0, "abort": abort | unready, "refused": refuse | abort | unready, "edited": edit | abort | refuse, "deleted": dropRoute | dropCanary | abort,
		"disabled": disable | edit | unready, "another version": another | edit | abort | refuse, "jump": jump | abort | refuse | unready, "no gateway": dies | abort | disable,
	}
	for _, style := range []v1beta1.RollingStyleType{v1beta1.PartitionRollingStyle, v1beta1.CanaryRollingStyle, v1beta1.BlueGreenRollingStyle} {
		for _, silent := range []bool{false, true} {
			for name, events := range cases {
				t.Run(fmt.Sprintf("%s, silent %v, %s", style, silent, name), func(t *testing.T) {
					explore(t, newModel(style, silent, events))
				})
			}
		}
	}
}

func explore(t *testing.T, start model) {
	t.Helper()
	from := map[model]model{start: start}
	how := map[model]string{}
	todo := []model{start}
	trail := func(m model) (text string) {
		for ; from[m] != m; m = from[m] {
			text = fmt.Sprintf("\n%-30s %+v", how[m], m) + text
		}
		return text
	}
	for len(todo) > 0 {
		m := todo[0]
		todo = todo[1:]
		passed, act := m.pass()
		next := m.events()
		next["pass: "+string(act)] = passed
		for name, n := range next {
			did := Act("")
			if n == passed {
				did = act
			}
			if _, visited := from[n]; !visited {
				from[n], how[n] = m, name
				todo = append(todo, n)
			}
			if wrong := n.broken(m, did); wrong != "" {
				t.Fatalf("%s, by %s%s\n%-30s %+v", wrong, name, trail(m), name, n)
			}
		}
		if last, ended := m.end(); !ended {
			t.Fatalf("no end%s\nat the end %+v", trail(m), last)
		}
	}
	t.Logf("%d states", len(from))
}
