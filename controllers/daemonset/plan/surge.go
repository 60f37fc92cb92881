// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"

	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

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
