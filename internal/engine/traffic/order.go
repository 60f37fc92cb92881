// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"fmt"
	"slices"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
)

// Goal is what requests need at a point of a release.
type Goal int

// The goals. Pods of a step come between Prepare and Route.
const (
	// Prepare keeps new pods from requests before they come.
	Prepare Goal = iota
	// Route gives the new version its share.
	Route
	// Open is for a step without traffic: the Service of the user has all pods, and routes are as before the release.
	Open
	// Restore only opens the Service of the user.
	Restore
	// Return only sets routes back.
	Return
	// Remove only deletes the Service of the new version.
	Remove
	// Finish gives the new version everything before the old one ends. What is not there is done.
	Finish
)

// Up is true if new pods are to get requests.
func (g Goal) Up() bool { return g == Prepare || g.Routes() }

// Routes is true if new pods are to get requests now.
func (g Goal) Routes() bool { return g == Route || g == Finish }

// GoalOf is the goal of a step of ending a release; false: it is not about requests. Finish goes with a weight of 100.
func GoalOf(step v1beta1.FinalisingStep) (goal Goal, found bool) {
	goal, found = map[v1beta1.FinalisingStep]Goal{
		v1beta1.FinalisingStepRestoreStableService: Restore, v1beta1.FinalisingStepRouteTrafficToStable: Return,
		v1beta1.FinalisingStepRouteTrafficToNew: Finish, v1beta1.FinalisingStepRemoveCanaryService: Remove,
	}[step]
	return goal, found
}

// World is what was read.
type World struct {
	Goal  Goal
	Share Share
	// OneService: there is no Service for the new version, and that of the user is not touched.
	OneService bool
	// Stable is the Service of the user, Canary that of the new version.
	Stable, Canary ServiceState
	// StableReady: a pod of the old version is ready.
	StableReady bool
	// Empties: after this step no pod of the old version is left.
	Empties bool
	// Ahead: more pods are new than the step allows, as after a jump back, and the last old one may go. So no Service is to have those alone,
	// and nobody looks whether they are ready.
	Ahead  bool
	Routes []RouteState
	// Waited: the grace period is over since the last write of anybody. Overdue: so is the time in which any gateway would have said something.
	Waited, Overdue bool
}

// ServiceState is that of a Service.
type ServiceState struct {
	Exists bool
	// Pinned: it has the pods of the old version only. Current: it has those of the new version.
	Pinned, Current bool
	// Ready: an endpoint is.
	Ready bool
}

// RouteState is that of one route, with the objects beside it.
type RouteState struct {
	Name string
	// Exists: the route of the user does.
	Exists bool
	// First: others name what it defines, so it is written before them, and set back after them.
	First bool
	// Current: all is as the share needs it. Back: nothing sends requests to the new version, and the route is as before the release.
	Current, Back bool
	// Rest: something beside it is left to be deleted. Marked: its managed fields name the operator.
	Rest, Marked bool
	// Fault is a Refusal of its provider.
	Fault string
	Sight Sight
	Why   string
}

// Act is the one thing to do next.
type Act string

// The acts.
const (
	// Done: the goal is reached.
	Done Act = "Done"
	// Wait for the reason that is given.
	Wait Act = "Wait"
	// Stuck: the user has to do something.
	Stuck Act = "Stuck"
	// PinStable gives the Service of the user the pods of the old version only.
	PinStable Act = "PinStable"
	// OpenStable gives it all pods.
	OpenStable Act = "OpenStable"
	// MakeCanary creates or aligns the Service of the new version.
	MakeCanary Act = "MakeCanary"
	// DropCanary deletes it.
	DropCanary Act = "DropCanary"
	// SetRoutes gives the new version its share.
	SetRoutes Act = "SetRoutes"
	// EndRoutes sets routes back.
	EndRoutes Act = "EndRoutes"
	// ClearRoutes deletes what is left beside them.
	ClearRoutes Act = "ClearRoutes"
	// DisownRoutes takes the operator out of their managed fields.
	DisownRoutes Act = "DisownRoutes"
)

