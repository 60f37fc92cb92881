// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/internal/engine/probing"
	"github.com/kruise-operator/kruise-operator/internal/testutil/fixtures"
)

// TestWhatOpenKruiseLeftNeedsNothing: the fixtures have a list without results, and one with results on its
// pods. Neither list nor pod is written, although the lists omit defaults.
func TestWhatOpenKruiseLeftNeedsNothing(t *testing.T) {
	for _, name := range []string{"podprobemarker", "podprobemarker-done"} {
		objects := fixtures.Objects(t, name+"/state.yaml")
		s := Snapshot{Node: true}
		for _, object := range fixtures.All[appsv1alpha1.PodProbeMarker](t, objects, "apps.kruise.io/v1alpha1", "PodProbeMarker") {
			marker, err := probing.Parse(object)
			if err != nil {
				t.Fatal(err)
			}
			s.Markers = append(s.Markers, marker)
		}
		pods := fixtures.All[corev1.Pod](t, objects, "v1", "Pod")
		asked := 0
		for _, list := range fixtures.All[appsv1alpha1.NodePodProbe](t, objects, "apps.kruise.io/v1alpha1", "NodePodProbe") {
			asked += len(list.Spec.PodProbes)
			s.Now = list.CreationTimestamp.Add(time.Hour)
			s.Pods = slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool { return pod.Spec.NodeName != list.Name })
			for _, action := range Plan(list, s).Actions {
				t.Errorf("%s: %s of node %s: %s", name, action.Step, list.Name, action.Reason)
			}
		}
		if asked == 0 {
			t.Errorf("%s: no pod is probed", name)
		}
	}
}
