// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package probing

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
)

// The API server refuses a pod with too long annotations, and with it every mark.
func TestWhatAPodHasFromProbesIsNotTooLong(t *testing.T) {
	policy := appsv1alpha1.ProbeMarkerPolicy{State: appsv1alpha1.ProbeSucceeded, Labels: map[string]string{}}
	for i := range 2000 {
		policy.Labels[fmt.Sprintf("%s/label-%04d", strings.Repeat("x", 60), i)] = "1"
	}
	probe := &appsv1alpha1.PodContainerProbe{Name: "p", MarkerPolicy: []appsv1alpha1.ProbeMarkerPolicy{policy}}
	pod := &corev1.Pod{}
	state := &appsv1alpha1.ContainerProbeState{State: appsv1alpha1.ProbeSucceeded}
	change := Remember(pod, Changes(pod, []Result{{Probe: probe, State: state}}, metav1.Now().Time), nil, []*appsv1alpha1.PodContainerProbe{probe})
	text := *change.Annotations[appsv1alpha1.AnnotationProbeMarks]
	var is given
	if err := json.Unmarshal([]byte(text), &is); err != nil || len(text) > longestGiven || len(is.Labels) == 0 || len(change.Labels) != 2000 {
		t.Errorf("%d bytes for %d of %d labels: %v", len(text), len(is.Labels), len(change.Labels), err)
	}
	after := change.Apply(pod)
	if again := Remember(after, edit.Edit{}, nil, []*appsv1alpha1.PodContainerProbe{probe}); !again.IsZero() {
		t.Errorf("it is written again: %+v", again)
	}
}

func TestAListOfMarksThatCannotBeReadIsWrittenAnew(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "x"}, Annotations: map[string]string{appsv1alpha1.AnnotationProbeMarks: "no list"}}}
	change := Remember(pod, edit.Edit{}, nil, nil)
	if after := change.Apply(pod); after.Annotations[appsv1alpha1.AnnotationProbeMarks] != "" || after.Labels["app"] != "x" {
		t.Errorf("%+v", after.ObjectMeta)
	}
}
