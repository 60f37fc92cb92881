// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
	"github.com/kruise-operator/kruise-operator/internal/engine/lifecycle"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
)

// Reasons of notes.
const (
	noteScaleUpLimited = "ScaleUpLimited"
	noteNoFreshSlot    = "NoFreshSlot"
	// noteClaimsInUse: claims stay although no pod of the set has them.
	noteClaimsInUse = "ClaimsInUse"
	// noteClaimsReturning: new pods wait for claims of terminating pods.
	noteClaimsReturning = "ClaimsReturning"
)

// scaleLimit is the limit of creations.
const scaleLimit = "scaleStrategy.maxUnavailable"

// Plan decides the next step of a CloneSet.
//
//  1. Leaving: pods at their preDelete hook are deleted at its release, or brought back if still
//     needed.
//  2. Creating: missing pods, as far as scaleStrategy.maxUnavailable allows.
//  3. Deleting: the user's deletions, finished pods too, then surplus pods.
//  4. Moving: pods at the wrong revision, in place or by deleting them.
//  5. Settling: everything under way on all other pods goes on, always. So do their claims.
//
// No part waits for another one. All that take a serving pod away draw on the same limit:
// maxUnavailable, more by every pod beyond replicas, less by every missing one. So a request
// refused again and again stops nothing else.
//
// A set in deletion plans nothing: the garbage collector deletes its pods. With an unreadable spec
// only step 5 is planned.
func Plan(spec *Spec, s podset.Snapshot) planning.Plan {
	if spec.Deleting {
		return planning.Plan{}
	}
	p := newPlanner(spec, &s)
	if spec.Invalid != nil {
		return p.draft.InvalidSpec(spec.Invalid, p.settling())
	}

	scale := p.diff(p.count(p.Options.PreparingUpdateAsUpdate), p.rollBack)
	p.leave()
	p.create(p.withReturned(scale))
	p.removeSpecified()
	p.scaleIn(scale)
	p.move(p.diff(p.countMoving(), p.rollBack))
	p.holdBack()
	p.draft.Settle(p.settling())
	p.keepClaims()
	return p.draft.Plan()
}

// planner is shared by the steps of one Plan.
type planner struct {
	*Spec
	s     *podset.Snapshot
	draft *podset.Draft

	// rollBack: updated pods beyond the partition go back to the current revision.
	rollBack bool

	// pods are the counted ones.
	pods []*podset.Pod
	// unavailable is the common limit, blocked are the pods without room in it.
	unavailable podset.Limit
	blocked     []*podset.Pod
	// claimsOf are the claims of each slot, by name.
	claimsOf map[planning.Slot][]*corev1.PersistentVolumeClaim
	// existing are the slots with a pod object in whatever state, or a new one in this pass;
	// leaving are the pods in removal.
	existing map[planning.Slot]bool
	leaving  map[string]bool
	// back is how many pods at their preDelete hook this pass brings back, replacing those of them
	// with a replacement to come.
	back      int
	replacing []*podset.Pod
	// saysReplaced: a note tells why pods are replaced.
	saysReplaced bool
}

func newPlanner(spec *Spec, s *podset.Snapshot) *planner {
	spec = spec.beside(s)
	rollBack := spec.Options.PartitionRollback && !spec.OnDelete && s.Current.Name != s.Update.Name
	p := &planner{
		Spec: spec, s: s,
		draft:    spec.NewDraft(s),
		rollBack: rollBack,
		claimsOf: bySlot(spec.Set, s.Claims),
		existing: make(map[planning.Slot]bool, len(s.Pods)),
		leaving:  map[string]bool{},
	}
	for i := range s.Pods {
		pod := &s.Pods[i]
		p.existing[pod.Slot] = true
		if counts(pod) {
			p.pods = append(p.pods, pod)
		}
	}
	for slot := range s.Taken {
		p.existing[slot] = true
	}
	surplus := max(len(p.pods)-p.Replicas, 0)
	p.unavailable = podset.Limit{
		Name: "maxUnavailable", Max: p.MaxUnavailable + surplus, Extra: surplus,
		RefillName: scaleLimit, Refill: p.ScaleMaxUnavailable + surplus,
	}
	p.unavailable.UseOthers(max(p.Replicas-len(p.pods), 0))
	for _, pod := range p.pods {
		if !pod.Available {
			p.unavailable.Use(pod)
		}
	}
	return p
}

// updated: the pod is at the update revision.
func (p *planner) updated(pod *podset.Pod) bool { return pod.Revision == p.s.Update.Name }

func preparingDelete(pod *podset.Pod) bool { return pod.State == shared.StatePreparingDelete }

