// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podset

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
	"github.com/kruise-operator/kruise-operator/internal/engine/inplace"
	"github.com/kruise-operator/kruise-operator/internal/engine/lifecycle"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

// SettleRules is where workloads differ in settling.
type SettleRules struct {
	// Admit lets a pod in PreparingNormal become normal.
	Admit func(*Pod) bool
	// Repair returns further edits of a pod, such as lost labels. Nil: none.
	Repair func(*Pod) edit.Edit
}

// Settle continues everything under way on pods without an action, with one Edit each: conditions of new
// readiness gates, running updates in place, and ended lifecycle states. It does so even if the workload may
// move no pods: a pod in the middle of an update stays unavailable. Finished pods are left alone.
func (p *Draft) Settle(rules SettleRules) {
	for i := range p.Snapshot.Pods {
		pod := &p.Snapshot.Pods[i]
		p.Recheck(pod.AvailableIn)
		if pod.Terminating || podstate.Finished(pod.Object) {
			continue
		}
		p.Recheck(pod.Update.RecheckAfter)
		p.Recheck(pod.Trouble.RecheckAfter)
		if !p.Taken(pod) {
			p.settle(pod, rules)
		}
	}
}

func (p *Draft) settle(pod *Pod, rules SettleRules) {
	now := p.Snapshot.Now
	var e edit.Edit
	var reason string
	add := func(other edit.Edit, why string) {
		if !other.IsZero() {
			e.Merge(other)
			reason = why
		}
	}

	add(edit.Edit{Conditions: podstate.InitialConditions(pod.Object, now), Fresh: true}, ReasonInitialize)
	repaired, continues := false, false
	if rules.Repair != nil {
		repair := rules.Repair(pod)
		repaired = !repair.IsZero()
		add(repair, ReasonRepair)
	}
	if to, ok := p.next(pod, rules); ok {
		why := ReasonHook
		if pod.State == shared.StateUpdating {
			why = ReasonInPlaceFinished
		}
		add(lifecycle.Transition(&p.spec.Lifecycle, pod.Object, to, now), why)
	}
	switch pod.Update.Progress {
	case inplace.Grace, inplace.Running:
		if next, ok := inplace.Continue(pod.Object, p.spec.InPlace, now); ok {
			continues = true
			add(next, ReasonInPlaceContinue)
		} else if pod.Update.Progress == inplace.Grace {
			p.Wait(pod, ReasonGracePeriod, "the grace period before the update in place is not over")
		}
	case inplace.Done:
		add(inplace.Finish(pod.Object, now), ReasonInPlaceFinished)
	case inplace.Blocked:
		p.Wait(pod, ReasonInPlaceBlocked, pod.Update.Message)
	}
	if !e.HasCondition(shared.GateKruisePodReady) { // one edit can change its holders once
		add(p.releaseOver(pod), ReasonRelease)
	}
	if e.IsZero() {
		return
	}
	action := p.write(pod, e, reason)
	if repaired {
		action.Success, _ = p.events(outcome{"SuccessfulUpdate", "FailedUpdate", "update"}, pod.Object.Name)
	}
	if continues {
		_, action.Failure = p.events(outcome{"SuccessfulUpdatePodInPlace", "FailedUpdatePodInPlace", "update in place"}, pod.Object.Name)
	}
	p.settled = append(p.settled, action)
}

// next is the pod's due lifecycle state, if it is another one or the pod holds too much:
//
//  1. PreparingNormal ends when the workload admits the pod.
//  2. Updating ends when the update has taken effect.
//  3. Updated ends when the update hook is back in full, or gone.
//  4. PreparingUpdate and PreparingDelete end when nobody wants the update or the deletion any more.
func (p *Draft) next(pod *Pod, rules SettleRules) (shared.LifecycleState, bool) {
	running := pod.Update.Progress != inplace.None && pod.Update.Progress != inplace.Done
	switch pod.State {
	case shared.StatePreparingNormal:
		if rules.Admit(pod) {
			return shared.StateNormal, true
		}
		p.Wait(pod, ReasonHook, "the preNormal hook is not complete yet")
	case shared.StateUpdating:
		if !running {
			return p.afterUpdate(pod), true
		}
	case shared.StateUpdated:
		if p.hookedAgain(pod) {
			return shared.StateNormal, true
		}
		p.Wait(pod, ReasonHook, "the inPlaceUpdate hook is not put back yet")
	case shared.StatePreparingUpdate:
		if !p.kept[keyOf(pod.Object)] {
			return p.afterUpdate(pod), true
		}
	case shared.StatePreparingDelete:
		switch {
		case p.kept[keyOf(pod.Object)]:
		case running:
			return shared.StateUpdating, true
		case rules.Admit(pod):
			return shared.StateNormal, true
		default:
			return shared.StatePreparingNormal, true
		}
	case shared.StateNormal:
		// Another manager may have left a hold of a hook behind. Only then is it worth a closer look.
		held := podstate.Condition(pod.Object, shared.GateKruisePodReady)
		return shared.StateNormal, held != nil && held.Status == corev1.ConditionFalse
	}
	return "", false
}

func (p *Draft) afterUpdate(pod *Pod) shared.LifecycleState {
	if p.hookedAgain(pod) {
		return shared.StateNormal
	}
	return shared.StateUpdated
}

// hookedAgain is a pod with the whole update hook.
func (p *Draft) hookedAgain(pod *Pod) bool {
	return p.spec.Lifecycle.InPlaceUpdate == nil || lifecycle.AllHooked(p.spec.Lifecycle.InPlaceUpdate, pod.Object)
}
