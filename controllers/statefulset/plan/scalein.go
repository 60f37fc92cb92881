// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

// scaleInAtOnce removes all pods with unwanted ordinals.
func (p *planner) scaleInAtOnce() {
	for _, pod := range p.surplus {
		p.removeSurplus(pod)
	}
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
