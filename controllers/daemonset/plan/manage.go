// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"

	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

// leave is step 1. For each node, the first that holds:
//
//  1. The cluster does not have the node: unbound pods are deleted, as nothing else would; bound
//     ones are left to the garbage collector of pods.
//  2. The node should not keep a pod: all its pods are deleted.
//  3. Otherwise finished pods are deleted (leaveFinished), for another one in their place, and so
//     are second pods. A pod at its preDelete hook goes on leaving: staying cannot undo the user's
//     work there.
func (p *planner) leave() {
	for _, at := range p.places {
		switch {
		case at.node == nil:
			for _, pod := range at.pods {
				if pod.Object.Spec.NodeName == "" || preparingDelete(pod) {
					p.remove(pod, reasonMisscheduled)
				}
			}
		case !at.shouldContinue():
			for _, pod := range at.pods {
				p.remove(pod, reasonMisscheduled)
			}
		default:
			p.leaveNode(at)
		}
	}
}

func (p *planner) leaveNode(at *place) {
	var staying []*podset.Pod
	for _, pod := range at.pods {
		switch {
		case pod.Terminating:
		case podstate.Finished(pod.Object):
			p.finished = append(p.finished, pod)
		case preparingDelete(pod):
			p.draft.ExplainReplaced(pod, p.rollout())
			p.remove(pod, podset.ReasonOutdated)
		default:
			staying = append(staying, pod)
		}
	}
	if len(staying) < 2 {
		return
	}
	if !p.surges() {
		for _, pod := range staying[1:] {
			p.remove(pod, reasonSurplus)
		}
		return
	}
	p.leaveSurge(staying)
}

// leaveFinished deletes the finished pods of wanted nodes. It comes last: on a node with failure
// after failure such a deletion waits, and would take the others' share of burstReplicas.
func (p *planner) leaveFinished() {
	for _, pod := range p.finished {
		p.remove(pod, podset.ReasonFinished)
	}
}

// leaveSurge decides which pods stay on a node for two: the oldest updated one and the oldest other
// one, while the first is not available and the second is still ready. The pods are sorted, oldest
// first.
func (p *planner) leaveSurge(staying []*podset.Pod) {
	var fresh, old *podset.Pod
	for _, pod := range staying {
		kept := &old
		if p.updated(pod) {
			kept = &fresh
		}
		if *kept != nil {
			p.remove(pod, reasonSurplus)
			continue
		}
		*kept = pod
	}
	if fresh != nil && old != nil && (fresh.Available || !old.Ready) {
		p.remove(old, podset.ReasonOutdated)
	}
}

// createMissing is step 2: nodes in the order of their names, as many as partitionedScaling and
// burstReplicas allow. A refused one leaves its place to the next one until its next try.
func (p *planner) createMissing() {
	var missing []*place
	updated := 0
	for _, at := range p.places {
		if !at.shouldRun() {
			continue
		}
		if slices.ContainsFunc(at.running, p.updated) {
			updated++
		}
		if at.free() || p.surges() && allTerminating(at.pods) {
			missing = append(missing, at)
		}
	}
	room := len(missing)
	if p.PartitionedScaling && p.Partition > 0 {
		room = max(p.Replicas-updated-min(p.Partition, p.Replicas), 0)
	}
	kept := p.createFor(missing, room, reasonMissing)
	if len(kept) > 0 {
		p.draft.Hold(planning.Note{
			Reason: notePartitionedScaling,
			Message: fmt.Sprintf("%s to be created: with scaleStrategy.partitionedScaling, partition %d keeps nodes without an updated pod",
				podset.Waits(len(kept)), p.Partition),
			Slots: slotsOf(kept),
		})
	}
}

// createFor creates the pods of nodes while there is room, and returns the waiting nodes. A refused
// one takes no room until its next try.
func (p *planner) createFor(nodes []*place, room int, reason string) (waiting []*place) {
	for _, at := range nodes {
		switch {
		case p.setAside(at, room > 0):
			p.create(at, reason)
		case room > 0:
			room--
			p.create(at, reason)
		default:
			waiting = append(waiting, at)
		}
	}
	return waiting
}

func allTerminating(pods []*podset.Pod) bool {
	return !slices.ContainsFunc(pods, func(pod *podset.Pod) bool { return !pod.Terminating })
}

// create creates a pod for a node, as far as burstReplicas allows. A plan too large leaves the rest
// to the next one.
func (p *planner) create(at *place, reason string) {
	switch {
	case p.setAside(at, p.creations > 0):
	case !p.take(&p.creations, at.slot()):
		return
	case p.created == podset.MaxCreations:
		p.draft.Recheck(afterBurst)
		return
	default:
		p.created++
	}
	p.draft.Create(at.slot(), p.newPod(at.name), nil, reason)
}

// setAside sets the refused pod of a node aside. It takes no place from other nodes.
func (p *planner) setAside(at *place, free planning.Place) bool {
	return p.draft.SetCreationAside(p.Namespace, at.slot(), free)
}

func slotsOf(places []*place) []planning.Slot {
	slots := make([]planning.Slot, len(places))
	for i, at := range places {
		slots[i] = at.slot()
	}
	return slots
}
