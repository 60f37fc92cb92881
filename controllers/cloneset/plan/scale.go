// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"time"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podorder"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

// withReturned is the diff with fewer pods to create: pods back from their preDelete hook take the
// places of new ones, even where such pods do not count as replicas.
func (p *planner) withReturned(s diff) diff {
	if p.ExcludePreparingDelete {
		s.create = max(s.create-p.back, 0)
		s.createOld = min(s.createOld, s.create)
	}
	return s
}

// create is step 2: first the partition's share at the current revision, then the rest at the update revision.
func (p *planner) create(s diff) {
	n := p.backOff(min(s.create, podset.Creations(p.Claims.Claims)), s.createOld)
	if returning, after := p.returning(); returning > 0 {
		if waiting := min(returning, n-min(n, len(p.reusable()))); waiting > 0 {
			n -= waiting
			p.draft.Recheck(after)
			p.draft.Hold(planning.Note{
				Reason:  noteClaimsReturning,
				Message: fmt.Sprintf("%s to be created: volume claims are reused, and the pods that have them are terminating", podset.Waits(waiting)),
			})
		}
	}
	slots := p.freshSlots(n, s.createOld)
	p.draft.Expect(len(slots))
	p.countStaying(len(slots))
	for i, slot := range slots {
		rev := p.s.Update
		if i < s.createOld {
			rev = p.s.Current
		}
		p.existing[slot] = true
		pod := p.newPod(slot, rev)
		if p.s.Spread != nil {
			p.s.Spread.Put(pod, p.Selector)
		}
		p.draft.Create(slot, pod, p.ofSlot(slot, p.draft.ClaimsAt(p.Claims, rev.Name).Wanted(pod.Name, p.missing)), podset.ReasonScaleOut)
	}
	if len(slots) < n {
		p.draft.Hold(planning.Note{
			Reason:  noteNoFreshSlot,
			Message: fmt.Sprintf("%s to be created: no free instance ID was found for it", podset.Waits(n-len(slots))),
		})
		p.draft.Recheck(time.Second)
	}
	if s.held > 0 {
		limit := podset.Limit{Name: scaleLimit, Max: p.ScaleMaxUnavailable}
		for _, pod := range p.pods {
			if !pod.Available && (preparingDelete(pod) || !specified(pod)) {
				limit.Use(pod)
			}
		}
		for _, slot := range slots {
			limit.UseName(p.podName(slot))
		}
		p.draft.Hold(limit.Note(noteScaleUpLimited, s.held, nil))
	}
}

// backOff is how many of n pods may be created now, none after early failures. Nobody deletes
// failed pods, so a refusing node would otherwise get new ones many times a second, each with
// claims of its own.
func (p *planner) backOff(n, old int) int {
	available := 0
	for _, pod := range p.pods {
		if pod.Available {
			available++
		}
	}
	lacking := max(n, p.Replicas-available)
	if lacking == 0 {
		return n
	}
	revisions := []string{p.s.Update.Name}
	if old > 0 {
		revisions = append(revisions, p.s.Current.Name)
	}
	failures := p.s.EarlyFailures(revisions...)
	rounds := failures.Rounds(lacking)
	wait := failures.Wait(rounds, p.s.Now)
	held := n > 0 && wait > 0
	if held || rounds >= podset.FailuresToReport {
		p.draft.Hold(failures.Note(rounds, n))
		p.draft.Recheck(failures.Forgotten(p.s.Now))
	}
	if !held {
		return n
	}
	p.draft.Recheck(wait)
	return 0
}

// removeSpecified is the first half of step 3. Pods out of service go at once, the others while
// there is room. A finished pod is no replica any more, so its deletion costs nothing. Its name
// would otherwise stay in podsToDelete until the garbage collector takes the pod, perhaps never.
func (p *planner) removeSpecified() {
	for i := range p.s.Pods {
		if pod := &p.s.Pods[i]; pod.Unwanted == podset.UnwantedFinished && !pod.Terminating && p.userDeletes(pod.Object) {
			p.remove(pod, podset.ReasonSpecifiedDelete)
		}
	}
	var waiting []*podset.Pod
	for _, pod := range p.pods {
		if specified(pod) && !preparingDelete(pod) {
			waiting = append(waiting, pod)
		}
	}
	p.removeInTurn(waiting, podset.ReasonSpecifiedDelete)
}

// removeInTurn removes pods while there is room. A refused one leaves its place to the others until
// its next try.
func (p *planner) removeInTurn(pods []*podset.Pod, reason string) {
	pods, refused := p.draft.SplitRefusedRemovals(pods, planning.Free)
	replaced := func(*podset.Pod) bool { return reason != podset.ReasonScaleIn }
	admitted, blocked := p.unavailable.Select(pods, replaced)
	p.blocked = append(p.blocked, blocked...)
	_, due := p.draft.SplitRefusedRemovals(blocked, planning.Full)
	for _, pod := range slices.Concat(admitted, refused, due) {
		p.remove(pod, reason)
	}
}

// scaleIn is the second half of step 3: first pods beyond the partition's need, then updated ones,
// each in the order of deletion. An unavailable pod goes at once, as there are enough others, ready
// or soon ready like itself; an available one while there is room.
func (p *planner) scaleIn(s diff) {
	if s.remove == 0 {
		return
	}
	var old, updated []*podset.Pod
	for _, pod := range p.pods {
		switch {
		case preparingDelete(pod), specified(pod):
		case p.updated(pod), p.Options.PreparingUpdateAsUpdate && pod.State == shared.StatePreparingUpdate:
			updated = append(updated, pod)
		default:
			old = append(old, pod)
		}
	}
	spread := podorder.Spread{Constraints: p.Set.Spec.Template.Spec.TopologySpreadConstraints, Domain: p.s.NodeLabel}
	ordered := func(pods []*podset.Pod) []*podset.Pod { return podorder.ForDeletion(pods, p.pods, victim, spread) }
	old, updated = p.leavingFirst(ordered(old)), ordered(updated)
	// The other revision gives what one cannot.
	fromOld := min(max(s.removeOld, s.remove-len(updated)), len(old))
	victims := append(old[:fromOld:fromOld], updated[:min(s.remove-fromOld, len(updated))]...)
	var available []*podset.Pod
	for _, pod := range victims {
		if pod.Available {
			available = append(available, pod)
		} else {
			p.remove(pod, podset.ReasonScaleIn)
		}
	}
	p.removeInTurn(available, podset.ReasonScaleIn)
}

func victim(pod *podset.Pod) podorder.Victim {
	return podorder.Victim{Object: pod.Object, Ready: pod.Ready, Available: pod.Available}
}
