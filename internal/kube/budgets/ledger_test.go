// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package budgets

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kruise-operator/kruise-operator/api/policy/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/disruption"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
)

func readyPod(name string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": "web"}, Annotations: map[string]string{v1beta1.AnnotationRelatedBudget: "web"}}}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return pod
}

// server has one budget with room for three pods.
func server(t *testing.T) (client.Client, types.NamespacedName) {
	t.Helper()
	known, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	budget := &v1beta1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "uid", Generation: 1}}
	budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	budget.Spec.MaxUnavailable = ptr.To(intstr.FromInt32(3))
	budget.Status = disruption.Status{ObservedGeneration: 1, UnavailableAllowed: 3, CurrentAvailable: 10, DesiredAvailable: 7, TotalReplicas: 10}
	return fake.NewClientBuilder().WithScheme(known).WithObjects(budget).WithStatusSubresource(budget).Build(), client.ObjectKeyFromObject(budget)
}

// Three replicas of the webhook, and fifty clients at once: exactly three pods may go.
func TestReplicasAllowNoMoreThanThereIsRoomFor(t *testing.T) {
	c, name := server(t)
	replicas := make([]*Ledger, 3)
	for i := range replicas {
		replicas[i] = &Ledger{Live: c, Client: c, Clock: clock.RealClock{}}
	}
	var allowed atomic.Int32
	var group sync.WaitGroup
	for i := range 50 {
		group.Go(func() {
			ask := disruption.Ask{Pod: readyPod(fmt.Sprint("web-", i)), Operation: v1beta1.PubDeleteOperation, Gates: disruption.Gates{Delete: true}}
			answers, err := replicas[i%3].Ask(t.Context(), name, false, ask)
			if err != nil {
				t.Error(err)
			} else if answers[0].Denied == "" {
				allowed.Add(1)
			}
		})
	}
	group.Wait()
	stored := &v1beta1.PodUnavailableBudget{}
	if err := c.Get(t.Context(), name, stored); err != nil {
		t.Fatal(err)
	}
	if allowed.Load() != 3 || stored.Status.UnavailableAllowed != 0 || len(stored.Status.DisruptedPods) != 3 {
		t.Errorf("%d were allowed, the status is %+v", allowed.Load(), stored.Status)
	}
}

func TestADryRunRecordsNothing(t *testing.T) {
	c, name := server(t)
	l := &Ledger{Live: c, Client: c, Clock: clock.RealClock{}}
	ask := disruption.Ask{Pod: readyPod("web-0"), Operation: v1beta1.PubEvictOperation, Gates: disruption.Gates{Delete: true}}
	for range 5 {
		if answers, err := l.Ask(t.Context(), name, true, ask); err != nil || answers[0].Denied != "" {
			t.Errorf("%+v, %v", answers, err)
		}
	}
	if answers, err := l.Ask(t.Context(), types.NamespacedName{Namespace: "shop", Name: "other"}, false, ask); err != nil || !answers[0].Elsewhere {
		t.Errorf("a budget that is gone: %+v, %v", answers, err)
	}
	stored := &v1beta1.PodUnavailableBudget{}
	if err := c.Get(t.Context(), name, stored); err != nil || stored.Status.UnavailableAllowed != 3 || len(stored.Status.DisruptedPods) > 0 {
		t.Errorf("the status is %+v, %v", stored.Status, err)
	}
}
