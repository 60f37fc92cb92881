// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podset

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
	"github.com/kruise-operator/kruise-operator/internal/engine/inplace"
	"github.com/kruise-operator/kruise-operator/internal/engine/lazy"
	"github.com/kruise-operator/kruise-operator/internal/engine/lifecycle"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
)

// Rollout is how pods are moved to another revision.
type Rollout struct {
	// Target is the revision to move to.
	Target revision.Revision
	// MarkUpdating makes the pod's lifecycle label Updating during the change.
	MarkUpdating func(*Pod) bool
	// Replace gets rid of a pod beyond edits.
	Replace func(*Pod)
}

// UpdateMethod is how one pod gets to the target revision.
type UpdateMethod string

const (
	// MethodNone does nothing: the pod is at the target.
	MethodNone UpdateMethod = ""
	// MethodInPlace edits the pod.
	MethodInPlace UpdateMethod = "InPlace"
	// MethodReplace deletes the pod, and another one takes its place.
	MethodReplace UpdateMethod = "Replace"
	// MethodRefused does nothing: the pod may only be edited, and the difference forbids that.
	MethodRefused UpdateMethod = "Refused"
)

// UpdateMethod is the pod's way to the target, from its own revision, and the reason against an update in place
// if the policy asks for one. A pod of a lost revision cannot be edited: nobody knows the difference.
func (p *Draft) UpdateMethod(pod *Pod, r Rollout) (UpdateMethod, string) {
	if pod.Revision == r.Target.Name {
		return MethodNone, ""
	}
	policy := p.spec.PodUpdatePolicy
	if policy != shared.InPlaceIfPossible && policy != shared.InPlaceOnly {
		return MethodReplace, ""
	}
	difference := p.difference(pod.Revision, r).On(pod.Object, p.spec.InPlace)
	if gate := p.spec.NeedsGate || difference.ForMetadata; difference.InPlace && gate && !podstate.HasGate(pod.Object, shared.GateInPlaceUpdateReady) {
		difference = inplace.Difference{Reason: "a container reads changed metadata through its environment, and the node daemon restarts containers " +
			"only in pods with the readiness gate " + string(shared.GateInPlaceUpdateReady)}
		if p.spec.NeedsGate {
			difference.Reason = "a pod without the readiness gate " + string(shared.GateInPlaceUpdateReady) +
				" would serve meanwhile; those that replace such pods have the gate"
		}
	}
	switch {
	case difference.InPlace:
		return MethodInPlace, ""
	case policy == shared.InPlaceOnly:
		return MethodRefused, difference.Reason
	default:
		return MethodReplace, difference.Reason
	}
}

// difference compares each pair of revisions once per pass; the policy is the same for all.
func (p *Draft) difference(from string, r Rollout) inplace.Difference {
	key := [2]string{from, r.Target.Name}
	if known, ok := p.differences[key]; ok {
		return known
	}
	d := inplace.Difference{Reason: fmt.Sprintf("revision %q is no longer stored, so what differs is not known", from)}
	if old, ok := p.Snapshot.Revisions[from]; ok && old.Template != nil {
		d = inplace.CompareRevisions(old, r.Target, p.spec.PodUpdatePolicy, p.spec.InPlace)
	}
	lazy.Put(&p.differences, key, d)
	return d
}

// KeepMoving keeps an outdated pod at its hook while its move is still wanted. A workload calls it for all pods
// to move, even if it must not touch them just now.
func (p *Draft) KeepMoving(pod *Pod, r Rollout) {
	switch pod.State {
	case shared.StatePreparingUpdate:
		if method, _ := p.UpdateMethod(pod, r); method == MethodInPlace || method == MethodReplace {
			p.Keep(pod)
		}
	case shared.StatePreparingDelete:
		if method, _ := p.UpdateMethod(pod, r); method == MethodReplace {
			p.Keep(pod)
		}
	}
}

// HoldReplaced notes why pods are replaced in spite of their policy. It gives the first reason, mostly the only
// one. A workload calls it for the moving pods, in their order. False: there is nothing to note.
func (p *Draft) HoldReplaced(moving []*Pod, r Rollout) bool {
	for _, pod := range moving {
		if method, why := p.UpdateMethod(pod, r); method == MethodReplace && why != "" {
			p.Hold(planning.Note{Reason: ReasonReplaced, Message: "pods are replaced although " + cmp.Or(p.spec.PolicyField, "podUpdatePolicy") + " is " + string(p.spec.PodUpdatePolicy) + ": " + why})
			return true
		}
	}
	return false
}

// ExplainReplaced says whether only a replacement gets the pod to the target. If so, the event about its
// deletion says why.
func (p *Draft) ExplainReplaced(pod *Pod, r Rollout) bool {
	method, why := p.UpdateMethod(pod, r)
	if method == MethodReplace {
		p.replacedBecause(pod, why)
	}
	return method == MethodReplace
}

// ReplacedBy is ExplainReplaced without the event.
func (p *Draft) ReplacedBy(r Rollout) func(*Pod) bool {
	return func(pod *Pod) bool {
		method, _ := p.UpdateMethod(pod, r)
		return method == MethodReplace
	}
}

// replacedBecause has the event about the deletion of the pod say why it is replaced, where there is something to say.
func (p *Draft) replacedBecause(pod *Pod, why string) {
	if why != "" {
		p.AppendToEvent(pod, ", because it cannot be updated in place: "+why)
	}
}

