// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset/podsettest"
)

// Cached facts equal fresh ones when pods, time or the set change.
func TestWhatIsKnownOfPodsIsTrue(t *testing.T) {
	for name, change := range map[string]func(*appsv1beta1.SidecarSet){"cold": func(*appsv1beta1.SidecarSet) {}, "hot": hot} {
		t.Run(name, func(t *testing.T) {
			old, set := newSet("agent:v1", change), newSet("agent:v2", change, maxUnavailable("100%"))
			spec := parse(t, set)
			state := &podsettest.State[struct{}]{}
			for i := range 8 {
				state.Pods = append(state.Pods, run(newPod(t, fmt.Sprintf("p%d", i), old), true))
			}
			now, version := podsettest.Now(), 1
			known := &plan.Known{}
			check := func(when string) {
				t.Helper()
				want, got := new(plan.Known).Pods(spec, state.Pods, everyNamespace, now), known.Pods(spec, state.Pods, everyNamespace, now)
				if !reflect.DeepEqual(want, got) {
					t.Errorf("%s:\nknown %+v\nanew  %+v", when, got, want)
				}
			}
			changed := func(i int, change func(*corev1.Pod)) {
				pod := state.Pods[i].DeepCopy()
				version++
				pod.ResourceVersion = fmt.Sprint(version)
				change(pod)
				state.Pods[i] = pod
			}
			check("at first")
			check("again")
			for _, action := range plan.Plan(spec, plan.Snapshot{Now: now, Pods: new(plan.Known).Pods(spec, state.Pods[:6], everyNamespace, now)}).Actions {
				if action.Step == podset.StepEdit {
					if err := podsettest.Apply(state, action); err != nil {
						t.Fatal(err)
					}
				}
			}
			for i := range state.Pods {
				changed(i, func(*corev1.Pod) {})
			}
			check("edited")
			for i := range 4 {
				changed(i, func(pod *corev1.Pod) {
					pod.Status.ObservedGeneration = pod.Generation
					for n := range pod.Status.ContainerStatuses {
						s := &pod.Status.ContainerStatuses[n]
						if s.Image == pod.Spec.Containers[n].Image {
							continue
						}
						s.Image, s.ContainerID = pod.Spec.Containers[n].Image, s.ContainerID+"x"
						if i > 0 { // the first one has an image of two names: only time tells
							s.ImageID += "x"
						}
						s.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now)}
						if i == 3 {
							s.Ready, s.State = false, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}
						}
					}
				})
			}
			for second := range 90 {
				now = podsettest.Now().Add(time.Duration(second) * time.Second)
				check(fmt.Sprintf("%d seconds after the restart", second))
			}
			state.Pods = state.Pods[2:]
			check("two are gone")
			slices.Reverse(state.Pods)
			check("listed in another order")
			state.Pods = append(state.Pods, run(newPod(t, "p0-new", old), true))
			check("a new one, which comes first")
			state.Pods = state.Pods[len(state.Pods)-2:]
			check("most are gone")
			set.Generation++
			set.Spec.Containers[0].Image = "agent:v3"
			spec = parse(t, set)
			check("another spec")
			state.Pods = nil
			check("all are gone")
		})
	}
}
