// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"

	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

// update is step 3.
func (p *planner) update() {
	outdated := p.outdated()
	switch {
	case p.OnDelete, p.Paused:
		p.draft.HoldStopped(outdated)
		return
	case p.s.MovesNoPods():
		p.draft.HoldForTemplate(outdated)
		return
	}
	targets := p.targets()
	if p.surges() {
		p.surge(targets)
	} else {
		p.move(targets)
	}
	p.holdKept(outdated, targets)
}

// outdated are the staying pods at another revision, in the order of their nodes.
func (p *planner) outdated() []*podset.Pod {
	var outdated []*podset.Pod
	for _, at := range p.places {
		for _, pod := range at.running {
			if !p.updated(pod) && !preparingDelete(pod) && !p.draft.Taken(pod) {
				outdated = append(outdated, pod)
			}
		}
	}
	return outdated
}

// target is a node for the update revision.
type target struct {
	*place
	// fresh is its updated pod, old its other one. Excess: it has more than these.
	fresh, old *podset.Pod
	excess     bool
}

// targets are the nodes within the update's reach. Wanted nodes and those with a pod are sorted by
// name, the last one first, and in three classes: those with an updated pod or more pods than one
// of each sort; those with their old pod gone or going; those with an old pod, and a match for the
// selector. The partition keeps its number of nodes at the end of this order.
//
// Unwanted nodes take part until their pods are gone: also those whose taint lets pods stay, such
// as unready ones. PruneIneligibleNodes leaves out those beyond their pod's template, too.
func (p *planner) targets() []target {
	var classes [3][]target
	nodes := 0
	for _, at := range slices.Backward(p.places) {
		if !at.shouldRun() && (len(at.pods) == 0 || p.Options.PruneIneligibleNodes && !p.leavesByUpdate(at)) {
			continue
		}
		nodes++
		t := target{place: at}
		for _, pod := range at.running {
			kept := &t.old
			if p.updated(pod) {
				kept = &t.fresh
			}
			t.excess = t.excess || *kept != nil
			if *kept == nil {
				*kept = pod
			}
		}
		switch {
		case t.fresh != nil || t.excess:
			classes[0] = append(classes[0], t)
		case t.old == nil || preparingDelete(t.old):
			classes[1] = append(classes[1], t)
		case p.selects(at):
			classes[2] = append(classes[2], t)
		}
	}
	all := slices.Concat(classes[:]...)
	return all[:min(len(all), max(nodes-p.Partition, 0))]
}

// move updates pods under maxUnavailable. A node without exactly one pod uses up the limit, and so
// does an unavailable pod. Outdated pods out of service move at once; the others move in order
// while there is room. A refused one leaves its place to the others until its next try.
func (p *planner) move(targets []target) {
	limit := podset.Limit{Name: "maxUnavailable", Max: p.MaxUnavailable}
	var movable []*podset.Pod
	for _, t := range targets {
		switch {
		case t.fresh == nil && t.old == nil && !t.shouldContinue():
			// Its pod is going for good: the update must not wait for it, however long.
		case t.fresh == nil && t.old == nil && len(t.pods) > 0:
			limit.Use(t.pods[0]) // terminating, for as long as the kubelet does not answer, or finished
		case t.fresh == nil && t.old == nil:
			limit.UseOthers(1)
		case t.excess, t.fresh != nil && t.old != nil:
			limit.Use(t.running[0])
		case t.fresh != nil:
			if !t.fresh.Available {
				limit.Use(t.fresh)
			}
		case preparingDelete(t.old), p.draft.Taken(t.old):
			limit.Use(t.old)
		default:
			if !t.old.Available {
				limit.Use(t.old)
			}
			movable = append(movable, t.old)
		}
	}
	p.draft.HoldReplaced(movable, p.rollout())
	admitted, waiting := p.draft.Select(&limit, movable, p.rollout())
	for _, pod := range admitted {
		p.moveOne(pod)
	}
	p.draft.HoldLimited(&limit, waiting)
}

// rollout is how pods move.
func (p *planner) rollout() podset.Rollout {
	return podset.Rollout{
		Target:       p.s.Update,
		MarkUpdating: func(*podset.Pod) bool { return false },
		Replace:      func(pod *podset.Pod) { p.remove(pod, podset.ReasonOutdated) },
	}
}

// moveOne brings a pod to the update revision.
func (p *planner) moveOne(pod *podset.Pod) {
	rollout := p.rollout()
	if method, _ := p.draft.UpdateMethod(pod, rollout); method == podset.MethodInPlace && !p.takeEdit(pod) {
		return
	}
	p.draft.Move(pod, rollout)
}

// holdKept notes the outdated pods of the partition, the selector and unwanted nodes.
func (p *planner) holdKept(outdated []*podset.Pod, targets []target) {
	reached := make(map[string]bool, len(targets))
	for _, t := range targets {
		reached[t.name] = true
	}
	byName := make(map[string]*place, len(p.places))
	for _, at := range p.places {
		byName[at.name] = at
	}
	var kept, unselected, ineligible []*podset.Pod
	for _, pod := range outdated {
		name := string(pod.Slot)
		switch {
		case p.draft.Taken(pod):
		case !byName[name].shouldRun() && (p.Options.PruneIneligibleNodes || p.surges()):
			ineligible = append(ineligible, pod)
		case reached[name]:
		case p.selects(byName[name]):
			kept = append(kept, pod)
		default:
			unselected = append(unselected, pod)
		}
	}
	p.draft.HoldPartition(kept, p.Partition)
	p.draft.HoldPods(noteNodeSelector, unselected, fmt.Sprintf("updateStrategy.rollingUpdate.selector does not match the nodes of %s at an earlier revision",
		podset.Count(len(unselected), "pod", "pods")))
	p.draft.HoldPods(noteIneligible, ineligible, podset.Count(len(ineligible), "pod is", "pods are")+
		" at an earlier revision on nodes that should not run a pod now, which the update leaves alone")
}

// surge updates pods under maxSurge: the new pod of a node runs beside the old one until it is available. Leaving deletes the old one then.
//
// A node whose old pod is not in service gets its new pod at once. The others follow in order while fewer nodes than maxSurge wait for
// their new pod, or for the preDelete hook of the old one. A node whose new pod was refused leaves its place to the next one until its next try. Nodes
// that should not run a pod get none. Theirs goes if it is the new template that does not fit, and stays if neither does, as on a node that is not ready.
func (p *planner) surge(targets []target) {
	surging := 0
	var candidates []*place
	for _, t := range targets {
		switch {
		case t.fresh != nil && t.old != nil && p.draft.HeldByPreDelete(t.old):
			surging++ // for as long as the user holds the old pod at its hook, the node runs two
		case t.excess, t.old == nil, preparingDelete(t.old), p.draft.Taken(t.old):
			// Either there is nothing to surge for, or the node is on its way.
		case t.fresh != nil, t.hasFinished():
			surging++ // a failed new pod keeps its place: the next one comes when it is deleted, later and later
		case !t.shouldRun():
			if p.leavesByUpdate(t.place) {
				p.moveOne(t.old)
			}
		case !t.old.InService():
			p.create(t.place, reasonSurge)
		default:
			candidates = append(candidates, t.place)
		}
	}
	if waiting := p.createFor(candidates, p.MaxSurge-surging, reasonSurge); len(waiting) > 0 {
		p.draft.Hold(planning.Note{
			Reason:  noteMaxSurge,
			Message: fmt.Sprintf("%s: maxSurge %d is used up by nodes that run two pods", podset.Waits(len(waiting)), p.MaxSurge),
			Slots:   slotsOf(waiting),
		})
	}
}
