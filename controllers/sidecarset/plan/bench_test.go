// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset/podsettest"
)

// BenchmarkPass observes and plans for 1 000 pods amid an
// update: of five, one is under way, two are updated, two wait.
func BenchmarkPass(b *testing.B) {
	for name, change := range map[string]func(*appsv1beta1.SidecarSet){"cold": func(*appsv1beta1.SidecarSet) {}, "hot": hot} {
		b.Run(name, func(b *testing.B) {
			old, set := newSet("agent:v1", change), newSet("agent:v2", change, maxUnavailable("20%"))
			spec := parse(b, set)
			var pods []*corev1.Pod
			for i := range 1000 {
				pods = append(pods, midway(b, spec, run(newPod(b, fmt.Sprintf("p%04d", (i*7)%1000), old), true), i%5))
			}
			known := &plan.Known{}
			b.ReportAllocs()
			b.ResetTimer()
			for b.Loop() {
				s := plan.Snapshot{Now: podsettest.Now(), Pods: known.Pods(spec, pods, everyNamespace, podsettest.Now())}
				plan.Plan(spec, s)
			}
		})
	}
}

// midway is a waiting pod (0, 1), one under way (2), or an updated one (3, 4).
func midway(b *testing.B, spec *plan.Spec, pod *corev1.Pod, stage int) *corev1.Pod {
	b.Helper()
	if stage < 2 {
		return pod
	}
	state := &podsettest.State[struct{}]{Pods: []*corev1.Pod{pod}}
	for range 2 { // hot upgrades have two steps
		for _, action := range plan.Plan(spec, snapshot(spec, state.Pods)).Actions {
			if action.Step == podset.StepEdit {
				if err := podsettest.Apply(state, action); err != nil {
					b.Fatal(err)
				}
			}
		}
		if stage == 2 {
			return state.Pods[0]
		}
		pod = state.Pods[0].DeepCopy()
		pod.Status.ObservedGeneration = pod.Generation
		for i := range pod.Status.ContainerStatuses {
			if s := &pod.Status.ContainerStatuses[i]; s.Image != pod.Spec.Containers[i].Image {
				s.Image, s.ImageID, s.ContainerID = pod.Spec.Containers[i].Image, "id-of-"+pod.Spec.Containers[i].Image, s.ContainerID+"x"
			}
		}
		state.Pods[0] = pod
	}
	if s := snapshot(spec, state.Pods); !s.Pods[0].Updated || s.Pods[0].UnderWay() {
		b.Fatalf("pod %s is not updated", pod.Name)
	}
	return pod
}
