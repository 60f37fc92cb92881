// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podprobemarker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/podprobemarker/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/probing"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/testutil"
	"github.com/kruise-operator/kruise-operator/internal/testutil/reconcilertest"
)

// A deletion hanging on refused writes does not keep the old status.
func TestADeletionThatHangsSaysWhy(t *testing.T) {
	marker := &appsv1alpha1.PodProbeMarker{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "game", UID: "uid", Generation: 2,
		Finalizers: []string{appsv1alpha1.FinalizerPodProbeMarker}, DeletionTimestamp: &metav1.Time{Time: metav1.Now().Time},
	}}
	marker.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "game"}}
	marker.Status.Conditions = []metav1.Condition{{
		Type: "Reconciling", Status: metav1.ConditionFalse, Reason: appsv1alpha1.ReasonProbing, Message: "Every chosen pod is probed and tells the results.",
		LastTransitionTime: metav1.Now(),
	}}
	fake := reconcilertest.New(t, reconcilertest.Options{Entry: Value().Entry, Object: &appsv1alpha1.PodProbeMarker{}, Stored: []client.Object{marker}})
	fake.Server.SetFault(func(_ context.Context, w testutil.Write, forward func() error) error {
		if w.Subresource == "" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "podprobemarkers"}, "game", errors.New("a policy keeps it"))
		}
		return forward()
	})
	r := &Reconciler{Base: workload.New(Name, plan.Kind(), fake.Dependencies), off: "the kind NodePodProbe is off"}
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(marker)}); err != nil {
		t.Fatal(err)
	}
	stored := &appsv1alpha1.PodProbeMarker{}
	if err := fake.Server.Get(t.Context(), client.ObjectKeyFromObject(marker), stored); err != nil {
		t.Fatal(err)
	}
	c := meta.FindStatusCondition(stored.Status.Conditions, "Reconciling")
	if c == nil || c.Reason != appsv1beta1.ReasonRequestFailed || !strings.Contains(c.Message, "That is refused: ") || !strings.Contains(c.Message, "a policy keeps it") {
		t.Errorf("it says %+v", c)
	}
}

// carrying is a cache with the marker's probes in every NodePodProbe: a fake server lacks the index.
type carrying struct{ cache.Cache }

// List implements client.Reader.
func (c carrying) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	options = slices.DeleteFunc(options, func(o client.ListOption) bool { _, by := o.(client.MatchingFields); return by })
	return c.Cache.List(ctx, list, options...)
}

// NodePodProbe's controller removes the marks. When refused, the deleted marker says where.
func TestADeletionThatWaitsForANodeSaysForWhich(t *testing.T) {
	marker := &appsv1alpha1.PodProbeMarker{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "game", UID: "uid", Generation: 2,
		Finalizers: []string{appsv1alpha1.FinalizerPodProbeMarker}, DeletionTimestamp: &metav1.Time{Time: metav1.Now().Time},
	}}
	marker.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "game"}}
	marker.Spec.Probes = []appsv1alpha1.PodContainerProbe{{
		Name: "idle", ContainerName: "app", PodConditionType: "game.io/idle",
		Probe: corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/idle.sh"}}}},
	}}
	list := &appsv1alpha1.NodePodProbe{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	fake := reconcilertest.New(t, reconcilertest.Options{Entry: Value().Entry, Object: &appsv1alpha1.PodProbeMarker{}, Stored: []client.Object{marker, list}})
	now := clocktesting.NewFakePassiveClock(time.Now())
	fake.Cache, fake.Clock = carrying{fake.Cache}, now
	r := &Reconciler{Base: workload.New(Name, plan.Kind(), fake.Dependencies), follow: func(context.Context) error { return nil }}
	says := func() *metav1.Condition {
		t.Helper()
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(marker)}); err != nil {
			t.Fatal(err)
		}
		stored := &appsv1alpha1.PodProbeMarker{}
		if err := fake.Server.Get(t.Context(), client.ObjectKeyFromObject(marker), stored); err != nil {
			t.Fatal(err)
		}
		return meta.FindStatusCondition(stored.Status.Conditions, appsv1alpha1.PodProbeMarkerStalled)
	}
	if c := says(); c == nil || c.Status != metav1.ConditionFalse {
		t.Errorf("at once it says %+v", c)
	}
	now.SetTime(now.Now().Add(2 * time.Minute))
	if c := says(); c == nil || c.Status != metav1.ConditionTrue || c.Reason != appsv1beta1.ReasonDeleting || !strings.Contains(c.Message, "on 1 node (n1)") {
		t.Errorf("after two minutes it says %+v", c)
	}
}

// The reconcilers of both kinds parsed each PodProbeMarker for themselves.
func TestMarkersThatOthersParsedAreUsed(t *testing.T) {
	other := &appsv1alpha1.PodProbeMarker{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "other", UID: "uid", Generation: 1}}
	other.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "game"}}
	fake := reconcilertest.New(t, reconcilertest.Options{Entry: Value().Entry, Object: &appsv1alpha1.PodProbeMarker{}, Stored: []client.Object{other}})
	times := 0
	fake.Markers = workload.NewParsed(func(stored *unstructured.Unstructured) *probing.Marker {
		times++
		return probing.ParseStored(stored)
	})
	stored := &unstructured.UnstructuredList{}
	stored.SetGroupVersionKind(plan.Kind())
	if err := fake.Cache.List(t.Context(), stored); err != nil || len(stored.Items) != 1 {
		t.Fatalf("%d markers: %v", len(stored.Items), err)
	}
	parsed := fake.Markers.Of(&stored.Items[0])

	r := &Reconciler{Base: workload.New(Name, plan.Kind(), fake.Dependencies)}
	others, err := r.others(t.Context(), &plan.Spec{Marker: &probing.Marker{Namespace: "ns", Name: "game"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(others) != 1 || others[0] != parsed || times != 1 {
		t.Errorf("got %v, parsed %d times, want the one that was parsed before", others, times)
	}
}
