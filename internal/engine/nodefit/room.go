// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package nodefit

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resources "k8s.io/component-helpers/resource"
)

// Requests are the resources of a pod with this spec: containers, init containers, overhead, and
// limits for missing requests, as the API server fills them in.
func Requests(spec *corev1.PodSpec) corev1.ResourceList {
	filled := *spec
	filled.Containers, filled.InitContainers = withLimits(spec.Containers), withLimits(spec.InitContainers)
	return resources.PodRequests(&corev1.Pod{Spec: filled}, resources.PodResourcesOptions{})
}

// withLimits are the containers with a request wherever there is a limit.
func withLimits(containers []corev1.Container) []corev1.Container {
	filled := slices.Clone(containers)
	for i := range filled {
		if len(filled[i].Resources.Limits) == 0 {
			continue
		}
		requests := maps.Clone(filled[i].Resources.Limits)
		maps.Copy(requests, filled[i].Resources.Requests)
		filled[i].Resources.Requests = requests
	}
	return filled
}

// Room is the free part of a node.
type Room struct {
	left corev1.ResourceList
}

// RoomOf is the free room of a node with the given pods; ended pods take none. Without pods it is
// an empty node's.
func RoomOf(node *corev1.Node, pods ...*corev1.Pod) Room {
	room := Room{left: maps.Clone(node.Status.Allocatable)}
	for _, pod := range pods {
		if pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			room.take(Requests(&pod.Spec))
		}
	}
	return room
}

// take subtracts one pod.
func (r *Room) take(requests corev1.ResourceList) {
	subtract := func(name corev1.ResourceName, request resource.Quantity) {
		if left, limited := r.left[name]; limited {
			left.Sub(request)
			r.left[name] = left
		}
	}
	for name, request := range requests {
		subtract(name, request)
	}
	subtract(corev1.ResourcePods, *resource.NewQuantity(1, resource.DecimalSI))
}

// Lacks are the resources short for one more pod with these requests, sorted; none when it has
// room. A resource unknown to the node is lacking unless 0 of it is requested.
func (r Room) Lacks(requests corev1.ResourceList) []corev1.ResourceName {
	var lacking []corev1.ResourceName
	for name, request := range requests {
		if left := r.left[name]; !request.IsZero() && left.Cmp(request) < 0 {
			lacking = append(lacking, name)
		}
	}
	if pods, limited := r.left[corev1.ResourcePods]; limited && pods.Sign() <= 0 {
		lacking = append(lacking, corev1.ResourcePods)
	}
	slices.Sort(lacking)
	return lacking
}
