// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package nodefit_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kruise-operator/kruise-operator/internal/engine/nodefit"
)

// list is a ResourceList of pairs: name, quantity.
func list(pairs ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

func container(requests corev1.ResourceList) corev1.Container {
	return corev1.Container{Resources: corev1.ResourceRequirements{Requests: requests}}
}

func TestLacks(t *testing.T) {
	cases := map[string]struct {
		allocatable corev1.ResourceList
		requests    corev1.ResourceList
		want        []corev1.ResourceName
	}{
		"just enough": {
			allocatable: list("cpu", "1", "memory", "1Gi", "ephemeral-storage", "1Gi", "example.com/gpu", "1", "pods", "1"),
			requests:    list("cpu", "1000m", "memory", "1024Mi", "ephemeral-storage", "1Gi", "example.com/gpu", "1"),
		},
		"too little of each": {
			allocatable: list("cpu", "1", "memory", "1Gi", "ephemeral-storage", "1Gi", "example.com/gpu", "1", "pods", "0"),
			requests:    list("cpu", "1001m", "memory", "1025Mi", "ephemeral-storage", "2Gi", "example.com/gpu", "2"),
			want:        []corev1.ResourceName{"cpu", "ephemeral-storage", "example.com/gpu", "memory", "pods"},
		},
		"a resource that the node does not have":       {allocatable: list("cpu", "1"), requests: list("example.com/gpu", "1"), want: []corev1.ResourceName{"example.com/gpu"}},
		"nothing of a resource the node does not have": {allocatable: list("cpu", "1"), requests: list("example.com/gpu", "0")},
		"a node that says nothing of its pods":         {requests: list()},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{Status: corev1.NodeStatus{Allocatable: tc.allocatable}}
			before := node.DeepCopy()
			if diff := cmp.Diff(tc.want, nodefit.Lacks(node, tc.requests)); diff != "" {
				t.Errorf("lacks (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, node); diff != "" {
				t.Errorf("the node was changed:\n%s", diff)
			}
		})
	}
}

func TestRequests(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	sidecar := container(list("cpu", "100m"))
	sidecar.RestartPolicy = &always
	limited := corev1.Container{Resources: corev1.ResourceRequirements{Limits: list("cpu", "2", "memory", "1Gi"), Requests: list("cpu", "1")}}
	cases := map[string]struct {
		spec corev1.PodSpec
		want corev1.ResourceList
	}{
		"containers are added up":                     {corev1.PodSpec{Containers: []corev1.Container{container(list("cpu", "1")), container(list("cpu", "500m"))}}, list("cpu", "1500m")},
		"a larger init container decides":             {corev1.PodSpec{Containers: []corev1.Container{container(list("cpu", "1"))}, InitContainers: []corev1.Container{container(list("cpu", "2"))}}, list("cpu", "2")},
		"a sidecar is added":                          {corev1.PodSpec{Containers: []corev1.Container{container(list("cpu", "1"))}, InitContainers: []corev1.Container{sidecar}}, list("cpu", "1100m")},
		"a limit stands for a request that is absent": {corev1.PodSpec{Containers: []corev1.Container{limited}}, list("cpu", "1", "memory", "1Gi")},
		"overhead is added":                           {corev1.PodSpec{Containers: []corev1.Container{container(list("cpu", "1"))}, Overhead: list("cpu", "10m")}, list("cpu", "1010m")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := tc.spec.DeepCopy()
			if diff := cmp.Diff(tc.want, nodefit.Requests(&tc.spec)); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, &tc.spec); diff != "" {
				t.Errorf("the template was changed:\n%s", diff)
			}
		})
	}
}
