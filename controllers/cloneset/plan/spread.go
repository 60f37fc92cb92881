// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/internal/engine/podorder"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

// countStaying tells a WorkloadSpread which pods will still be there when the update is over: n new pods share the
// subsets with these. So a surge overfills no subset.
//
//  1. Pods that leave do not count, nor do those that the update replaces.
//  2. Of the others, pods beyond replicas do not count, in the order of scale-in.
func (p *planner) countStaying(n int) {
	if p.s.Spread == nil || n == 0 {
		return
	}
	leave := map[*podset.Pod]bool{}
	for _, pod := range p.replacedByUpdate() {
		leave[pod] = true
	}
	var old, staying []*podset.Pod
	for _, pod := range p.pods {
		switch {
		case leave[pod], preparingDelete(pod), specified(pod), p.leaving[pod.Object.Name]:
		case p.updated(pod):
			staying = append(staying, pod)
		default:
			old = append(old, pod)
		}
	}
	if surplus := min(len(old)+len(staying)+n-p.Replicas, len(old)); surplus > 0 {
		old = podorder.ForDeletion(old, p.pods, victim, podorder.Spread{})[surplus:]
	}
	objects := make([]*corev1.Pod, 0, len(old)+len(staying))
	for _, pod := range append(old, staying...) {
		objects = append(objects, pod.Object)
	}
	p.s.Spread.Count(objects)
}

// replacedByUpdate are the outdated pods that new ones will replace, as far as the partition goes.
func (p *planner) replacedByUpdate() []*podset.Pod {
	var outdated []*podset.Pod
	for _, pod := range p.pods {
		if !p.updated(pod) && !preparingDelete(pod) && !specified(pod) {
			outdated = append(outdated, pod)
		}
	}
	most := len(outdated) - p.Partition
	if p.OnDelete || most <= 0 {
		return nil
	}
	if ordered, err := p.inMoveOrder(outdated); err == nil {
		outdated = ordered
	}
	var replaced []*podset.Pod
	for _, pod := range outdated[:most] {
		if p.replaced(pod) {
			replaced = append(replaced, pod)
		}
	}
	return replaced
}

// replacedFirst lets pods leave that countStaying has left out, so that the split comes true.
func (p *planner) replacedFirst(old []*podset.Pod) []*podset.Pod {
	if p.s.Spread == nil {
		return old
	}
	replaced := p.replacedByUpdate()
	slices.SortStableFunc(old, func(a, b *podset.Pod) int { return first(slices.Contains(replaced, a), slices.Contains(replaced, b)) })
	return old
}
