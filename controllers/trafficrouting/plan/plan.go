// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan decides the next step of a TrafficRouting. It has no client, clock or log.
package plan

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kruise-operator/kruise-operator/api/rollouts/shared"
	"github.com/kruise-operator/kruise-operator/api/rollouts/v1alpha1"
	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic"
)

const (
	// gateways is when to look again at gateways: nobody tells what they do.
	gateways = 2 * time.Second
	// stuck is the same while the user has to do something.
	stuck = 10 * time.Second
	// soon is when to go on after a stored phase.
	soon = 10 * time.Millisecond
	// mostNames is how many Rollouts a message names.
	mostNames = 5
)

// Kind is the kind of TrafficRoutings.
func Kind() schema.GroupVersionKind { return v1alpha1.GroupVersion().WithKind("TrafficRouting") }

// Named are the Rollouts in finalizers.
func Named(finalizers []string) (all []string) {
	for _, finalizer := range finalizers {
		if name, found := strings.CutPrefix(finalizer, shared.FinalizerInUse); found {
			all = append(all, name)
		}
	}
	return all
}

// Share is which requests are for new versions.
func Share(s v1alpha1.TrafficStrategy) traffic.Share {
	share := traffic.Share{Weight: s.Weight, Headers: s.RequestHeaderModifier}
	for _, match := range s.Matches {
		share.Matches = append(share.Matches, v1beta1.HTTPRouteMatch{Headers: match.Headers})
	}
	return share
}

// Names has one Service for both versions.
func Names(o *v1alpha1.TrafficRouting) traffic.Names {
	service := o.Spec.ObjectRef[0].Service
	return traffic.Names{Rollout: o.Name, Stable: service, Canary: service}
}

// Snapshot is everything a pass has read.
type Snapshot struct {
	Now time.Time
	// Users are the Rollouts in finalizers that are there, and name the TrafficRouting.
	Users []string
	// World is what was read of routes, for what was Wanted; nil when that was nothing.
	World *traffic.World
	// Podless says which pods have to become ready before requests are led to them; empty: none.
	Podless string
	// Corrected is a route that somebody else changed after the operator; empty: none.
	Corrected string
	// Fault is a write that the API server refuses.
	Fault string
}

// Decision is what comes next.
type Decision struct {
	Status v1alpha1.TrafficRoutingStatus
	// Finalizers are those that it should have. They come first.
	Finalizers []string
	// Act is the one thing to do about routes; empty: nothing.
	Act traffic.Act
	// After is when time alone may change the answer; 0 is never.
	After  time.Duration
	Events []planning.Event
}

// Wanted is what routes have to become by the stored status; false: nobody has to look.
func Wanted(o *v1alpha1.TrafficRouting, users []string) (traffic.Goal, bool) {
	switch {
	case len(o.Spec.ObjectRef) == 0: // OpenKruise stores that
		return 0, false
	case o.Status.Phase == v1alpha1.TrafficRoutingPhaseTerminating:
		return traffic.Return, true
	case o.DeletionTimestamp != nil:
		return 0, false
	case o.Status.Phase == v1alpha1.TrafficRoutingPhaseFinalizing:
		return traffic.Return, len(users) == 0
	case o.Status.Phase == v1alpha1.TrafficRoutingPhaseProgressing:
		return traffic.Route, len(users) > 0 && !routed(o)
	}
	return 0, false
}

// routed: the present spec is in force.
func routed(o *v1alpha1.TrafficRouting) bool {
	c, _ := conditions.Find(conditions.From(o.Status.Conditions), v1alpha1.TrafficRoutingReconciling)
	return c.Reason == v1alpha1.ReasonRouted && o.Status.ObservedGeneration == o.Generation
}

// Since is when the phase began, or routes were last written.
func Since(o *v1alpha1.TrafficRouting) time.Time {
	c, found := conditions.Find(conditions.From(o.Status.Conditions), v1alpha1.TrafficRoutingReconciling)
	if !found {
		return o.CreationTimestamp.Time
	}
	return c.LastUpdateTime.Time
}

// pass is one decision in the making.
type pass struct {
	object *v1alpha1.TrafficRouting
	Snapshot
	Decision
	// reason and goesOn are those of the condition Reconciling; blocked is what the user has to change.
	reason  string
	goesOn  bool
	blocked string
}

// Plan decides the next step.
func Plan(o *v1alpha1.TrafficRouting, s Snapshot) Decision {
	p := &pass{object: o, Snapshot: s}
	p.Status = *o.Status.DeepCopy()
	p.Status.ObservedGeneration = o.Generation
	p.keep()
	switch phase := o.Status.Phase; {
	case o.DeletionTimestamp != nil:
		p.terminate()
	case phase == "":
		p.enter(v1alpha1.TrafficRoutingPhaseInitial, "nobody has looked at it yet")
	case len(s.Users) > 0 && phase == v1alpha1.TrafficRoutingPhaseProgressing:
		p.route()
	case len(s.Users) > 0:
		p.enter(v1alpha1.TrafficRoutingPhaseProgressing, "requests are routed for "+p.names())
	case phase == v1alpha1.TrafficRoutingPhaseProgressing:
		p.enter(v1alpha1.TrafficRoutingPhaseFinalizing, "no Rollout uses it any more, and routes are set back")
	case phase == v1alpha1.TrafficRoutingPhaseFinalizing:
		if p.reach("routes are set back") {
			p.rest()
			p.event(v1alpha1.ReasonReturned, "routes are as before")
		}
	default:
		p.rest()
	}
	p.conditions()
	return p.Decision
}

