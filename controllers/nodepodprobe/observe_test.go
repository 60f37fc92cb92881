// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package nodepodprobe

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/controllers/nodepodprobe/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/probing"
	"github.com/kruise-operator/kruise-operator/internal/kube/selecting"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/testutil/reconcilertest"
)

// The reconcilers of both kinds parsed each PodProbeMarker for themselves.
func TestMarkersThatOthersParsedAreUsed(t *testing.T) {
	marker := &appsv1alpha1.PodProbeMarker{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "game", UID: "uid", Generation: 1}}
	marker.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "game"}}
	fake := reconcilertest.New(t, reconcilertest.Options{Entry: Value().Entry, Object: &appsv1alpha1.NodePodProbe{}, Stored: []client.Object{marker}})
	times := 0
	fake.Markers = workload.NewParsed(func(stored *unstructured.Unstructured) *probing.Marker {
		times++
		return probing.ParseStored(stored)
	})
	stored := &unstructured.UnstructuredList{}
	stored.SetGroupVersionKind(markerKind())
	if err := fake.Cache.List(t.Context(), stored); err != nil || len(stored.Items) != 1 {
		t.Fatalf("%d markers: %v", len(stored.Items), err)
	}
	parsed := fake.Markers.Of(&stored.Items[0])

	r := &Reconciler{Base: workload.New(Name, plan.Kind(), fake.Dependencies), controllers: selecting.NewControllers(fake.Live, fake.Clock)}
	markers, err := r.markers(t.Context(), sets.New("ns"))
	if err != nil {
		t.Fatal(err)
	}
	if len(markers) != 1 || markers[0] != parsed || times != 1 {
		t.Errorf("got %v, parsed %d times, want the one that was parsed before", markers, times)
	}
}
