// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package nodefit

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
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

// Lacks are the resources a node, empty, is short of for a pod with these requests, sorted. A
// resource unknown to the node is lacking unless 0 of it is requested.
func Lacks(node *corev1.Node, requests corev1.ResourceList) []corev1.ResourceName {
	allocatable := node.Status.Allocatable
	var lacking []corev1.ResourceName
	for name, request := range requests {
		if has := allocatable[name]; !request.IsZero() && has.Cmp(request) < 0 {
			lacking = append(lacking, name)
		}
	}
	if pods, limited := allocatable[corev1.ResourcePods]; limited && pods.Sign() <= 0 {
		lacking = append(lacking, corev1.ResourcePods)
	}
	slices.Sort(lacking)
	return lacking
}
