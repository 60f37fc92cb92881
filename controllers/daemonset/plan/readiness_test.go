// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// changePod changes the pod of this name.
func changePod(name string, change func(*corev1.Pod)) func(*simulation) {
	return func(w *simulation) {
		i := slices.IndexFunc(w.Pods, func(pod *corev1.Pod) bool { return pod.Name == name })
		if i < 0 {
			w.t.Fatalf("there is no pod %s", name)
		}
		w.Pods[i] = w.Pods[i].DeepCopy()
		change(w.Pods[i])
	}
}

// A request of OpenKruise holds one pod when the set is taken over, and another one has no gate. Both are named as long as it is so.
func TestPodsThatOthersHoldAndPodsWithoutGateAreNamed(t *testing.T) {
	w := newSimulation(t, nodeNames(2), inPlace)
	held := func(status corev1.ConditionStatus, message string) func(*simulation) {
		return changePod("agent-n0a", func(pod *corev1.Pod) {
			pod.Status.Conditions = slices.DeleteFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == shared.GateKruisePodReady })
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: shared.GateKruisePodReady, Status: status, Message: message})
		})
	}
	w.rest(held(corev1.ConditionFalse, `[{"userAgent":"ContainerRecreateRequest","key":"shop/restart"}]`), changePod("agent-n1a", func(pod *corev1.Pod) {
		pod.Spec.ReadinessGates = nil
	}))
	for kind, want := range map[appsv1beta1.DaemonSetConditionType]string{
		appsv1beta1.DaemonSetPodsHeldNotReady:         "agent-n0a by ContainerRecreateRequest shop/restart",
		appsv1beta1.DaemonSetPodsWithoutReadinessGate: "1 pod is without the readiness gate InPlaceUpdateReady: agent-n1a. Such pods are replaced instead of being updated in place",
	} {
		if c := w.condition(kind); c.Status != corev1.ConditionTrue || !strings.Contains(c.Message, want) {
			t.Errorf("%s is %+v, want %q", kind, c, want)
		}
	}
	w.rest(held(corev1.ConditionTrue, ""))
	if c := w.condition(appsv1beta1.DaemonSetPodsHeldNotReady); c.Type != "" {
		t.Errorf("when nobody holds the pod any more: %+v", c)
	}
}

// The other nodes waited behind one that can never give its pod the new resources, and Stalled said that what is left goes on by itself.
func TestNodesBehindAResizeThatIsRefusedStallTheSet(t *testing.T) {
	cpu := func(amount string) func(*simulation) {
		return func(w *simulation) {
			w.set.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}
		}
	}
	answer := func(reason string) func(*simulation) {
		return changePod("agent-n2a", func(pod *corev1.Pod) {
			pod.Status.Conditions = slices.DeleteFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodResizePending })
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
				Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: reason, Message: "the node has 1 cpu",
			})
		})
	}
	resizes := func(w *simulation) { w.o.InPlace.Resources = true }
	w := newSimulation(t, nodeNames(3), resizes, inPlace, maxUnavailable(1), cpu("1"))
	w.rest(cpu("2"), image("2"))
	for reason, want := range map[string]string{corev1.PodReasonDeferred: "NotStalled", corev1.PodReasonInfeasible: "InPlaceBlocked"} {
		w.do(answer(reason))
		w.Pass()
		w.expect("stalled when the resize is "+reason, w.condition("Stalled").Reason, want)
	}
	w.expect("the pods", w.pods(), "n0a:1, n1a:1, n2a:2")
}