// Next is the one thing to do, and why nothing is done. The order of the rules is the order of the writes.
func Next(w World) (Act, string) {
	act, why := w.next()
	switch act {
	case PinStable, OpenStable, MakeCanary, DropCanary, SetRoutes:
		if !w.Waited {
			return Wait, "the last change has to reach the gateway"
		}
	}
	return act, why
}

func (w World) next() (Act, string) {
	switch w.Goal {
	case Prepare:
		return w.prepare()
	case Route:
		return w.route()
	case Open:
		return first(w.restore, w.back, w.remove)
	case Restore:
		return first(w.restore)
	case Return:
		return first(w.back)
	case Finish:
		w.Routes = slices.DeleteFunc(slices.Clone(w.Routes), func(r RouteState) bool { return !r.Exists || r.Fault != "" })
		if len(w.Routes) == 0 || !w.Stable.Exists {
			return Done, ""
		}
		return w.route()
	default:
		return first(w.back, w.remove) // routes never name what is not there
	}
}

// first is the first act of a list that is not done.
func first(parts ...func() (Act, string)) (Act, string) {
	for _, part := range parts {
		if act, why := part(); act != Done {
			return act, why
		}
	}
	return Done, ""
}

// prepare pins the Service of the user. Where the old version ends, it opens it instead: nothing would be behind it.
func (w World) prepare() (Act, string) {
	switch {
	case w.OneService || w.Share.None():
		return Done, ""
	case !w.Stable.Exists:
		return Stuck, "there is no Service of the workload"
	case w.Empties:
		return w.restore()
	case !w.Stable.Pinned && w.StableReady:
		return PinStable, ""
	}
	return w.settled()
}

// route is the way up: Services, then routes, then the gateway.
func (w World) route() (Act, string) {
	for _, r := range w.Routes {
		if !r.Exists {
			return Stuck, "there is no " + r.Name
		}
		if r.Fault != "" {
			return Stuck, r.Fault
		}
	}
	if !w.OneService {
		if act, why := w.services(); act != Done {
			return act, why
		}
	}
	if len(Turn(w.Routes, SetRoutes)) > 0 {
		return SetRoutes, ""
	}
	return first(func() (Act, string) { return w.seen(w.Goal == Finish) }, w.clear)
}

// services are both there, and each has pods.
func (w World) services() (Act, string) {
	switch {
	case !w.Stable.Exists:
		return Stuck, "there is no Service of the workload"
	case w.Canary.Exists && !w.Canary.Current && slices.ContainsFunc(w.Routes, func(r RouteState) bool { return !r.Back }):
		return w.led() // they lead to another version
	case !w.Canary.Exists || !w.Canary.Current:
		return MakeCanary, ""
	case w.Share.Routed() && !w.Canary.Ready:
		return Wait, "no pod of the new version is behind its Service"
	case !w.Stable.Pinned && w.StableReady && !w.Empties:
		return PinStable, ""
	}
	return Done, ""
}

func (w World) restore() (Act, string) {
	if w.Stable.Exists && w.Stable.Pinned && !w.OneService {
		return OpenStable, ""
	}
	return w.settled()
}

// settled: the last change of a Service has reached the gateway.
func (w World) settled() (Act, string) {
	if !w.Waited {
		return Wait, "the last change has to reach the gateway"
	}
	return Done, ""
}

// back is the way down. What is not there is done.
func (w World) back() (Act, string) {
	for _, r := range w.Routes {
		if !r.Back && r.Fault != "" {
			return Stuck, r.Fault
		}
	}
	return first(w.led, w.clear, w.disown)
}