// keep drops finalizers of Rollouts that do not use the object, and adds its own.
func (p *pass) keep() {
	p.Finalizers = slices.DeleteFunc(slices.Clone(p.object.Finalizers), func(finalizer string) bool {
		name, uses := strings.CutPrefix(finalizer, shared.FinalizerInUse)
		return uses && !slices.Contains(p.Users, name)
	})
	if p.object.DeletionTimestamp == nil && !slices.Contains(p.Finalizers, shared.FinalizerTrafficRouting) {
		p.Finalizers = append(p.Finalizers, shared.FinalizerTrafficRouting)
	}
}

// terminate sets back what may be set. Rollouts that use it do without.
func (p *pass) terminate() {
	switch p.object.Status.Phase {
	case v1alpha1.TrafficRoutingPhaseProgressing, v1alpha1.TrafficRoutingPhaseFinalizing:
		p.enter(v1alpha1.TrafficRoutingPhaseTerminating, "it is being deleted, and routes are set back")
		return
	case v1alpha1.TrafficRoutingPhaseTerminating:
		if !p.reach("it is being deleted, and routes are set back") {
			return
		}
	}
	p.Finalizers = slices.DeleteFunc(p.Finalizers, func(f string) bool {
		return f == shared.FinalizerTrafficRouting || strings.HasPrefix(f, shared.FinalizerInUse)
	})
}

// rest is between releases.
func (p *pass) rest() {
	p.Status.Phase, p.Status.Message = v1alpha1.TrafficRoutingPhaseHealthy, "no Rollout uses it"
	p.reason, p.goesOn = v1alpha1.ReasonReturned, false
}

// route gives new versions their requests.
func (p *pass) route() {
	about := "requests are routed for " + p.names()
	if routed(p.object) {
		p.Status.Message, p.reason = about, v1alpha1.ReasonRouted
		return
	}
	if p.reach(about) {
		p.Status.Message, p.reason, p.goesOn = about, v1alpha1.ReasonRouted, false
		p.event(v1alpha1.ReasonRouted, about+": "+Share(p.object.Spec.Strategy).String())
	}
}

// reach takes routes one step further, and says whether they are as they should be.
func (p *pass) reach(about string) bool {
	p.reason, p.goesOn = string(p.Status.Phase), true
	if len(p.object.Spec.ObjectRef) == 0 {
		p.blocked = "spec.objectRef names no route"
		p.Status.Message = about + ": " + p.blocked
		return p.Status.Phase != v1alpha1.TrafficRoutingPhaseProgressing
	}
	if p.World == nil {
		p.After = soon // it was read for another phase
		return false
	}
	act, why := traffic.Next(*p.World)
	p.After = gateways
	if act == traffic.SetRoutes && p.Podless != "" {
		act, why, p.After = traffic.Wait, p.Podless, stuck
	}
	switch act {
	case traffic.Done:
		p.After = 0
		return true
	case traffic.Stuck:
		p.blocked, p.After = why, stuck
	case traffic.Wait:
	default:
		p.Act = act
		if act == traffic.SetRoutes && p.Corrected != "" {
			p.Events = append(p.Events, planning.Event{
				Warning: true, Reason: v1beta1.ReasonRouteCorrected, Message: p.Corrected + " was changed by somebody else, and is routed again",
			})
		}
	}
	if p.Status.Message = about; why != "" {
		p.Status.Message += ": " + why
	}
	return false
}

// enter stores a phase before anything is done in it.
func (p *pass) enter(phase v1alpha1.TrafficRoutingPhase, message string) {
	p.Status.Phase, p.Status.Message = phase, message
	p.reason, p.goesOn, p.After = string(phase), true, soon
}

func (p *pass) names() string {
	noun := "Rollout "
	if len(p.Users) > 1 {
		noun = "Rollouts "
	}
	return noun + conditions.First(p.Users, mostNames, ", ")
}

func (p *pass) event(reason, message string) {
	p.Events = append(p.Events, planning.Event{Reason: reason, Message: message})
}

// conditions says what goes on. The time of the last write is that of the condition Reconciling.
func (p *pass) conditions() {
	before := conditions.From(p.object.Status.Conditions)
	list := conditions.NewList(before, p.Now)
	reason, message := v1beta1.ReasonNotRouted, p.blocked
	if p.Fault != "" {
		reason, message = v1beta1.ReasonRequestFailed, p.Fault
	}
	stalled := conditions.New(v1alpha1.TrafficRoutingStalled, message != "", p.reason, "")
	if message != "" {
		stalled.Reason, stalled.Message = reason, message
		if !conditions.Contains(before, stalled) {
			p.Events = append(p.Events, planning.Event{Warning: true, Reason: reason, Message: message})
		}
	}
	going := conditions.New(v1alpha1.TrafficRoutingReconciling, p.goesOn && message == "", p.reason, p.Status.Message)
	if was, found := conditions.Find(before, v1alpha1.TrafficRoutingReconciling); found && p.Act == "" && p.Status.Phase == p.object.Status.Phase {
		going.LastUpdateTime = was.LastUpdateTime
	} else {
		going.LastUpdateTime = metav1.NewTime(p.Now.Truncate(time.Second))
	}
	list.Set(going, stalled)
	p.Status.Conditions = conditions.To[v1beta1.RolloutCondition](list)
}
