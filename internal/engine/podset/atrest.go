// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podset

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/inplace"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

// AtRest remembers facts about the pods of one workload at rest: available, without an update in place or
// anything wrong. They stay true until the pod or the spec changes. In a rollout of thousands of pods, a few
// dozen change between two passes. The zero value knows nothing.
type AtRest struct {
	// generation is the spec's, for which the facts hold.
	generation int64
	// pods are the last pass's. The cache never changes a pod: it replaces it.
	pods map[*corev1.Pod]resting
	// spare is an empty map for the next pass.
	spare map[*corev1.Pod]resting
}

// resting is the difference between pods at rest.
type resting struct {
	id    Identity
	state shared.LifecycleState
}

// ByName are the pods in the order of their names.
func ByName(objects []*corev1.Pod) []*corev1.Pod {
	return slices.SortedFunc(slices.Values(objects), func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
}

// Observe is [Observe] for pods, in their order. It derives nothing about an unchanged pod at rest. generation
// is the spec's, and must determine all that identify says. Nil remembers nothing.
func (k *AtRest) Observe(generation int64, objects []*corev1.Pod, rules FactRules, identify func(*corev1.Pod) Identity) []Pod {
	if k == nil {
		k = &AtRest{}
	}
	pods := make([]Pod, len(objects))
	if k.generation != generation {
		clear(k.pods)
		k.generation = generation
	}
	next := k.spare
	if next == nil {
		next = make(map[*corev1.Pod]resting, len(objects))
	}
	for i, object := range objects {
		is, known := k.pods[object]
		if known {
			pods[i] = is.pod(object)
		} else {
			pods[i] = Observe(object, identify(object), rules)
			is, known = rest(&pods[i])
		}
		if known {
			next[object] = is
		}
	}
	clear(k.pods) // Nothing must keep pods in memory that are gone.
	k.pods, k.spare = next, k.pods
	return pods
}

// rest is the memory of a pod; false for one not at rest.
func rest(pod *Pod) (resting, bool) {
	id := Identity{Slot: pod.Slot, Revision: pod.Revision, Unwanted: pod.Unwanted}
	return resting{id, pod.State}, pod.Available && pod.Update == inplace.Status{} && pod.Trouble == podstate.Trouble{}
}

// pod is the pod at rest.
func (r resting) pod(object *corev1.Pod) Pod {
	return Pod{
		Object: object, Slot: r.id.Slot, Revision: r.id.Revision, Unwanted: r.id.Unwanted, State: r.state, Ready: true, Available: true,
	}
}
