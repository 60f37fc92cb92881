// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podorder"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

// orderTargets finds the pods that may leave the current revision.
//
// Ordered: all but the partition's share of the lowest ordinals, from the highest down. Unordered: as many as the partition
// leaves, where pods that are updated, are terminating or will be created at the update revision are the first to count. Next are
// those that an earlier update left unavailable, then the rest by priority, among equals those that are not in service first, and from
// the highest ordinal down.
func (p *planner) orderTargets() {
	if !p.Unordered {
		for _, pod := range slices.Backward(p.pods) {
			if p.staysOld(podOrdinal(pod)) {
				break
			}
			p.targets = append(p.targets, pod)
		}
		return
	}
	var waiting []*podset.Pod
	for _, pod := range slices.Backward(p.pods) {
		switch {
		case pod.Terminating:
		case p.outdated(pod):
			waiting = append(waiting, pod)
		default:
			p.targets = append(p.targets, pod)
		}
	}
	// Otherwise the partition could keep an unavailable pod against maxUnavailable, and no pod
	// would ever move.
	slices.SortStableFunc(waiting, func(a, b *podset.Pod) int {
		return cmp.Or(
			podorder.FalseFirst(a.State != shared.StatePreparingUpdate, b.State != shared.StatePreparingUpdate),
			podorder.FalseFirst(a.InService(), b.InService()),
		)
	})
	ordered, err := podorder.ForUpdate(waiting, p.pods, func(pod *podset.Pod) *corev1.Pod { return pod.Object }, podorder.UpdateOrder{Priority: p.PriorityStrategy})
	if err != nil {
		p.draft.Hold(planning.Note{Reason: podset.ReasonInvalidSpec, Message: fmt.Sprintf("spec.updateStrategy.rollingUpdate.unorderedUpdate.%v", err)})
		return
	}
	slices.SortStableFunc(ordered, p.s.FailedUpdatesFirst)
	// The partition keeps its number of pods at the current revision, future ones included.
	missing := p.Ordinals.Len() - len(p.pods)
	keep := max(p.Partition-min(missing, max(p.Partition-p.old, 0)), 0)
	p.targets = append(p.targets, ordered[:max(len(ordered)-keep, 0)]...)
}

func (p *planner) outdated(pod *podset.Pod) bool {
	return !pod.Terminating && pod.Revision != p.s.Update.Name
}

// movable are the targets free to move. Of the others it notes why not.
func (p *planner) movable() []*podset.Pod {
	rollout := p.rollout()
	var movable, outdated []*podset.Pod
	for _, pod := range p.targets {
		if pod.Terminating || pod.Unwanted != "" {
			continue
		}
		if p.s.MovesNoPods() && p.outdated(pod) {
			outdated = append(outdated, pod)
			continue
		}
		method, why := p.draft.UpdateMethod(pod, rollout)
		if method == podset.MethodRefused {
			p.draft.Refuse(pod, why)
			continue
		}
		grow := p.Resize && p.grows(pod)
		if grow && p.cannotGrow(pod) {
			continue
		}
		if grow || method != podset.MethodNone {
			movable = append(movable, pod)
		}
	}
	p.draft.HoldForTemplate(outdated)
	return movable
}
