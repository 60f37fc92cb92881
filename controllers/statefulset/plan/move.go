// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"slices"

	"github.com/kruise-operator/kruise-operator/internal/engine/inplace"
	"github.com/kruise-operator/kruise-operator/internal/engine/ordinal"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

// move is step 3: pods labeled for deletion from the highest ordinal down, then the outdated ones
// in their order. Unavailable pods go first and cost nothing. An outage at any ordinal uses up the
// limit. Where updates have no order, a refused pod leaves its place to the others until its next
// try.
func (p *planner) move() {
	specified := p.specified()
	if p.OnDelete || p.Paused {
		p.holdAll(specified)
		return
	}
	p.countUnavailable()

	blocked := p.removeSpecified(specified)
	movable, rollout := p.movable(), p.rollout()
	p.draft.HoldReplaced(movable, rollout)
	var admitted, waiting []*podset.Pod
	if p.Unordered {
		admitted, waiting = p.draft.Select(&p.unavailable, movable, rollout)
	} else {
		admitted, waiting = p.unavailable.Select(movable, p.draft.ReplacedBy(rollout))
	}
	for _, pod := range admitted {
		p.moveOne(pod, rollout)
	}
	p.draft.HoldLimited(&p.unavailable, append(blocked, waiting...))
	p.holdPartition()
}

// removeSpecified removes the user's deletions while there is room, and returns the waiting ones. A
// refused one leaves its place to the others of them until its next try, and to updates without an
// order.
func (p *planner) removeSpecified(specified []*podset.Pod) (blocked []*podset.Pod) {
	others, refused := p.draft.SplitRefusedRemovals(specified, planning.Free)
	var admitted []*podset.Pod
	for _, pod := range others {
		if p.unavailable.TryUse(pod, true) {
			admitted = append(admitted, pod)
		} else {
			blocked = append(blocked, pod)
		}
	}
	_, due := p.draft.SplitRefusedRemovals(blocked, planning.Full)
	for _, pod := range slices.Concat(admitted, refused, due) {
		p.removeWanted(pod, podset.ReasonSpecifiedDelete)
	}
	for _, pod := range refused {
		if !p.Unordered {
			p.unavailable.Use(pod)
		}
	}
	return blocked
}

// moveUnavailable is OrderedReady's part of step 3 at an unavailable pod: the user may want it
// replaced, or the next revision repairs it. Unavailable pods go where their user deletes them.
// Otherwise one outdated pod out of service is moved, unless a pod is terminating or being updated.
func (p *planner) moveUnavailable() {
	specified := p.specified()
	if p.OnDelete || p.Paused {
		p.holdAll(specified)
		return
	}
	p.countUnavailable()
	broken := slices.DeleteFunc(specified, func(pod *podset.Pod) bool { return pod.Available })
	if blocked := p.removeSpecified(broken); len(blocked) < len(broken) {
		return
	}
	for _, pod := range p.pods {
		if pod.Terminating || pod.Revision == p.s.Update.Name && underWay(pod) {
			return
		}
	}
	movable, rollout := p.movable(), p.rollout()
	p.draft.HoldReplaced(movable, rollout)
	for _, pod := range movable {
		if !pod.InService() {
			p.moveOne(pod, rollout)
			return
		}
	}
}

func underWay(pod *podset.Pod) bool {
	return pod.Update.Progress == inplace.Grace || pod.Update.Progress == inplace.Running
}

// specified are the user's deletions, from the highest ordinal down.
func (p *planner) specified() []*podset.Pod {
	var specified []*podset.Pod
	for _, pod := range slices.Backward(p.pods) {
		if pod.Unwanted == podset.UnwantedSpecified && !pod.Terminating {
			specified = append(specified, pod)
		}
	}
	return specified
}

// countUnavailable uses up the limit with everything unavailable at a valid ordinal, missing pods
// included.
func (p *planner) countUnavailable() {
	for _, pod := range p.pods {
		if !pod.Available || p.Resize && p.growing(pod) {
			p.unavailable.Use(pod)
		}
	}
	missing := p.Ordinals.Len() - len(p.pods)
	if missing == 0 {
		return
	}
	named := 0
	for o := range p.Ordinals.Iterate() {
		if p.byOrdinal[o] == nil {
			p.unavailable.UseName(ordinal.PodName(p.Set.Name, o))
			if named++; named == min(missing, namedSlots) {
				break
			}
		}
	}
	p.unavailable.UseOthers(missing - named)
}

// moveOne lets the claims of a pod grow first, and then moves the pod.
func (p *planner) moveOne(pod *podset.Pod, rollout podset.Rollout) {
	if p.Resize && p.growClaims(pod) {
		return
	}
	p.draft.Move(pod, rollout)
}

func (p *planner) rollout() podset.Rollout {
	return podset.Rollout{
		Target:       p.s.Update,
		MarkUpdating: func(pod *podset.Pod) bool { return pod.State != "" },
		Replace:      func(pod *podset.Pod) { p.removeWanted(pod, podset.ReasonOutdated) },
	}
}

// holdAll notes the waiting pods while the user has stopped updates.
func (p *planner) holdAll(specified []*podset.Pod) {
	candidates := p.targets
	if p.OnDelete {
		candidates = p.pods
	}
	waiting := slices.Clone(specified)
	for _, pod := range candidates {
		if p.outdated(pod) && pod.Unwanted == "" {
			waiting = append(waiting, pod)
		}
	}
	p.draft.HoldStopped(waiting)
}

// holdPartition notes the partition's pods.
func (p *planner) holdPartition() {
	if p.Partition == 0 || p.old == 0 {
		return
	}
	kept := map[*podset.Pod]bool{}
	for _, pod := range p.pods {
		if p.outdated(pod) {
			kept[pod] = true
		}
	}
	for _, pod := range p.targets {
		delete(kept, pod)
	}
	p.draft.HoldPartition(slices.Collect(maps.Keys(kept)), p.Partition)
}