// SplitRefused splits off the pods with a refused move, see [planning.Plan.SetAside]. A pod out of service is not among them: the first request of its
// update may have succeeded, so it counts towards the limit.
func (p *Draft) SplitRefused(pods []*Pod, r Rollout, place planning.Place) (others, refused []*Pod) {
	return p.splitRefused(pods, place, func(pod *Pod) planning.Step {
		if method, _ := p.UpdateMethod(pod, r); method == MethodInPlace {
			return StepEdit
		}
		return p.Removal(pod)
	})
}

// SplitRefusedRemovals is SplitRefused for removals.
func (p *Draft) SplitRefusedRemovals(pods []*Pod, place planning.Place) (others, refused []*Pod) {
	return p.splitRefused(pods, place, p.Removal)
}

func (p *Draft) splitRefused(pods []*Pod, place planning.Place, next func(*Pod) planning.Step) (others, refused []*Pod) {
	if p.Snapshot.Retries == nil {
		return pods, nil
	}
	for _, pod := range pods {
		if pod.InService() && p.SetAside(next(pod), pod, place) {
			refused = append(refused, pod)
		} else {
			others = append(others, pod)
		}
	}
	return others, refused
}

// Select is [Limit.Select] for pods to move, and what it admits are the pods to move now. A refused one leaves its place to the others until
// its next try.
func (p *Draft) Select(limit *Limit, pods []*Pod, r Rollout) (admitted, waiting []*Pod) {
	others, refused := p.SplitRefused(pods, r, planning.Free)
	admitted, waiting = limit.Select(others, p.ReplacedBy(r))
	_, due := p.SplitRefused(waiting, r, planning.Full)
	return slices.Concat(admitted, refused, due), waiting
}

// SetAside sets a refused step for a pod aside, see [planning.Plan.SetAside].
func (p *Draft) SetAside(step planning.Step, pod *Pod, place planning.Place) bool {
	return p.plan.SetAside(p.Snapshot.Retries, planning.RetryKey{Step: step, Namespace: pod.Object.Namespace, Name: pod.Object.Name}, place)
}

// Removal is the next step of the pod's removal: its deletion, or an edit for its hook.
func (p *Draft) Removal(pod *Pod) planning.Step {
	if p.HeldByPreDelete(pod) {
		return StepEdit
	}
	return StepDelete
}

// Move brings a pod closer to the target. The caller has counted it as unavailable.
func (p *Draft) Move(pod *Pod, r Rollout) {
	method, why := p.UpdateMethod(pod, r)
	switch method {
	case MethodInPlace:
		p.updateInPlace(pod, r)
	case MethodReplace:
		p.Keep(pod)
		p.replacedBecause(pod, why)
		r.Replace(pod)
	case MethodRefused:
		p.Refuse(pod, why)
	}
}

// Refuse notes that a pod may not be moved at all.
func (p *Draft) Refuse(pod *Pod, why string) {
	p.Wait(pod, ReasonInPlaceImpossible, "podUpdatePolicy is InPlaceOnly, and the update cannot be made in place: "+why)
}

// updateInPlace stops at the hook if the pod has one, and otherwise sends the first edit:
//
//  1. A pod on its way to deletion is brought back by settling first.
//  2. A hooked pod goes to PreparingUpdate and stays there until the release of the hook.
//  3. A pod without its hook since the last update gets it back, and waits at it again.
//  4. Any other pod is edited, also in the middle of an earlier update, as far as the plan may begin updates.
func (p *Draft) updateInPlace(pod *Pod, r Rollout) {
	now := p.Snapshot.Now
	hook := p.spec.Lifecycle.InPlaceUpdate
	hooked := lifecycle.Hooked(hook, pod.Object)
	switch pod.State {
	case shared.StatePreparingDelete:
		return
	case shared.StatePreparingUpdate:
		p.Keep(pod)
		if hooked {
			p.Wait(pod, ReasonHook, "the inPlaceUpdate hook is not released yet")
			return
		}
	case shared.StateUpdated:
		hooked = hook != nil && len(hook.LabelsHandler)+len(hook.FinalizersHandler) > 0
		fallthrough
	case "", shared.StateNormal, shared.StatePreparingNormal:
		if hooked {
			p.Edit(pod, lifecycle.Transition(&p.spec.Lifecycle, pod.Object, shared.StatePreparingUpdate, now), ReasonHook)
			return
		}
	}

	if !p.tryBegin() {
		return
	}
	begin, err := inplace.Move{
		Pod: pod.Object, From: p.Snapshot.Revisions[pod.Revision], To: r.Target, Difference: p.difference(pod.Revision, r),
		Grace: p.spec.GracePeriod, MarkUpdating: r.MarkUpdating(pod), Options: p.spec.InPlace, Now: now,
	}.Begin()
	if err != nil {
		p.Wait(pod, ReasonInPlaceBlocked, err.Error())
		return
	}
	e := edit.Edit{Conditions: podstate.InitialConditions(pod.Object, now)}
	e.Merge(begin)
	p.Recheck(p.spec.GracePeriod)
	action := EditPod(pod.Slot, pod.Object, e, ReasonInPlaceUpdate)
	action.Success, action.Failure = p.events(outcome{"SuccessfulUpdatePodInPlace", "FailedUpdatePodInPlace", "update in place"}, pod.Object.Name)
	p.Act(action)
}
