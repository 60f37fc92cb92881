// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package broadcastjob

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/event"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/broadcastjob/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/kube/cache"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

func newNode(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: "1", ResourceVersion: "1", Labels: map[string]string{"disk": "ssd"}},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")},
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

// TestWhichNodesTriggerPassesOverAJob changes the node n1,
// beside n2, fitting every job, under an unfinished job.
func TestWhichNodesTriggerPassesOverAJob(t *testing.T) {
	hdd := map[string]string{"disk": "hdd"}
	cases := map[string]struct {
		selector      map[string]string
		before, after func(*corev1.Node)
		comes, gone   bool
		// pod: the job has a pod there. finished: the node is finished. alone: n2 does not fit either.
		pod, finished, alone bool
		triggers             bool
	}{
		"a heartbeat": {after: func(n *corev1.Node) {
			n.ResourceVersion, n.Status.Conditions[0].LastHeartbeatTime = "2", metav1.Now()
		}},
		"not ready": {after: func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }},
		"the taint of a node that is not ready": {after: func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}}
		}, triggers: true},
		"a taint that only asks": {after: func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectPreferNoSchedule}}
		}},
		"a label that nobody asks for":               {after: func(n *corev1.Node) { n.Labels["x"] = "y" }},
		"a cordon":                                   {after: func(n *corev1.Node) { n.Spec.Unschedulable = true }, triggers: true},
		"a cordon of a node without a fit":           {selector: hdd, after: func(n *corev1.Node) { n.Spec.Unschedulable = true }},
		"it begins to match":                         {selector: hdd, after: func(n *corev1.Node) { n.Labels["disk"] = "hdd" }, triggers: true},
		"it is too small now":                        {after: func(n *corev1.Node) { n.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("1") }, triggers: true},
		"it is smaller and large enough":             {after: func(n *corev1.Node) { n.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("3") }},
		"it comes":                                   {comes: true, triggers: true},
		"it comes and does not fit":                  {selector: hdd, comes: true},
		"it goes":                                    {gone: true, triggers: true},
		"it goes and did not fit":                    {selector: hdd, gone: true},
		"it goes, did not fit and has a pod":         {selector: hdd, gone: true, pod: true, triggers: true},
		"it goes, did not fit and is counted":        {selector: hdd, gone: true, finished: true, triggers: true},
		"it is re-created between two looks":         {after: func(n *corev1.Node) { n.UID = "2" }, triggers: true},
		"no node fits: another reason is told":       {selector: hdd, alone: true, after: func(n *corev1.Node) { n.Labels["disk"], n.Spec.Unschedulable = "hdd", true }, triggers: true},
		"no node fits: all nodes are counted":        {selector: hdd, alone: true, comes: true, triggers: true},
		"no node fits: it is re-created":             {selector: hdd, alone: true, after: func(n *corev1.Node) { n.UID = "2" }, triggers: true},
		"no node fits: a label that nobody asks for": {selector: hdd, alone: true, after: func(n *corev1.Node) { n.Labels["x"] = "y" }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			job := &appsv1beta1.BroadcastJob{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "scan", UID: "job", Generation: 1}}
			job.Spec.Template.Spec.NodeSelector = tc.selector
			job.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")},
			}}}
			spec := plan.Parse(job, false)
			judge := func(node *corev1.Node) workload.NodeVerdict {
				fits, why := spec.Fits(node)
				return workload.NodeVerdict{Runs: fits, Why: why}
			}
			before, after := newNode("n1"), newNode("n1")
			if tc.before != nil {
				tc.before(before)
			}
			if tc.after != nil {
				tc.after(after)
			}
			other := newNode("n2")
			if !tc.alone {
				other.Labels = hdd
				if tc.selector == nil {
					other.Labels = before.Labels
				}
			}
			s := plan.Snapshot{Nodes: spec.Nodes([]*corev1.Node{before, other})}
			if tc.comes {
				s.Nodes = spec.Nodes([]*corev1.Node{other})
			}
			if tc.pod {
				s.Pods = []podset.Pod{{Slot: planning.Slot("n1")}}
			}
			seen := seenIn(s, func(n *plan.Node) bool { return tc.finished && n.Name == "n1" })
			if tc.comes {
				before = nil
			}
			if tc.gone {
				after = nil
			}
			triggers := seen.Concerns(judge, before, after)
			if before != nil && after != nil { // heartbeats do not even get so far
				triggers = triggers && cache.NodeChanges().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after})
			}
			if triggers != tc.triggers {
				t.Errorf("triggers: %v, want %v", triggers, tc.triggers)
			}
		})
	}
}

// TestNoNodeIsLookedAtForJobsThatHaveEnded: the pods of ended jobs are collected one by one, and each is a pass.
func TestNoNodeIsLookedAtForJobsThatHaveEnded(t *testing.T) {
	job := &appsv1beta1.BroadcastJob{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "scan", UID: "job"}}
	job.Status.Conditions = []appsv1beta1.BroadcastJobCondition{{Type: appsv1beta1.BroadcastJobConditionComplete, Status: corev1.ConditionTrue}}
	r := &Reconciler{Base: &workload.Base{Dependencies: workload.Dependencies{Clock: clock.RealClock{}}}} // without a cache to look into
	snapshot, err := r.observe(t.Context(), plan.Parse(job, false))
	if err != nil || snapshot.Now.IsZero() || len(snapshot.Nodes)+len(snapshot.Pods) > 0 {
		t.Errorf("observed %+v, error %v", snapshot, err)
	}
}
