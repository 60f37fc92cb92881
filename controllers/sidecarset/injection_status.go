// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarset

import (
	"errors"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
)

// Path is the way by which a set's pods are injected.
type Path string

// The paths.
const (
	// PathPolicy is the API server's own: it injects whether the operator runs or not.
	PathPolicy Path = appsv1beta1.ReasonInjectedByPolicy
	// PathWebhook asks the operator.
	PathWebhook Path = appsv1beta1.ReasonInjectedByWebhook
	// PathSplit is the API server's own for the pods that the policy can serve, and asks the operator about the others.
	PathSplit Path = appsv1beta1.ReasonInjectedBySplit
	// PathNone injects nothing.
	PathNone Path = "None"
)

// ConditionInjectionPath is the type of the condition that says which path a set has.
const ConditionInjectionPath = "InjectionPath"

// InjectionState is what a SidecarSet's status says of its injection.
type InjectionState struct {
	Path Path
	// Condition is True when a proof has shown that pods are injected, Unknown while that is not known, and False when they are not. Its
	// reason is the path. It has no time.
	Condition metav1.Condition
	// Fault is why pods do not get the sidecars; empty when they do, when they should not, and when that cannot be found out. Stalled says that
	// it does not pass by itself.
	Fault   string
	Stalled bool
	// Without says that some pods of the set do not have its sidecars; nil: there are none. PodsWithout is how many.
	Without     *metav1.Condition
	PodsWithout int
	// Events report what was restored after somebody else had changed it.
	Events []planning.Event
	// RecheckAfter is when to ask again; 0: only when something changes.
	RecheckAfter time.Duration
}

// withPods is a state with the pods that were found without the sidecars.
func (s InjectionState) withPods(found lacking) InjectionState {
	s.Without, s.PodsWithout = found.condition, found.pods
	return s
}

// noOwner is why nothing is injected without an object that is deleted with the installation.
const noOwner = "neither the ClusterRoleBinding kruise-operator-manager nor the one that OLM makes was found, so uninstalling the operator could leave a webhook " +
	"behind that refuses pods; set the annotation " + sidecar.FailurePolicyAnnotation + ": Ignore to inject by webhook anyway"

// state is what is known of one set.
func (i *Injection) state(set *injectedSet) InjectionState {
	s, without := set.withoutWay()
	if !without {
		s = i.proven(set)
	}
	if set.clash != "" {
		s.Condition.Message += "; " + set.clash
	}
	return s
}

// withoutWay is the state of a set that no way injects, or that lacks one of the two that it needs; false for any other set.
func (set *injectedSet) withoutWay() (InjectionState, bool) {
	s := InjectionState{Path: PathNone, Condition: metav1.Condition{Type: ConditionInjectionPath, Status: metav1.ConditionFalse}}
	switch {
	case set.fault != nil:
		s.Fault, s.Stalled = set.fault.Error(), true
		s.Condition.Reason, s.Condition.Message = appsv1beta1.ReasonInvalidSpec, "nothing is injected: "+s.Fault
		if errors.Is(set.fault, sidecar.ErrNoRevision) {
			s.Condition.Reason, s.RecheckAfter = appsv1beta1.ReasonInjectRevisionNotFound, time.Minute
		}
		return s, true
	case set.parsed.Paused:
		s.Condition.Reason, s.Condition.Message = appsv1beta1.ReasonPaused, "nothing is injected: injectionStrategy.paused is true"
		return s, true
	case set.crowdedOut:
		s.Condition.Reason, s.RecheckAfter = appsv1beta1.ReasonWebhookFull, time.Minute
		s.Fault, s.Stalled = webhookFull, true
		who := "nothing is injected: "
		if set.wantBinding && set.narrow {
			s.Path, who = PathSplit, "pods that the policy does not serve get no sidecars: "
		}
		s.Condition.Message = who + webhookFull
		return s, true
	case !set.wantEntry && !set.wantBinding:
		s.Condition.Reason, s.RecheckAfter = appsv1beta1.ReasonNoInstallationOwner, verifyEvery
		s.Fault, s.Stalled = noOwner, true
		s.Condition.Message = "nothing is injected: " + noOwner
		return s, true
	}
	return InjectionState{}, false
}

// proven is the state of a set that has its ways, by what their proofs have shown.
func (i *Injection) proven(set *injectedSet) InjectionState {
	s := InjectionState{Condition: metav1.Condition{Type: ConditionInjectionPath}}
	known, now, epoch := i.proofs[set.name], i.options.Clock.Now(), i.registry.epoch()
	s.Path = PathWebhook
	ways := []*proof{&known.webhook}
	switch {
	case set.wantBinding && set.wantEntry && set.narrow:
		s.Path, ways = PathSplit, []*proof{&known.policy, &known.webhook}
	case set.wantBinding && (!set.wantEntry || known.policy.holds(set.shown)):
		s.Path, ways = PathPolicy, []*proof{&known.policy}
	}
	s.Condition.Reason = string(s.Path)
	s.Condition.Status, s.Condition.Message = ways[0].verdict(set.shown)
	if s.Path == PathSplit {
		status, message := ways[1].verdict(set.shown)
		if s.Condition.Status == metav1.ConditionTrue || status == metav1.ConditionFalse {
			s.Condition.Status = status
		}
		s.Condition.Message = "of the policy, " + s.Condition.Message + "; of the webhook, " + message
	}
	for _, way := range ways {
		if way.refuted && way.shows == set.shown {
			// A policy that does not act is replaced. The webhook is the last resort: once it had its time, somebody has to look.
			s.Fault, s.Stalled = way.message, way == &known.webhook && way.failed()
		}
	}
	// A way that takes the place of another one is tried, too.
	s.RecheckAfter = proveEvery
	if set.wantBinding {
		s.RecheckAfter = min(s.RecheckAfter, known.policy.recheck(set.shown, now, epoch))
	}
	if set.wantEntry {
		s.RecheckAfter = min(s.RecheckAfter, known.webhook.recheck(set.shown, now, epoch))
	}
	for _, left := range []time.Duration{known.policyBackoff.left(now), known.binding.left(now), i.policy.left(now)} {
		if left > 0 {
			s.RecheckAfter = min(s.RecheckAfter, left)
		}
	}
	s.Condition.Message = set.why(s.Path) + "; " + s.Condition.Message
	return s
}

// why says why a set has its path.
func (set *injectedSet) why(path Path) string {
	alone := "the API server injects by itself, whether the operator runs or not"
	fate := map[bool]string{true: "created without the sidecars", false: "refused"}[set.ignore]
	switch path {
	case PathPolicy:
		return alone
	case PathSplit:
		return alone + ", but for pods " + strings.Join(set.compiled.Guard.Words(), ", or ") + ": about these it asks the operator; while that does not answer, they are " + fate
	default:
	}
	on := "the API server asks the operator"
	if len(set.reasons) > 0 {
		on += " (" + strings.Join(set.reasons, ", ") + ")"
	}
	return on + "; while the operator does not answer, pods are " + fate
}
