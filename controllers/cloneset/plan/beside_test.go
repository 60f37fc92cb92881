// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/rollouts/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
	"github.com/kruise-operator/kruise-operator/internal/engine/rollable"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// TestPodsBesideOldOnes: what a set does in a release that keeps all old pods. Pods are given by version, all available.
func TestPodsBesideOldOnes(t *testing.T) {
	for name, tc := range map[string]struct {
		twin          rollable.Twin
		update        string
		replicas      int
		v1, v2, v3    int
		maxSurge      int
		create, olds  int
		remove, moves int
	}{
		"new pods come":                       {rollable.Twin{Revision: "v2", Pods: 2}, "v2", 4, 4, 0, 0, 0, 2, 0, 0, 0},
		"with a surge of the user":            {rollable.Twin{Revision: "v2", Pods: 2}, "v2", 4, 4, 0, 0, 3, 2, 0, 0, 0},
		"all are there":                       {rollable.Twin{Revision: "v2", Pods: 4}, "v2", 4, 4, 4, 0, 0, 0, 0, 0, 0},
		"an old pod is missing":               {rollable.Twin{Revision: "v2", Pods: 4}, "v2", 4, 3, 4, 0, 0, 1, 1, 0, 0},
		"scaled up":                           {rollable.Twin{Revision: "v2", Pods: 2}, "v2", 6, 4, 2, 0, 0, 2, 2, 0, 0},
		"scaled down":                         {rollable.Twin{Revision: "v2", Pods: 4}, "v2", 3, 4, 4, 0, 0, 0, 0, 2, 0},
		"set back":                            {rollable.Twin{Revision: "v2", Pods: 4}, "v1", 4, 4, 4, 0, 2, 0, 0, 0, 0},
		"another version":                     {rollable.Twin{Revision: "v2", Pods: 4}, "v3", 4, 4, 4, 0, 2, 0, 0, 0, 0},
		"another version, some pods are gone": {rollable.Twin{Revision: "v2", Pods: 4}, "v3", 4, 4, 2, 0, 2, 0, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			set := &appsv1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{shared.AnnotationOriginal: tc.twin.Encode()}}}
			s := &Spec{Set: set, MaxSurge: tc.maxSurge}
			s.Replicas, s.Partition, s.ScaleMaxUnavailable = tc.replicas, tc.replicas, 100
			snapshot := &podset.Snapshot{Update: revision.Revision{Name: tc.update}, Current: revision.Revision{Name: "v1"}}
			for version, n := range map[string]int{"v1": tc.v1, "v2": tc.v2, "v3": tc.v3} {
				for range n {
					snapshot.Pods = append(snapshot.Pods, podset.Pod{Revision: version, Available: true})
				}
			}
			both := s.beside(snapshot)
			p := &planner{Spec: both, s: snapshot}
			for i := range snapshot.Pods {
				p.pods = append(p.pods, &snapshot.Pods[i])
			}
			got := both.limits(false).diff(p.count(false))
			if got.create != tc.create || got.createOld != tc.olds || got.remove != tc.remove || got.move != tc.moves {
				t.Errorf("got %+v", got)
			}
			if s.Replicas != tc.replicas {
				t.Error("the spec of the set has changed")
			}
		})
	}
}
