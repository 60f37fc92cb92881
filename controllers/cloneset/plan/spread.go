// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/internal/engine/podorder"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/spread"
)

// countStaying tells a WorkloadSpread which pods will still be there when the update is over: n new pods share the
// subsets with these. So a surge overfills no subset.
//
//  1. Pods that leave do not count, nor do those that the update replaces.
//  2. Of the others, pods beyond replicas do not count: those that would be updated last.
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
		if ordered, err := p.inMoveOrder(old); err == nil {
			old = ordered
		}
		old = old[:len(old)-surplus]
	}
	p.s.Spread.Count(objectsOf(append(old, staying...)))
}

func objectsOf(pods []*podset.Pod) []*corev1.Pod {
	objects := make([]*corev1.Pod, 0, len(pods))
	for _, pod := range pods {
		objects = append(objects, pod.Object)
	}
	return objects
}

// surplusLast moves outdated pods to the end of the order of updates that make their subset too large. The surge takes their place.
func (p *planner) surplusLast(ordered []*podset.Pod) []*podset.Pod {
	if p.s.Spread == nil {
		return ordered
	}
	staying := slices.DeleteFunc(slices.Clone(p.pods), func(pod *podset.Pod) bool {
		return preparingDelete(pod) || specified(pod) || p.leaving[pod.Object.Name]
	})
	left := len(staying) - p.Replicas
	over := p.s.Spread.Beyond(objectsOf(staying))
	var first, last []*podset.Pod
	for _, pod := range slices.Backward(ordered) {
		i, _ := p.s.Spread.SubsetOf(pod.Object)
		if left > 0 && !p.updated(pod) && i != spread.None && over[i] > 0 {
			left, over[i] = left-1, over[i]-1
			last = append(last, pod)
		} else {
			first = append(first, pod)
		}
	}
	slices.Reverse(first)
	slices.Reverse(last)
	return append(first, last...)
}

// replacedByUpdate are the outdated pods that new ones will replace, as far as the partition goes.
func (p *planner) replacedByUpdate() []*podset.Pod {
	outdated := slices.DeleteFunc(slices.Clone(p.pods), func(pod *podset.Pod) bool {
		return p.updated(pod) || preparingDelete(pod) || specified(pod)
	})
	most := len(outdated) - p.Partition
	if p.OnDelete || most <= 0 {
		return nil
	}
	if ordered, err := p.inMoveOrder(outdated); err == nil {
		outdated = ordered
	}
	return slices.DeleteFunc(outdated[:most], func(pod *podset.Pod) bool { return !p.replaced(pod) })
}

// leavingFirst lets pods leave that countStaying has left out, so that the split comes true.
func (p *planner) leavingFirst(old []*podset.Pod) []*podset.Pod {
	if p.s.Spread == nil {
		return old
	}
	replaced := p.replacedByUpdate()
	if ordered, err := p.inMoveOrder(old); err == nil && len(replaced) == 0 {
		old = p.surplusLast(ordered)
		slices.Reverse(old)
	}
	slices.SortStableFunc(old, func(a, b *podset.Pod) int {
		return podorder.FalseFirst(slices.Contains(replaced, b), slices.Contains(replaced, a))
	})
	return old
}
