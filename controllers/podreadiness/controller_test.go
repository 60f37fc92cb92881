// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podreadiness

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
)

// cached reads stored objects.
type cached struct {
	cache.Cache
	stored client.Reader
}

func (c cached) Get(ctx context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	return c.stored.Get(ctx, key, object)
}

func (c cached) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return c.stored.List(ctx, list, options...)
}

// gated is a Deployment's pod with the gate.
func gated() *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "uid"}}
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "set", Controller: ptr.To(true)}}
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: shared.GateKruisePodReady}}
	return pod
}

func heldBy(by ...string) *corev1.Pod {
	pod := gated()
	for _, name := range by {
		pod = podstate.Hold(pod, shared.ReadinessHolder{UserAgent: "ContainerRecreateRequest", Key: "shop/" + name}, time.Now()).Apply(pod)
	}
	return pod
}

func request(name string, phase v1beta1.ContainerRecreateRequestPhase) *v1alpha1.ContainerRecreateRequest {
	r := &v1alpha1.ContainerRecreateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	r.Status.Phase = phase
	return r
}

// settle passes until nothing is written, and returns the pod and when it is looked at again.
func settle(t *testing.T, objects ...client.Object) (*corev1.Pod, time.Duration) {
	t.Helper()
	types, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	byName := func(object client.Object) []string { return []string{object.GetName()} }
	c := fake.NewClientBuilder().WithScheme(types).WithObjects(objects...).WithStatusSubresource(&corev1.Pod{}).
		WithIndex(&v1alpha1.ContainerRecreateRequest{}, "metadata.name", byName).Build()
	r := newReconciler(workload.Dependencies{
		Client: c, Live: c, Cache: cached{stored: c}, Clock: testingclock.NewFakePassiveClock(time.Now()), WriteTimeout: time.Minute,
	})
	var result ctrl.Result
	for range 3 {
		if result, err = r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "shop", Name: "web"}}); err != nil {
			t.Fatal(err)
		}
	}
	pod := &corev1.Pod{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "web"}, pod); err != nil {
		t.Fatal(err)
	}
	return pod, result.RequeueAfter
}

func gate(pod *corev1.Pod) corev1.ConditionStatus {
	if c := podstate.Condition(pod, shared.GateKruisePodReady); c != nil {
		return c.Status
	}
	return ""
}

// Without the condition such a pod is never ready, and nobody says why.
func TestAPodOfADeploymentWithTheGateGetsItsCondition(t *testing.T) {
	if pod, _ := settle(t, gated()); gate(pod) != corev1.ConditionTrue {
		t.Errorf("the conditions are %+v", pod.Status.Conditions)
	}
	other := gated()
	other.Spec.ReadinessGates[0].ConditionType = "example.com/other"
	cloned := gated()
	cloned.OwnerReferences[0].APIVersion, cloned.OwnerReferences[0].Kind = "apps.kruise.io/v1beta1", "CloneSet"
	for name, pod := range map[string]*corev1.Pod{"a pod without the gate": other, "a pod that a CloneSet controls": cloned} {
		if pod, _ := settle(t, pod); gate(pod) != "" {
			t.Errorf("%s: the conditions are %+v", name, pod.Status.Conditions)
		}
	}
	job := gated()
	job.OwnerReferences[0].APIVersion, job.OwnerReferences[0].Kind = "apps.kruise.io/v1beta1", "BroadcastJob"
	if pod, _ := settle(t, job); gate(pod) != corev1.ConditionTrue {
		t.Errorf("a pod of a BroadcastJob: the conditions are %+v", pod.Status.Conditions)
	}
}

