// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"maps"
	"slices"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
	"github.com/kruise-operator/kruise-operator/internal/engine/lifecycle"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

// Reasons of notes.
const (
	noteScaleMaxUnavailable = "ScaleMaxUnavailable"
	notePodNotReady         = "PodNotReady"
	noteTerminating         = "PodTerminating"
	noteStillTerminating    = "PodDoesNotEnd"
	noteClaimGoing          = "ClaimBeingDeleted"
)

// scaleLimit is the limit of creations.
const scaleLimit = "scaleStrategy.maxUnavailable"

// Plan decides the next step of a StatefulSet.
//
//  1. Replicas: finished pods are removed, missing ones created, claims corrected.
//  2. Scaling in: pods with unwanted ordinals are removed.
//  3. Moving: the user's deletions, then outdated pods, as far as the limit allows.
//  4. Settling: everything under way on all other pods goes on, always.
//
// With the policy Parallel all of this happens for every ordinal independently. With OrderedReady
// each part waits until the one before has nothing to do and every pod is available; see
// replicasInOrder.
//
// A set in deletion plans nothing: the garbage collector deletes its pods. With an unreadable spec
// only step 4 is planned.
func Plan(spec *Spec, s podset.Snapshot) planning.Plan {
	if spec.Deleting {
		return planning.Plan{}
	}
	p := newPlanner(spec, &s)
	if spec.Invalid != nil {
		return p.draft.InvalidSpec(spec.Invalid, p.settling())
	}

	p.holdStillTerminating()
	p.keepWaits()
	p.keepClaims()
	if p.Parallel {
		p.replicasAtOnce()
		for _, pod := range p.surplus {
			p.removeSurplus(pod)
		}
		p.move()
	} else if p.replicasInOrder() && p.scaleInInOrder() {
		p.move()
	}
	p.draft.Settle(p.settling())
	return p.draft.Plan()
}

// planner is shared by the steps of one Plan.
type planner struct {
	*Spec
	s     *podset.Snapshot
	draft *podset.Draft

	// pods are those at valid ordinals, by ordinal and in ascending order; surplus are the others,
	// in descending order.
	byOrdinal map[int]*podset.Pod
	pods      []*podset.Pod
	surplus   []*podset.Pod
	// targets are the pods free to leave the current revision, in the order of their update.
	targets []*podset.Pod
	// unavailable is the limit of step 3, used up by every missing or unavailable pod.
	unavailable podset.Limit
	// old is how many staying pods are not at the update revision. Only for unordered updates.
	old int
	// touched are the claims with an action.
	touched map[string]bool
}

func newPlanner(spec *Spec, s *podset.Snapshot) *planner {
	p := &planner{
		Spec: spec, s: s,
		draft:       spec.NewDraft(s),
		byOrdinal:   make(map[int]*podset.Pod, len(s.Pods)),
		unavailable: podset.Limit{Name: "maxUnavailable", Max: spec.MaxUnavailable},
		touched:     map[string]bool{},
	}
	if spec.Parallel { // in order, one pod is created after the other anyway
		p.unavailable.Refill, p.unavailable.RefillName = spec.ScaleMaxUnavailable, scaleLimit
	}
	for i := range s.Pods {
		pod := &s.Pods[i]
		if pod.Unwanted == podset.UnwantedSurplus {
			p.surplus = append(p.surplus, pod)
			continue
		}
		p.byOrdinal[podOrdinal(pod)] = pod
		if p.outdated(pod) {
			p.old++
		}
	}
	for _, o := range slices.Sorted(maps.Keys(p.byOrdinal)) {
		p.pods = append(p.pods, p.byOrdinal[o])
	}
	slices.SortFunc(p.surplus, func(a, b *podset.Pod) int { return cmp.Compare(podOrdinal(b), podOrdinal(a)) })
	return p
}

// keepWaits keeps pods at hooks with a valid reason, whether or not this pass gets to them:
// settling ends all other waits.
func (p *planner) keepWaits() {
	for i := range p.s.Pods {
		// Only for a deletion: a leaving pod has nothing to wait for at the update hook. In order
		// it has to be available again before its removal.
		if pod := &p.s.Pods[i]; pod.Unwanted != "" && pod.State == shared.StatePreparingDelete {
			p.draft.Keep(pod)
		}
	}
	if p.OnDelete {
		return
	}
	rollout := p.rollout()
	p.orderTargets()
	if p.s.MovesNoPods() {
		return
	}
	for _, pod := range p.targets {
		p.draft.KeepMoving(pod, rollout)
	}
}

// holdStillTerminating names pods without an end: their names are taken.
func (p *planner) holdStillTerminating() {
	note, in := podset.StillTerminating(p.s.Pods, noteStillTerminating, p.s.Now)
	p.draft.Recheck(in)
	if note.Message != "" {
		p.draft.Hold(note)
	}
}

// settling is how step 4 settles pods.
func (p *planner) settling() podset.SettleRules {
	return podset.SettleRules{
		Admit: func(pod *podset.Pod) bool { return lifecycle.PreNormalDone(&p.Lifecycle, pod.Object) },
		Repair: func(pod *podset.Pod) edit.Edit {
			var e edit.Edit
			if pod.Object.Labels[shared.LabelPodName] != pod.Object.Name {
				e.SetLabel(shared.LabelPodName, pod.Object.Name)
				if p.Options.PodIndexLabel {
					e.SetLabel(shared.LabelPodIndex, string(pod.Slot))
				}
			}
			return e
		},
	}
}