func specified(pod *podset.Pod) bool { return pod.Unwanted == podset.UnwantedSpecified }

// count counts the pods. With preparing, a pod at its inPlaceUpdate hook counts as updated already.
func (p *planner) count(preparing bool) podCounts {
	var c podCounts
	for _, pod := range p.pods {
		g := &c.old
		if p.updated(pod) || preparing && pod.State == shared.StatePreparingUpdate {
			g = &c.updated
		}
		switch {
		case preparingDelete(pod):
			g.preparingDelete++
		case specified(pod):
			g.specified++
		case !pod.Available:
			g.unavailable++
		default:
			g.available++
		}
	}
	return c
}

// countMoving counts the pods for moves. Where pods at their hook count as updated in removals,
// this pass may remove the one that makes up for another at its hook. That other one is still
// needed, and has to move. Otherwise it would be called back, and its substitute made again, for
// ever.
func (p *planner) countMoving() podCounts {
	if !p.Options.PreparingUpdateAsUpdate {
		return p.count(false)
	}
	all := p.pods
	defer func() { p.pods = all }()
	p.pods = slices.DeleteFunc(slices.Clone(all), func(pod *podset.Pod) bool { return p.leaving[pod.Object.Name] })
	return p.count(false)
}

// counts is a replica of the set: neither terminating nor finished.
func counts(pod *podset.Pod) bool {
	return !pod.Terminating && pod.Unwanted != podset.UnwantedFinished
}

// leave is step 1. A pod at its preDelete hook goes on leaving
//
//   - if its user asked for its deletion;
//   - if another one at the other revision is to take its place;
//   - if there are enough pods without it;
//   - if a hook takes pods out of service: staying cannot undo the user's work at the hook.
//
// Otherwise settling brings it back.
func (p *planner) leave() {
	c := p.count(false)
	need := p.Replicas
	for _, g := range []revisionCounts{c.old, c.updated} {
		need -= g.unavailable + g.available
	}
	lackOld := p.Partition - (c.old.unavailable + c.old.available)
	lackUpdated := p.Replicas - p.Partition - (c.updated.unavailable + c.updated.available)

	var doubtful []*podset.Pod
	for _, pod := range p.pods {
		switch {
		case !preparingDelete(pod):
		case specified(pod):
			p.remove(pod, podset.ReasonSpecifiedDelete)
		case lifecycle.MarksNotReady(&p.Lifecycle):
			p.remove(pod, podset.ReasonScaleIn)
		default:
			doubtful = append(doubtful, pod)
		}
	}
	for _, pod := range doubtful {
		lack := &lackOld
		if p.updated(pod) {
			lack = &lackUpdated
		}
		switch {
		case *lack <= 0 && p.replaced(pod):
			p.replacing = append(p.replacing, pod)
			p.remove(pod, podset.ReasonOutdated)
		case need <= 0:
			p.remove(pod, podset.ReasonScaleIn)
		default:
			need--
			*lack--
			p.back++
		}
	}
}

// replaced: only a replacement gets a pod at its preDelete hook to the other revision, and pods
// move there.
func (p *planner) replaced(pod *podset.Pod) bool {
	switch {
	case p.OnDelete:
	case !p.updated(pod):
		return !p.s.MovesNoPods() && p.draft.ExplainReplaced(pod, p.rollout(p.s.Update))
	case p.rollBack:
		return p.draft.ExplainReplaced(pod, p.rollout(p.s.Current))
	}
	return false
}

// remove brings a pod closer to its deletion. Its claims go with it: before the request they get it
// as their owner. If the server refuses that, they stay the set's, to be deleted after the pod or,
// if claims are reused, for another pod.
func (p *planner) remove(pod *podset.Pod, reason string) {
	p.leaving[pod.Object.Name] = true
	if !p.draft.HeldByPreDelete(pod) && p.giveClaims(pod) {
		p.draft.Keep(pod)
		return
	}
	if reason == podset.ReasonOutdated {
		p.draft.Recreate(pod, reason)
		return
	}
	p.draft.Remove(pod, reason)
}

// settling is how step 5 settles pods.
func (p *planner) settling() podset.SettleRules {
	return podset.SettleRules{
		Admit: func(pod *podset.Pod) bool {
			return pod.Object.Spec.NodeName != "" && lifecycle.PreNormalDone(&p.Lifecycle, pod.Object)
		},
		Repair: func(pod *podset.Pod) edit.Edit {
			var e edit.Edit
			if pod.Revision != "" && pod.Object.Labels[shared.LabelPodTemplateHash] == "" {
				e.SetLabel(shared.LabelPodTemplateHash, revision.HashOf(pod.Revision))
			}
			return e
		},
	}
}
