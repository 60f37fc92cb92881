// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package probing

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
)

// A marker that was stored before wrote the revision of a pod, so its workload replaced the pod again and again.
func TestAStoredMarkerNoLongerWritesTheRevision(t *testing.T) {
	stored := &appsv1alpha1.PodProbeMarker{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m"}}
	stored.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "game"}}
	stored.Spec.Probes = []appsv1alpha1.PodContainerProbe{{Name: "p", MarkerPolicy: []appsv1alpha1.ProbeMarkerPolicy{{
		State: appsv1alpha1.ProbeSucceeded, Labels: map[string]string{"controller-revision-hash": "x", "idle": "true"},
		Annotations: map[string]string{"kruise.io/sidecarset-hash": "x"},
	}}}}
	marker, err := Parse(stored)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"controller-revision-hash", "kruise.io/sidecarset-hash"}; !slices.Equal(marker.Withheld, want) {
		t.Errorf("withheld: %v", marker.Withheld)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Labels:      map[string]string{"app": "game", "controller-revision-hash": "r1"},
		Annotations: map[string]string{appsv1alpha1.AnnotationProbeMarks: `{"labels":["controller-revision-hash"],"annotations":["kruise.io/sidecarset-hash"]}`},
	}}
	probe := &marker.Probes[0]
	change := Changes(pod, []Result{{Probe: probe, State: &appsv1alpha1.ContainerProbeState{State: appsv1alpha1.ProbeSucceeded}}}, time.Unix(0, 0))
	change = Remember(pod, change, nil, []*appsv1alpha1.PodContainerProbe{probe})
	if len(change.Labels) != 1 || *change.Labels["idle"] != "true" {
		t.Errorf("labels: %v", change.Labels)
	}
	if stored.Spec.Probes[0].MarkerPolicy[0].Labels["controller-revision-hash"] != "x" {
		t.Error("the stored object was changed")
	}
}
