// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	pulls "github.com/kruise-operator/kruise-operator/internal/engine/image"
)

func TestPullingWorkload(t *testing.T) {
	cases := map[string]struct {
		replicas int32
		steps    []func(*simulation)
		want     pulls.State
		jobs     int
		invalid  bool
	}{
		"at rest":                    {replicas: 5, steps: []func(*simulation){running, inPlace}},
		"in a rollout":               {replicas: 5, steps: []func(*simulation){running, inPlace, image("2")}, want: pulls.Wanted, jobs: 1},
		"with few replicas":          {replicas: 3, steps: []func(*simulation){running, inPlace, image("2")}, want: pulls.NotUseful},
		"with ReCreate":              {replicas: 5, steps: []func(*simulation){running, image("2")}, want: pulls.NotUseful},
		"when all may go at once":    {replicas: 5, steps: []func(*simulation){running, inPlace, maxUnavailable(5), image("2")}, want: pulls.NotUseful},
		"not if a partition is kept": {replicas: 5, steps: []func(*simulation){running, inPlace, maxUnavailable(5), image("2"), partition(1)}, want: pulls.Wanted, jobs: 1},
		"with OnDelete": {replicas: 5, steps: []func(*simulation){running, image("2"), func(w *simulation) {
			w.set.Spec.UpdateStrategy = appsv1beta1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
		}}, want: pulls.NotUseful},
		"before enough pods are updated": {replicas: 5, steps: []func(*simulation){running, inPlace, image("2"), func(w *simulation) {
			w.set.Annotations = map[string]string{shared.AnnotationPreDownloadMinUpdatedReadyPods: "30%"}
		}}, want: pulls.Waiting},
		// The pass that finds the rollout over is the last one.
		"over, before the status says so": {replicas: 5, steps: []func(*simulation){running, inPlace, image("2"), func(w *simulation) {
			for _, pod := range w.Pods {
				pod.Labels[shared.LabelControllerRevisionHash] = w.snapshot().Update.Name
			}
		}}},
		"without a selector": {replicas: 5, steps: []func(*simulation){running, func(w *simulation) { w.set.Spec.Selector = nil }}, invalid: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newSimulation(t, tc.replicas, tc.steps...)
			w.o.PreDownloadImages = true
			about := PreDownload(Parse(w.set, w.o), w.snapshot())
			if (about == nil) != tc.invalid {
				t.Fatalf("pulling ahead: %+v", about)
			}
			if about == nil {
				return
			}
			got := pulls.Decide(*about, nil)
			if got.State != tc.want || len(got.Create) != tc.jobs {
				t.Errorf("the decision is %+v, want %s and %d jobs", got, tc.want, tc.jobs)
			}
		})
	}
}
