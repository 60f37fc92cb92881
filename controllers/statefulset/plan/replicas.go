// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/ordinal"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
)

// namedSlots is how many slots a note about missing pods names at most.
const namedSlots = 100

// replicasAtOnce handles every ordinal independently:
//
//  1. Finished pods are removed, always and before everything else, for their replacement.
//  2. Missing pods are created in ascending order while scaleStrategy.maxUnavailable has room.
//     Unavailable pods at lower ordinals use it up.
func (p *planner) replicasAtOnce() {
	for _, pod := range p.pods {
		if pod.Unwanted == podset.UnwantedFinished {
			p.removeFinished(pod)
		}
	}

	missing := p.Ordinals.Len() - len(p.pods)
	limit := podset.Limit{Name: scaleLimit, Max: p.ScaleMaxUnavailable}
	created, waiting := 0, []planning.Slot(nil)
	var going []string
	left := missing
	most := p.creations()
	p.draft.Expect(min(missing, most))
	for o := range p.Ordinals.Iterate() {
		if left == 0 {
			break
		}
		if pod := p.byOrdinal[o]; pod != nil {
			if !pod.Available {
				limit.Use(pod)
			}
			continue
		}
		left--
		name := ordinal.PodName(p.Set.Name, o)
		switch {
		case limit.Room() && created+len(going) < most:
			if p.claimsGoing(o, name) {
				going = append(going, name)
				continue
			}
			limit.UseName(name)
			p.create(o)
			created++
		case len(waiting) < namedSlots:
			waiting = append(waiting, slotOf(o))
		}
		if len(waiting) == namedSlots {
			break
		}
	}
	if held := missing - created - len(going); held > 0 && created+len(going) < most {
		p.draft.Hold(limit.Note(noteScaleMaxUnavailable, held, waiting))
	}
	p.holdForClaims(going)
}

// replicasInOrder handles the ordinals one after the other, in ascending order, and stops at the
// first out of order: missing, finished, terminating or unavailable. It reports whether all are
// available.
//
// The next revision may repair the very pod at which it stops. Such pods are therefore moved all
// the same, one at a time; see moveUnavailable.
func (p *planner) replicasInOrder() bool {
	for o := range p.Ordinals.Iterate() {
		pod := p.byOrdinal[o]
		switch {
		case pod == nil:
			name := ordinal.PodName(p.Set.Name, o)
			if p.claimsGoing(o, name) {
				p.holdForClaims([]string{name})
			} else {
				p.create(o)
			}
			return false
		case pod.Terminating:
			p.holdFor(pod, noteTerminating, "is terminating")
			return false
		case pod.Unwanted == podset.UnwantedFinished:
			p.removeFinished(pod)
			return false
		case !pod.Available:
			p.holdFor(pod, notePodNotReady, "is not available yet")
			p.moveUnavailable()
			return false
		}
	}
	return true
}

// holdFor notes that everything else waits for one pod, if there is anything else.
func (p *planner) holdFor(pod *podset.Pod, reason, what string) {
	specified := func(pod *podset.Pod) bool { return pod.Unwanted == podset.UnwantedSpecified }
	if len(p.pods) < p.Ordinals.Len() || len(p.surplus) > 0 || slices.ContainsFunc(p.targets, p.outdated) || slices.ContainsFunc(p.pods, specified) {
		p.draft.Hold(planning.Note{
			Reason:  reason,
			Message: fmt.Sprintf("the next step waits: %s %s", pod.Object.Name, what),
			Slots:   []planning.Slot{pod.Slot},
		})
	}
}

// create plans the pod of an ordinal, with its missing claims.
func (p *planner) create(o int) {
	rev := p.revisionFor(o)
	if rev.Name != p.s.Update.Name {
		p.old++
	}
	pod := p.newPod(o, rev)
	own := p.draft.ClaimsAt(p.Claims, rev.Name)
	p.fixOwnersOf(own, slotOf(o), pod, false)
	p.draft.Create(slotOf(o), pod, p.owned(own.Wanted(pod.Name, p.missing)), podset.ReasonScaleOut)
}

// removeFinished removes a failed or succeeded pod, for another one in its place. The user's
// deletion is not slowed down.
func (p *planner) removeFinished(pod *podset.Pod) {
	reason := podset.ReasonFinished
	if _, asked := pod.Object.Labels[shared.LabelSpecifiedDelete]; asked {
		reason = podset.ReasonSpecifiedDelete
	}
	p.removeWanted(pod, reason)
}

// revisionAfter is the revision of the pod's successor.
func (p *planner) revisionAfter(pod *podset.Pod) revision.Revision {
	old := p.old
	defer func() { p.old = old }()
	if p.outdated(pod) {
		p.old--
	}
	return p.revisionFor(podOrdinal(pod))
}

// revisionFor is the revision of a missing pod. The partition keeps the lowest ordinals at the
// current one; for an unordered update it keeps any pods, so a new one is needed at it only while
// there are too few.
func (p *planner) revisionFor(o int) revision.Revision {
	var old bool
	switch {
	case p.OnDelete:
	case p.Unordered:
		old = p.old < p.Partition
	default:
		old = p.staysOld(o)
	}
	if old {
		return p.s.Current
	}
	return p.s.Update
}

// scaleInInOrder removes the pod with the highest unwanted ordinal, and waits until it is gone,
// also at its preDelete hook. An unavailable pod waits until it is available, unless it is the
// lowest of those, has finished, is being deleted already, or its user deletes it. It reports
// whether there was nothing to do.
func (p *planner) scaleInInOrder() bool {
	if len(p.surplus) == 0 {
		return true
	}
	pod := p.surplus[0]
	_, specified := pod.Object.Labels[shared.LabelSpecifiedDelete]
	switch {
	case pod.Terminating:
		p.fixOwners(pod, true)
		p.holdFor(pod, noteTerminating, "is terminating")
	case pod.Available, specified, pod.State == shared.StatePreparingDelete, podstate.Finished(pod.Object), pod == p.lowestUnavailable():
		p.removeSurplus(pod)
	default:
		p.holdFor(pod, notePodNotReady, "is not available yet, and neither is a pod below it")
	}
	return false
}

// lowestUnavailable is the unavailable surplus pod with the lowest ordinal.
func (p *planner) lowestUnavailable() *podset.Pod {
	for _, pod := range slices.Backward(p.surplus) {
		if !pod.Available {
			return pod
		}
	}
	return nil
}

// removeSurplus removes a pod once its claims have the owners of their deletion. It does not wait
// for ever for refused ones: then the claims stay.
func (p *planner) removeSurplus(pod *podset.Pod) {
	edits := p.fixOwners(pod, true)
	if p.draft.Awaits(edits, afterClaims, !p.Resize) { // a size that is refused says nothing about owners
		return
	}
	if len(edits) > 0 {
		p.draft.AppendToEvent(pod, ", but its volume claims cannot be given to it, and stay")
	}
	p.draft.Remove(pod, podset.ReasonScaleIn)
}