func TestHoldsOfRequestsThatAreOverAreGivenUp(t *testing.T) {
	for name, tc := range map[string]struct {
		pod      *corev1.Pod
		requests []client.Object
		want     corev1.ConditionStatus
		again    time.Duration
	}{
		"one that is at work":               {pod: heldBy("r"), requests: []client.Object{request("r", v1beta1.RecreateRecreating)}, want: corev1.ConditionFalse, again: lookAtRequests},
		"one that is over":                  {pod: heldBy("r"), requests: []client.Object{request("r", v1beta1.RecreateCompleted)}, want: corev1.ConditionTrue},
		"one whose finalizer was taken off": {pod: heldBy("r"), want: corev1.ConditionTrue},
		"one of two":                        {pod: heldBy("r", "s"), requests: []client.Object{request("s", v1beta1.RecreateRecreating)}, want: corev1.ConditionFalse, again: lookAtRequests},
		"a writer that we know nothing of":  {pod: podstate.Hold(gated(), shared.ReadinessHolder{UserAgent: "Somebody", Key: "else"}, time.Now()).Apply(gated()), want: corev1.ConditionFalse},
		"a request of another namespace's":  {pod: podstate.Hold(gated(), shared.ReadinessHolder{UserAgent: "ContainerRecreateRequest", Key: "other/r"}, time.Now()).Apply(gated()), want: corev1.ConditionFalse},
	} {
		t.Run(name, func(t *testing.T) {
			pod, again := settle(t, append(tc.requests, tc.pod)...)
			if gate(pod) != tc.want || again != tc.again {
				t.Errorf("the conditions are %+v; it looks again after %s", pod.Status.Conditions, again)
			}
		})
	}
}

// Holders come from a message in the pod's status, and others may make it very long.
func TestManyHoldsOfOnePodAreLookedAtAFewAtATime(t *testing.T) {
	const many = 300
	holders := make([]shared.ReadinessHolder, many)
	for i := range holders {
		holders[i] = shared.ReadinessHolder{UserAgent: "ContainerRecreateRequest", Key: fmt.Sprintf("shop/r%d", i)}
	}
	text, err := json.Marshal(holders)
	if err != nil {
		t.Fatal(err)
	}
	pod := gated()
	pod.Status.Conditions = []corev1.PodCondition{{Type: shared.GateKruisePodReady, Status: corev1.ConditionFalse, Message: string(text)}}
	types, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	c := fake.NewClientBuilder().WithScheme(types).WithObjects(pod).WithStatusSubresource(pod).WithInterceptorFuncs(interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			asked++
			return nil // there is no such request
		},
	}).Build()
	r := newReconciler(workload.Dependencies{
		Client: c, Live: c, Cache: cached{stored: c}, Clock: testingclock.NewFakePassiveClock(time.Now()), WriteTimeout: time.Minute,
	})
	most, passes := 0, 0
	for gate(pod) != corev1.ConditionTrue && passes < many {
		before := asked
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(pod)}); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
			t.Fatal(err)
		}
		most, passes = max(most, asked-before), passes+1
	}
	if most > 20 || asked != many {
		t.Errorf("%d questions in %d passes, at most %d in one; the condition is %s", asked, passes, most, gate(pod))
	}
}

func TestHeldPodsAreCounted(t *testing.T) {
	at := func(pod *corev1.Pod, name string, seconds int64) client.Object {
		pod.Name = name
		for i := range pod.Status.Conditions {
			pod.Status.Conditions[i].LastTransitionTime = metav1.Unix(seconds, 0)
		}
		return pod
	}
	const requests = "ContainerRecreateRequest"
	for name, tc := range map[string]struct {
		pods          []client.Object
		counts, since map[string]float64
	}{
		"nobody": {counts: map[string]float64{}, since: map[string]float64{}},
		"several": {
			pods: []client.Object{
				at(gated(), "free", 5), at(heldBy("r"), "old", 10), at(heldBy("r", "s"), "new", 20),
				at(podstate.Hold(gated(), shared.ReadinessHolder{UserAgent: "Somebody", Key: "else"}, time.Now()).Apply(gated()), "strange", 30),
			},
			counts: map[string]float64{requests: 2, otherHolder: 1}, since: map[string]float64{requests: 10, otherHolder: 30},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := fake.NewClientBuilder().WithObjects(tc.pods...).WithIndex(&corev1.Pod{}, byHolder, holders).Build()
			r := newReconciler(workload.Dependencies{Cache: cached{stored: c}})
			for what, of := range map[string]struct {
				count func(func(float64, ...string))
				want  map[string]float64
			}{"pods": {r.countHeld, tc.counts}, "since": {r.countSince, tc.since}} {
				of.count(func(value float64, labels ...string) {
					if value != of.want[labels[0]] {
						t.Errorf("%s of %s: %v, want %v", what, labels[0], value, of.want[labels[0]])
					}
				})
			}
		})
	}
}
