// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kruise-operator/kruise-operator/internal/daemon/cri/critest"
)

// began is when containers of the tests were started.
var began = time.Date(2026, 11, 25, 8, 0, 0, 0, time.UTC)

// container is the status of a container with an ID: running since some minutes after
// began, or ended if negative.
func container(id string, minute int) corev1.ContainerStatus {
	status := corev1.ContainerStatus{Name: "app", ContainerID: id}
	if minute < 0 {
		status.State.Terminated = &corev1.ContainerStateTerminated{StartedAt: metav1.NewTime(began)}
		return status
	}
	status.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(began.Add(time.Duration(minute) * time.Minute))}
	return status
}

func pod(name string, containers ...corev1.ContainerStatus) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Status: corev1.PodStatus{ContainerStatuses: containers}}
}

func TestARuntimeIsChosenByContainerIDs(t *testing.T) {
	cases := map[string]struct {
		node     []client.Object
		pod      *corev1.Pod // nil asks for the runtime of the node
		want     string
		wantNone bool
	}{
		"an empty node has the first one":                         {want: "containerd"},
		"a node whose pods are in the second one has that":        {node: []client.Object{pod("a", container("cri-o://1", 1))}, want: "cri-o"},
		"a node that has changed over has that of the newest pod": {node: []client.Object{pod("a", container("containerd://1", 1)), pod("b", container("cri-o://2", 2))}, want: "cri-o"},
		"what has ended says nothing about the node":              {node: []client.Object{pod("a", container("docker://1", -1))}, want: "containerd"},
		"a pod in the second one has that":                        {node: []client.Object{pod("b", container("containerd://2", 2))}, pod: pod("a", container("cri-o://1", 1)), want: "cri-o"},
		"a pod whose first container has no ID has that of the next": {
			pod: pod("a", corev1.ContainerStatus{Name: "waiting"}, container("cri-o://1", 1)), want: "cri-o",
		},
		"a pod that has ended has the one that it was in": {pod: pod("a", container("cri-o://1", -1)), want: "cri-o"},
		"a pod without containers has that of the node":   {node: []client.Object{pod("b", container("cri-o://2", 2))}, pod: pod("a"), want: "cri-o"},
		"one that the node does not have is not replaced": {pod: pod("a", container("docker://1", 1)), wantNone: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			h := Host{Runtime: critest.Several{Runtime: &critest.Runtime{}, Others: []*critest.Runtime{{Name: "cri-o"}}}}
			pods := fake.NewClientBuilder().WithObjects(tc.node...).Build()
			of := h.NodeRuntime(t.Context(), pods)
			if tc.pod != nil {
				of = h.RuntimeOf(t.Context(), pods, tc.pod)
			}
			got, err := of.Status(t.Context())
			if got != tc.want || (err != nil) != tc.wantNone {
				t.Errorf("got %q, %v, want %q", got, err, tc.want)
			}
		})
	}
}
