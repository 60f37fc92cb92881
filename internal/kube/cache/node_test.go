// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

func newNode() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "a", UID: "1", ResourceVersion: "1", Labels: map[string]string{"zone": "x"}, Annotations: map[string]string{"note": "x"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet"}},
		},
		Spec: corev1.NodeSpec{PodCIDR: "10.0.0.0/24", Taints: []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}, Unschedulable: true},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: metav1.NewTime(time.Unix(1e9, 0)),
			}},
			Allocatable: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("110")},
			Images:      []corev1.ContainerImage{{Names: []string{"web:1"}}},
			Addresses:   []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "a"}},
		},
	}
}

func TestNodesAreTrimmed(t *testing.T) {
	got, err := trimNode(newNode())
	if err != nil {
		t.Fatal(err)
	}
	want := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "1", ResourceVersion: "1", Labels: map[string]string{"zone": "x"}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}, Unschedulable: true},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("110")},
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
}

func TestHeartbeatsOfNodesTriggerNoPass(t *testing.T) {
	cases := map[string]struct {
		change   func(*corev1.Node)
		triggers bool
	}{
		"a heartbeat": {change: func(n *corev1.Node) { n.ResourceVersion, n.Status.Conditions[0].LastHeartbeatTime = "2", metav1.Now() }},
		"an image":    {change: func(n *corev1.Node) { n.Status.Images = nil }},
		"a label":     {func(n *corev1.Node) { n.Labels = map[string]string{"zone": "y"} }, true},
		"a taint":     {func(n *corev1.Node) { n.Spec.Taints = nil }, true},
		"a cordon":    {func(n *corev1.Node) { n.Spec.Unschedulable = false }, true},
		"not ready":   {func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse }, true},
		"more room": {func(n *corev1.Node) {
			n.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("111")}
		}, true},
		"a new node": {func(n *corev1.Node) { n.UID = "2" }, true},
		"a deletion": {func(n *corev1.Node) { n.DeletionTimestamp = &metav1.Time{Time: time.Unix(1e9, 0)} }, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			after := newNode()
			tc.change(after)
			if got := NodeChanges().Update(event.UpdateEvent{ObjectOld: newNode(), ObjectNew: after}); got != tc.triggers {
				t.Errorf("triggers: %v, want %v", got, tc.triggers)
			}
		})
	}
}
