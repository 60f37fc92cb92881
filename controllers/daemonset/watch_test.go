// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/event"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/daemonset/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/nodefit"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/kube/cache"
)

func newNode() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "1", ResourceVersion: "1", Labels: map[string]string{"disk": "ssd"}},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}

func tainted(key string, effect corev1.TaintEffect) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: effect}) }
}

// TestWhichNodesTriggerPassesOverASet changes a node that fits a set, and asks whether that concerns it.
func TestWhichNodesTriggerPassesOverASet(t *testing.T) {
	cases := map[string]struct {
		// selector is that of the template, lane that of the update.
		selector, lane map[string]string
		// has says that the set has a pod there, none that no node fits.
		has, none     bool
		before, after func(*corev1.Node)
		gone, comes   bool
		triggers      bool
	}{
		"a heartbeat": {after: func(n *corev1.Node) {
			n.ResourceVersion, n.Status.Conditions[0].LastHeartbeatTime = "2", metav1.Now()
		}},
		"not ready: its pods say so themselves": {after: func(n *corev1.Node) {
			n.Status.Conditions[0].Status = corev1.ConditionFalse
			tainted(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute)(n)
		}},
		"cordoned: a daemon stays": {after: func(n *corev1.Node) {
			n.Spec.Unschedulable = true
			tainted(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule)(n)
		}},
		"a label that nobody asks for":             {after: func(n *corev1.Node) { n.Labels["x"] = "y" }},
		"a taint that keeps new pods away":         {after: tainted("gpu", corev1.TaintEffectNoSchedule), triggers: true},
		"a taint that lets no pod stay":            {after: tainted("gone", corev1.TaintEffectNoExecute), triggers: true},
		"a harder taint":                           {before: tainted("gpu", corev1.TaintEffectNoSchedule), after: tainted("gone", corev1.TaintEffectNoExecute), triggers: true},
		"it ceases to match the template":          {selector: map[string]string{"disk": "ssd"}, after: func(n *corev1.Node) { n.Labels["disk"] = "hdd" }, triggers: true},
		"it gets into the lane of the update":      {lane: map[string]string{"lane": "canary"}, after: func(n *corev1.Node) { n.Labels["lane"] = "canary" }, triggers: true},
		"into the lane of another set":             {lane: map[string]string{"lane": "canary"}, after: func(n *corev1.Node) { n.Labels["lane"] = "other" }},
		"it comes":                                 {comes: true, triggers: true},
		"it comes and does not fit":                {selector: map[string]string{"disk": "hdd"}, comes: true},
		"it comes and does not fit, and has a pod": {selector: map[string]string{"disk": "hdd"}, comes: true, has: true, triggers: true},
		"it goes":                                  {gone: true, triggers: true},
		"it goes and did not fit":                  {selector: map[string]string{"disk": "hdd"}, gone: true},
		"it is re-created between two looks":       {after: func(n *corev1.Node) { n.UID = "2" }, triggers: true},
		"one that does not fit gets into the lane": {selector: map[string]string{"disk": "hdd"}, lane: map[string]string{"lane": "canary"}, after: func(n *corev1.Node) { n.Labels["lane"] = "canary" }},

		"no node fits: another reason is told": {selector: map[string]string{"disk": "hdd"}, none: true, after: func(n *corev1.Node) {
			n.Labels["disk"] = "hdd"
			tainted("gone", corev1.TaintEffectNoExecute)(n)
		}, triggers: true},
		"no node fits: it comes and is counted":        {selector: map[string]string{"disk": "hdd"}, none: true, comes: true, triggers: true},
		"no node fits: it goes and is counted no more": {selector: map[string]string{"disk": "hdd"}, none: true, gone: true, triggers: true},
		"no node fits: a label that nobody asks for":   {selector: map[string]string{"disk": "hdd"}, none: true, after: func(n *corev1.Node) { n.Labels["x"] = "y" }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			set := &appsv1beta1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "agent", UID: "set", Generation: 1}}
			set.Spec.Template.Spec.NodeSelector = tc.selector
			if tc.lane != nil {
				set.Spec.UpdateStrategy.RollingUpdate = &appsv1beta1.RollingUpdateDaemonSet{Selector: &metav1.LabelSelector{MatchLabels: tc.lane}}
			}
			raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(set)
			if err != nil {
				t.Fatal(err)
			}
			judge := judge(&unstructured.Unstructured{Object: raw})
			var s observation
			if tc.has {
				s.Snapshot.Pods = []podset.Pod{{Slot: planning.Slot("n1")}}
			}
			if !tc.none {
				s.nodes = []plan.Node{{Name: "n2", Result: nodefit.Result{ShouldRun: true}}}
			}
			seen := seenIn(s)
			before, after := newNode(), newNode()
			if tc.before != nil {
				tc.before(before)
				tc.before(after)
			}
			if tc.after != nil {
				tc.after(after)
			}
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

func TestNamesOfNewPods(t *testing.T) {
	name := podNames("agent", nil)
	one, two := name("n1"), name("n2")
	if !strings.HasPrefix(one, "agent-") || len(one) != len("agent-")+plan.LengthOfSuffix || one == two {
		t.Errorf("the names are %s and %s", one, two)
	}
	if long := plan.NamePrefix(strings.Repeat("a", 100)); len(long)+plan.LengthOfSuffix != 63 {
		t.Errorf("a prefix of %d characters", len(long))
	}
}
