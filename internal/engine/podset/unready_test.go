// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podset

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

// waitsSince makes a pod that has been not ready for so long, with its container in a state.
func waitsSince(ago time.Duration, state corev1.ContainerState, changes ...func(*corev1.Pod)) Pod {
	since := metav1.NewTime(now().Add(-ago))
	pod := object("web-1", notReady)
	pod.Spec.NodeName, pod.CreationTimestamp, pod.Status.StartTime = "n1", since, &since
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: state}}
	for i := range pod.Status.Conditions {
		pod.Status.Conditions[i].LastTransitionTime = since
	}
	for _, change := range changes {
		change(pod)
	}
	return Observe(pod, Identity{Slot: "1"}, FactRules{Now: now()})
}

// A pod whose readiness probe failed used up maxUnavailable, and nothing said why it was not ready; nor did anything of one that waited for its init container,
// for its image, or for a gate of somebody else, or whose node did not answer.
func TestAPodThatIsNotReadySaysWhatItWaitsFor(t *testing.T) {
	runs := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	ready := func(pod *corev1.Pod) { pod.Status.ContainerStatuses[0].Ready = true }
	probed := func(pod *corev1.Pod) { pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{} }
	starting := func(pod *corev1.Pod) {
		pod.Spec.Containers[0].StartupProbe, pod.Status.ContainerStatuses[0].Started = &corev1.Probe{}, ptr.To(false)
	}
	inInit := func(policy *corev1.ContainerRestartPolicy, status corev1.ContainerStatus) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			status.Name = "setup"
			pod.Spec.InitContainers = []corev1.Container{{Name: "setup", RestartPolicy: policy}}
			pod.Status.InitContainerStatuses = []corev1.ContainerStatus{status}
		}
	}
	gate := func(pod *corev1.Pod) {
		pod.Spec.ReadinessGates = append(pod.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: "example.com/in-load-balancer"})
	}
	bound := func(pod *corev1.Pod) {
		pod.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: pod.CreationTimestamp},
		}}
	}
	for name, tc := range map[string]struct {
		pod  Pod
		want string
	}{
		"a readiness probe that fails":         {waitsSince(time.Minute, runs, probed), "container main: it runs, and its readiness probe does not succeed"},
		"a startup probe that fails":           {waitsSince(time.Minute, runs, starting), "container main: it runs, and its startup probe does not succeed"},
		"a container that is not ready":        {waitsSince(time.Minute, runs), "container main: it runs and is not ready"},
		"an image that is being pulled":        {waitsSince(time.Minute, waitingFor("ContainerCreating", "")), "container main: it has not started yet (ContainerCreating)"},
		"an init container that runs":          {waitsSince(time.Minute, waitingFor("PodInitializing", ""), inInit(nil, corev1.ContainerStatus{State: runs})), "init container setup: it runs, and the containers after it wait for its end"},
		"a native sidecar that is not ready":   {waitsSince(time.Minute, runs, ready, inInit(ptr.To(corev1.ContainerRestartPolicyAlways), corev1.ContainerStatus{State: runs})), "init container setup: it runs and is not ready"},
		"a native sidecar that is, and main":   {waitsSince(time.Minute, runs, inInit(ptr.To(corev1.ContainerRestartPolicyAlways), corev1.ContainerStatus{State: runs, Ready: true})), "container main: it runs and is not ready"},
		"a gate of somebody else":              {waitsSince(time.Minute, runs, ready, gate), "its readiness gate example.com/in-load-balancer is not True"},
		"somebody else's hold":                 {waitsSince(time.Minute, runs, ready, condition(shared.GateKruisePodReady, corev1.ConditionFalse, `[{"userAgent":"Mesh","key":"drain"}]`)), "it is held out of service by Mesh drain"},
		"our own hold":                         {waitsSince(time.Minute, runs, ready, condition(shared.GateKruisePodReady, corev1.ConditionFalse, `[{"userAgent":"Lifecycle","key":"preDeleteHook"}]`)), ""},
		"our own update":                       {waitsSince(time.Minute, runs, ready, condition(shared.GateInPlaceUpdateReady, corev1.ConditionFalse, "")), ""},
		"a node that does not answer":          {waitsSince(time.Minute, runs, ready), "its containers are ready and it is not, as on a node that does not answer"},
		"a node that does not begin":           {waitsSince(time.Minute, runs, bound), "node n1 has not begun to start it"},
		"a container that nobody has reported": {waitsSince(time.Minute, runs, func(pod *corev1.Pod) { pod.Status.ContainerStatuses = nil }), "container main: the node has not reported it yet"},
		"a status that is about another spec":  {waitsSince(time.Minute, runs, func(pod *corev1.Pod) { pod.Generation, pod.Status.ObservedGeneration = 3, 2 }), ""},
		"a pod that is ready":                  {waitsSince(time.Minute, runs, ready, condition(corev1.PodReady, corev1.ConditionTrue, "")), ""},
		"a pod that is terminating":            {waitsSince(time.Minute, runs, deleted), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if want := (podstate.Trouble{Message: tc.want}); tc.pod.Trouble != want {
				t.Errorf("trouble is %+v, want %+v", tc.pod.Trouble, want)
			}
		})
	}
	young := waitsSince(10*time.Second, runs)
	if want := (podstate.Trouble{RecheckAfter: 20 * time.Second}); young.Trouble != want {
		t.Errorf("after 10 s: %+v, want %+v", young.Trouble, want)
	}

	waits := Progress{Reconciling: true, Reason: "RollingOut", Message: "1 pod waits"}
	slow := waitsSince(time.Hour, runs)
	want := Progress{Reconciling: true, Reason: "RollingOut", Message: "web-1: container main: it runs and is not ready; 1 pod waits"}
	if got := waits.WithTroubles(&planning.Plan{}, []Pod{slow}); got != want {
		t.Errorf("it is %+v, want %+v: how long a container takes is its owner's business", got, want)
	}
	// What needs the user comes first, however many only wait.
	pods := []Pod{slow, waitsSince(time.Minute, runs, probed), waitsSince(time.Minute, runs, starting), stuckPod("web-9", time.Minute, 0, waitingFor("ImagePullBackOff", ""))}
	want = Progress{Stalled: true, Reason: "ImagePullFailed", Message: "web-9: container c: ImagePullBackOff missing:v3; web-1: container main: it runs and is not ready; " +
		"web-1: container main: it runs, and its readiness probe does not succeed; 1 pod waits"}
	if got := waits.WithTroubles(&planning.Plan{}, pods); got != want {
		t.Errorf("it is %+v, want %+v", got, want)
	}
}
