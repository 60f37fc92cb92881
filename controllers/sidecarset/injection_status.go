// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarset

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/hooks"
)

// Path is how a set's pods are injected.
type Path string

// The paths.
const (
	// PathPolicy is the API server's own: it works without the operator.
	PathPolicy Path = appsv1beta1.ReasonInjectedByPolicy
	// PathWebhook asks the operator.
	PathWebhook Path = appsv1beta1.ReasonInjectedByWebhook
	// PathNone injects nothing.
	PathNone Path = "None"
)

// ConditionInjectionPath is the condition with the path of a set.
const ConditionInjectionPath = "InjectionPath"

// InjectionState is the state of a set's injection.
type InjectionState struct {
	// Injection is the part for the status. Its condition is True with proof
	// of injection, False without injection, else Unknown; its reason is the path.
	plan.Injection
	Path Path
	// Events report names newly shared with other sets.
	Events []planning.Event
	// RecheckAfter is when to ask again; 0: only when something changes.
	RecheckAfter time.Duration
}

// stateOf is the state of a set with this path.
func stateOf(path Path, status corev1.ConditionStatus) InjectionState {
	return InjectionState{Path: path, Injection: plan.Injection{Condition: conditions.Condition{Type: ConditionInjectionPath, Status: status}}}
}

func (i *Injection) state(set *injectedSet) InjectionState {
	s := stateOf(PathNone, corev1.ConditionFalse)
	switch {
	case set.fault != nil:
		s.Fault, s.Stalled = set.fault.Error(), true
		s.Condition.Reason, s.Condition.Message = appsv1beta1.ReasonInvalidSpec, "nothing is injected: "+s.Fault
		if errors.Is(set.fault, sidecar.ErrNoRevision) {
			s.Condition.Reason, s.RecheckAfter = appsv1beta1.ReasonInjectRevisionNotFound, time.Minute
		}
	case set.parsed.Paused:
		s.Condition.Reason, s.Condition.Message = appsv1beta1.ReasonPaused, "nothing is injected: injectionStrategy.paused is true"
	default:
		s = i.registered(set)
	}
	if set.clash != "" {
		s.Condition.Message += "; " + set.clash
	}
	if exempt, only := set.parsed.Match.Exempt(i.options.Namespace); exempt != "" {
		s.Condition.Message += "; " + exempt
		if only && s.Condition.Status == corev1.ConditionTrue {
			s.Path, s.Condition.Status, s.Condition.Reason, s.Condition.Message = PathNone, corev1.ConditionFalse, appsv1beta1.ReasonNamespaceExempt, exempt
		}
	}
	known := i.knownOf(set)
	if set.clash != "" && set.clash != known.clash {
		s.Events = []planning.Event{{Warning: true, Reason: "ContainerNameTaken", Message: set.clash}}
	}
	known.clash = set.clash
	return s
}

func (i *Injection) registered(set *injectedSet) InjectionState {
	is := i.options.Hooks.State(sidecar.EntryName(set.name))
	c, alone := i.knownOf(set).check, i.knownOf(set).byPolicy
	s := stateOf(PathWebhook, corev1.ConditionUnknown)
	s.RecheckAfter = max(i.nextCheck(set), firstCheck)
	switch {
	case !i.byPolicy(set) || c.inForce(set) && (!c.policy || !alone):
	case c.inForce(set) && is.ByCall:
		s.RecheckAfter = firstCheck // Until its entry is gone, the webhook refuses pods without the operator.
	default:
		s.Path = PathPolicy
	}
	s.Condition.Reason = string(s.Path)
	late := i.options.Clock.Since(c.first)
	switch {
	case c.inForce(set):
		s.Condition.Status, s.Condition.Message = corev1.ConditionTrue, i.why(set, s.Path)+fmt.Sprintf("; it is in force at %d of the API servers", c.servers)
		return s
	case is.Version == set.shown && faults()[is.Reason] != "":
		s.Path, s.Fault, s.Stalled = PathNone, is.Message, is.Reason != hooks.Refused || late >= registrationTimeout
		s.Condition.Reason = faults()[is.Reason]
		if is.Reason != hooks.Refused {
			s.Condition.Status = corev1.ConditionFalse
		}
		s.Condition.Message = "the sidecars are not registered at the API server: " + is.Message
		return s
	}
	s.Condition.Message = i.why(set, s.Path) + "; " + cmp.Or(c.message, "it is not in force yet")
	s.Pending = late < soon
	if !s.Pending && c.message == "" {
		s.Condition.Status, s.Fault, s.Stalled = corev1.ConditionFalse, "what is registered at the API server is not in force", late >= registrationTimeout
	}
	return s
}

// faults are the reasons of the condition where a hook is not registered.
func faults() map[hooks.Reason]string {
	return map[hooks.Reason]string{
		hooks.Refused: appsv1beta1.ReasonNotRegistered, hooks.Unserved: appsv1beta1.ReasonNotRegistered, hooks.NoRoom: appsv1beta1.ReasonWebhookFull,
		hooks.Ownerless: appsv1beta1.ReasonNoInstallationOwner,
	}
}

// registrationTimeout is how long registration may fail before the set is stalled.
const registrationTimeout = 30 * time.Second

// why says why a set has its path.
func (i *Injection) why(set *injectedSet, path Path) string {
	if path == PathPolicy {
		return "the API server injects by itself, whether the operator runs or not"
	}
	on := "the API server asks the operator"
	on += " (" + cmp.Or(i.whyNotByPolicy(set), "until the policy is in force and the webhook is removed") + ")"
	fate := "refused"
	if set.onFailure == admissionv1.Ignore {
		fate = "created without the sidecars"
	}
	return on + "; while the operator does not answer, pods are " + fate
}
