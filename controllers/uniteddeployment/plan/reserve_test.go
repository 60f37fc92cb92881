// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/united"
)

// With reserved pods all available pods of a subset went at once, or no pod ever moved.
func TestMaxUnavailableHoldsAmongPodsThatCanBeAvailable(t *testing.T) {
	limited := func(limit string) string {
		return "template: {cloneSetTemplate: {spec: {updateStrategy: {rollingUpdate: {maxUnavailable: " + limit + "}}}}}"
	}
	// Of four pods of subset a, two have a node.
	cases := map[string]struct {
		spec   string
		change func(pods []*corev1.Pod, now metav1.Time)
		want   any
	}{
		"one of those with a node":                    {limited("1"), nil, int64(3)},
		"a percentage is of those with a node":        {limited("50%"), nil, int64(3)},
		"a percentage is at least one":                {limited("10%"), nil, int64(3)},
		"none where the user says none":               {limited("0"), nil, int64(2)},
		"the default is one":                          {"replicas: 4", nil, int64(3)},
		"updated pods without a node are as outdated": {limited("1"), func(pods []*corev1.Pod, _ metav1.Time) { pods[2].Labels[shared.LabelUnitedDeploymentRevision] = "new" }, int64(3)},
		"a pod that was just made may get a node":     {limited("1"), func(pods []*corev1.Pod, now metav1.Time) { pods[2].CreationTimestamp = now }, int64(2)},
		"one that starts uses up the limit": {limited("1"), func(pods []*corev1.Pod, _ metav1.Time) {
			pods[2].Spec.NodeName, pods[2].Status = "node", corev1.PodStatus{Phase: corev1.PodPending}
		}, int64(2)},
		"one waits for the place of another that is terminating": {limited("1"), func(pods []*corev1.Pod, now metav1.Time) {
			pods[1].Spec, pods[1].Status = pods[2].Spec, pods[2].Status
			pods[4].DeletionTimestamp = &now
		}, int64(3)},
		"all have a node": {limited("1"), func(pods []*corev1.Pod, _ metav1.Time) {
			pods[2].Spec, pods[2].Status = pods[0].Spec, pods[0].Status
			pods[3].Spec, pods[3].Status = pods[0].Spec, pods[0].Status
		}, int64(1)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newSimulation(t, reservingZones, "replicas: 4", "topology: {subsets: [{name: a}, {name: b}]}", tc.spec)
			w.full["a"] = true
			w.when("created", func() {})
			w.after(time.Minute)
			var pods []*corev1.Pod
			for _, pod := range w.pods {
				if pod.Labels[shared.LabelSubsetName] == "a" {
					pods = append(pods, pod)
				}
			}
			if len(pods) != 4 {
				t.Fatalf("subset a has %d pods", len(pods))
			}
			delete(w.full, "a")
			w.schedule(pods[0], "a")
			w.schedule(pods[1], "a")
			going := pods[0].DeepCopy() // is not there unless it is terminating
			pods = append(pods, going)
			if tc.change != nil {
				tc.change(pods, metav1.NewTime(w.now))
			}
			if going.DeletionTimestamp != nil {
				w.pods = append(w.pods, going)
			}
			w.change(setImage("2"))
			spec := united.Parse(w.set)
			decision := Plan(spec, w.snapshot(spec))
			for _, action := range decision.Actions {
				if action.Step != StepUpdateSubset || action.Slot != "a" {
					continue
				}
				object := ptr.To(*action.Object.(*unstructured.Unstructured))
				got, _, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", "updateStrategy", "rollingUpdate", "maxUnavailable")
				if fmt.Sprint(got) != fmt.Sprint(tc.want) {
					t.Errorf("maxUnavailable is %v, want %v", got, tc.want)
				}
				return
			}
			t.Error("subset a is not updated")
		})
	}
}

// A canary that the partitions hold was forgotten when all was scaled to 0 and back.
func TestPartitionsAreNotForgottenAtZero(t *testing.T) {
	w := newSimulation(t)
	w.when("created", func() {})
	first := w.set.Status.CurrentRevision
	w.change("updateStrategy: {manualUpdate: {partitions: {a: 1, b: 2, c: 1}}}")
	w.when("another image", func() { w.change(setImage("2")) })
	w.when("scaled to 0", func() { w.change("replicas: 0") })
	if got := w.set.Status.CurrentRevision; got != first {
		t.Errorf("the current revision becomes %s at 0, want %s", got, first)
	}
	for _, child := range w.children {
		if united.Number(child.Object, "spec", "updateStrategy", "rollingUpdate", "partition") == 0 {
			t.Errorf("%s has no partition at 0", child.GetName())
		}
	}
}
