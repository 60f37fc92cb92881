// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package statefulset

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	pulls "github.com/kruise-operator/kruise-operator/internal/engine/image"
)

func TestPullingWorkload(t *testing.T) {
	cases := map[string]struct {
		replicas   int32
		steps      []func(*world)
		want       pulls.State
		jobs       int
		unreadable bool
	}{
		"at rest":                    {replicas: 5, steps: []func(*world){running, inPlace}},
		"in a rollout":               {replicas: 5, steps: []func(*world){running, inPlace, image("2")}, want: pulls.Wanted, jobs: 1},
		"with few replicas":          {replicas: 3, steps: []func(*world){running, inPlace, image("2")}, want: pulls.NotUseful},
		"with ReCreate":              {replicas: 5, steps: []func(*world){running, image("2")}, want: pulls.NotUseful},
		"when all may go at once":    {replicas: 5, steps: []func(*world){running, inPlace, maxUnavailable(5), image("2")}, want: pulls.NotUseful},
		"not if a partition is kept": {replicas: 5, steps: []func(*world){running, inPlace, maxUnavailable(5), image("2"), partition(1)}, want: pulls.Wanted, jobs: 1},
		"with OnDelete": {replicas: 5, steps: []func(*world){running, image("2"), func(w *world) {
			w.set.Spec.UpdateStrategy = appsv1beta1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
		}}, want: pulls.NotUseful},
		"before enough pods are updated": {replicas: 5, steps: []func(*world){running, inPlace, image("2"), func(w *world) {
			w.set.Annotations = map[string]string{shared.AnnotationPreDownloadMinUpdatedReadyPods: "30%"}
		}}, want: pulls.Waiting},
		// The pass that finds the rollout over is the last one.
		"over, before the status says so": {replicas: 5, steps: []func(*world){running, inPlace, image("2"), func(w *world) {
			for _, pod := range w.pods {
				pod.Labels[shared.LabelControllerRevisionHash] = w.snapshot().Update.Name
			}
		}}},
		"without a selector": {replicas: 5, steps: []func(*world){running, func(w *world) { w.set.Spec.Selector = nil }}, unreadable: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tc.replicas, tc.steps...)
			workload, ok := pullingWorkload(w.set, w.snapshot(), w.o)
			if ok == tc.unreadable {
				t.Fatalf("the spec can be read: %v", ok)
			}
			if !ok {
				return
			}
			got := pulls.Decide(workload, nil)
			if got.State != tc.want || len(got.Create) != tc.jobs {
				t.Errorf("the decision is %+v, want %s and %d jobs", got, tc.want, tc.jobs)
			}
		})
	}
}