// led: requests go as before the release, and the gateways have seen that.
func (w World) led() (Act, string) {
	turn := Turn(w.Routes, EndRoutes)
	if len(turn) > 0 && !w.Routes[turn[0]].First {
		return EndRoutes, ""
	}
	if act, why := w.seen(true); act != Done || len(turn) == 0 {
		return act, why
	}
	return EndRoutes, ""
}

// Turn are the routes that SetRoutes or EndRoutes writes next.
func Turn(routes []RouteState, act Act) []int {
	var early, late []int
	for i, r := range routes {
		switch {
		case act == SetRoutes && r.Current, act == EndRoutes && r.Back:
		case r.First == (act == SetRoutes):
			early = append(early, i)
		default:
			late = append(late, i)
		}
	}
	if len(early) > 0 {
		return early
	}
	return late
}

// disown comes last: until then managed fields tell when routes were written.
func (w World) disown() (Act, string) {
	if slices.ContainsFunc(w.Routes, func(r RouteState) bool { return r.Marked }) {
		return DisownRoutes, ""
	}
	return Done, ""
}

// clear deletes what a gateway no longer needs.
func (w World) clear() (Act, string) {
	if slices.ContainsFunc(w.Routes, func(r RouteState) bool { return r.Rest }) {
		return ClearRoutes, ""
	}
	return Done, ""
}

func (w World) remove() (Act, string) {
	if w.Canary.Exists && !w.OneService {
		return DropCanary, ""
	}
	return Done, ""
}

// seen waits for the gateways. One that is gone must not keep a Rollout from ending.
func (w World) seen(down bool) (Act, string) {
	for _, r := range w.Routes {
		why := fmt.Sprintf("%s: %s", r.Name, r.Why)
		switch {
		case down && w.Overdue:
		case r.Sight == Behind:
			return Wait, why
		case r.Sight == Refused:
			return Stuck, why
		case r.Sight == Silent && !w.Waited:
			return Wait, why
		case down && r.Marked && !w.Waited:
			// Traefik confirms a route up to two seconds before it follows it, and pods are about to go.
			return Wait, r.Name + ": the gateway has seen the change, and may still have to apply it"
		}
	}
	return Done, ""
}

// Reason is why a release ends.
type Reason string

// The reasons.
const (
	// Success is a release whose steps are done.
	Success Reason = "success"
	// Rollback is a template that was set back.
	Rollback Reason = "rollback"
	// Leave is a Rollout that is disabled or deleted.
	Leave Reason = "disable or delete"
	// Again is another version in the middle: the old one stays the old one, and keeps its Service.
	Again Reason = "another version"
)

// Ending is the order of ending a release with traffic. On the way back requests leave the new version before selectors open; after a
// success selectors open first, so that all pods are there before routes change.
func Ending(style v1beta1.RollingStyleType, reason Reason) []v1beta1.FinalisingStep {
	const (
		open, stable, fresh = v1beta1.FinalisingStepRestoreStableService, v1beta1.FinalisingStepRouteTrafficToStable, v1beta1.FinalisingStepRouteTrafficToNew
		remove              = v1beta1.FinalisingStepRemoveCanaryService
		resume, release     = v1beta1.FinalisingStepResumeWorkload, v1beta1.FinalisingStepReleaseWorkloadControl
		end                 = v1beta1.FinalisingStepTypeEnd
	)
	blueGreen := style == v1beta1.BlueGreenRollingStyle
	switch {
	case reason == Again:
		return []v1beta1.FinalisingStep{stable, release, remove, end}
	case blueGreen && reason == Success:
		return []v1beta1.FinalisingStep{fresh, open, resume, stable, remove, release, end}
	case blueGreen && reason == Rollback:
		return []v1beta1.FinalisingStep{stable, resume, open, remove, release, end}
	case reason == Rollback:
		return []v1beta1.FinalisingStep{stable, resume, release, open, remove, end}
	}
	return []v1beta1.FinalisingStep{open, stable, remove, resume, release, end}
}
