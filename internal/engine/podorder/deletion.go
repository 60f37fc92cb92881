// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podorder

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
)

// Victim is a pod in the order of deletion.
type Victim struct {
	// Object is the pod. Two values for the same pod have the same Object.
	Object *corev1.Pod
	// Ready and Available are the workload's own judgment.
	Ready, Available bool
}

// Spread is how the pods of a workload should be spread over the cluster.
type Spread struct {
	// Constraints are the template's.
	Constraints []corev1.TopologySpreadConstraint
	// Domain is the value of a label of a node; "" when the node has none or is not known. Not needed without constraints.
	Domain func(node, key string) string
}

// ForDeletion returns the pods in the order in which they should be deleted when the workload shrinks. The first criterion
// that differs decides:
//
//  1. pods without a node before pods on one;
//  2. Pending before Unknown before Running;
//  3. unavailable before available;
//  4. not ready before ready;
//  5. the lower pod-deletion-cost;
//  6. the more crowded place: the higher rank;
//  7. ready for a shorter time;
//  8. more container restarts, and among equal ones more of init containers, which native sidecars are;
//  9. younger.
//
// all are the pods that crowd each other, pods included.
func ForDeletion[P any](pods, all []P, victim func(P) Victim, spread Spread) []P {
	keys := make(map[*corev1.Pod]*deletionKey, len(all))
	related := make([]*deletionKey, 0, len(all))
	add := func(p P) *deletionKey {
		v := victim(p)
		if key, has := keys[v.Object]; has {
			return key
		}
		key := newDeletionKey(v)
		keys[v.Object] = key
		return key
	}
	for _, p := range all {
		related = append(related, add(p))
	}
	rank(related, spread)
	return sortBy(pods, add, func(a, b *deletionKey) int { return cmp.Or(a.urgency(b), cmp.Compare(b.rank, a.rank), a.age(b)) })
}

// deletionKey holds the criteria of one pod.
type deletionKey struct {
	node             string
	phase            int
	available, ready bool
	cost             int32
	rank             float64
	readySince       time.Time
	restarts         int32
	initRestarts     int32
	created          time.Time
}

func newDeletionKey(v Victim) *deletionKey {
	key := &deletionKey{
		node:      v.Object.Spec.NodeName,
		phase:     phaseOrder(v.Object.Status.Phase),
		available: v.Available,
		ready:     v.Ready,
		cost:      deletionCost(v.Object),
		created:   v.Object.CreationTimestamp.Time,
	}
	for _, c := range v.Object.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			key.readySince = c.LastTransitionTime.Time
		}
	}
	for _, c := range v.Object.Status.ContainerStatuses {
		key.restarts = max(key.restarts, c.RestartCount)
	}
	for _, c := range v.Object.Status.InitContainerStatuses {
		key.initRestarts = max(key.initRestarts, c.RestartCount)
	}
	return key
}

func phaseOrder(phase corev1.PodPhase) int {
	switch phase {
	case corev1.PodUnknown:
		return 1
	case corev1.PodRunning:
		return 2
	default:
		return 0
	}
}

// deletionCost is 0 for anything but an integer in its shortest form.
func deletionCost(pod *corev1.Pod) int32 {
	text := pod.Annotations[shared.AnnotationPodDeletionCost]
	cost, err := strconv.ParseInt(text, 10, 32)
	if err != nil || strconv.FormatInt(cost, 10) != text {
		return 0
	}
	return int32(cost)
}

// urgency compares what comes before the rank.
func (k *deletionKey) urgency(other *deletionKey) int {
	return cmp.Or(
		FalseFirst(k.node != "", other.node != ""),
		cmp.Compare(k.phase, other.phase),
		FalseFirst(k.available, other.available),
		FalseFirst(k.ready, other.ready),
		cmp.Compare(k.cost, other.cost),
	)
}

// age compares what comes after the rank. A time that is not known counts as the latest.
func (k *deletionKey) age(other *deletionKey) int {
	readySince := 0
	if k.ready && other.ready {
		readySince = laterFirst(k.readySince, other.readySince)
	}
	return cmp.Or(readySince, cmp.Compare(other.restarts, k.restarts), cmp.Compare(other.initRestarts, k.initRestarts), laterFirst(k.created, other.created))
}

// FalseFirst compares: false comes first.
func FalseFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

func laterFirst(a, b time.Time) int {
	if a.IsZero() || b.IsZero() {
		return FalseFirst(!a.IsZero(), !b.IsZero())
	}
	return b.Compare(a)
}

// rank says how crowded the place of each pod is. Without constraints it is the pod's position among the pods of its node. With
// constraints it is the sum, over them, of its position among the pods of its domain, weighted by how many domains there
// are. In a domain the pods to keep come first, so the next victim of a crowded domain ranks highest there.
func rank(pods []*deletionKey, spread Spread) {
	byAge := keepOrder(pods, nil)
	onNode := make([]int, len(pods))
	positions(byAge, onNode, func(i int) string { return pods[i].node })
	if len(spread.Constraints) == 0 {
		for i, key := range pods {
			key.rank = float64(onNode[i])
		}
		return
	}
	// A template may have any number of constraints: the pods are sorted once for all of them.
	byNode := keepOrder(pods, onNode)
	at := make([]int, len(pods))
	for _, constraint := range spread.Constraints {
		order := byNode
		if constraint.TopologyKey == corev1.LabelHostname { // For pods of one host, sharing that host makes no difference.
			order = byAge
		}
		domains := positions(order, at, func(i int) string {
			if pods[i].node == "" {
				return ""
			}
			return spread.Domain(pods[i].node, constraint.TopologyKey)
		})
		weight := math.Log(float64(domains + 2))
		for i, position := range at {
			pods[i].rank += float64(position) * weight
		}
	}
}

// keepOrder are the indexes of the pods, those to keep first: by urgency, then by secondary, then by age.
func keepOrder(pods []*deletionKey, secondary []int) []int {
	indexes := make([]int, len(pods))
	for i := range indexes {
		indexes[i] = i
	}
	slices.SortStableFunc(indexes, func(a, b int) int {
		crowded := 0
		if secondary != nil {
			crowded = cmp.Compare(secondary[a], secondary[b])
		}
		return cmp.Or(pods[b].urgency(pods[a]), crowded, pods[b].age(pods[a]))
	})
	return indexes
}

// positions finds out where each pod stands in its group, in this order of their indexes, and returns how many groups there are. Pods in no group ("")
// stand at 0.
func positions(order, at []int, group func(i int) string) (groups int) {
	seen := map[string]int{}
	for _, i := range order {
		at[i] = 0
		if g := group(i); g != "" {
			at[i] = seen[g]
			seen[g]++
		}
	}
	return len(seen)
}
