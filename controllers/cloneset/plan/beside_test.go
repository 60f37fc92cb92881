// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsshared "github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/api/rollouts/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
	"github.com/kruise-operator/kruise-operator/internal/engine/rollable"
)

// TestPodsBesideOldOnes: a set in a blue-green release. Pods are given by version, all available.
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
		"as OpenKruise left it":               {rollable.Twin{}, "v2", 4, 4, 2, 0, 4, 0, 0, 0, 0},
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
			got := both.diff(p.count(false), false)
			if got.create != tc.create || got.createOld != tc.olds || got.remove != tc.remove || got.move != tc.moves {
				t.Errorf("got %+v", got)
			}
			if s.Replicas != tc.replicas {
				t.Error("the spec of the set has changed")
			}
		})
	}
}

// besides is the note of a release: so many new pods of a revision. None: it gives the set back.
func besides(version string, pods int) func(*simulation) {
	return func(w *simulation) {
		w.set.Annotations = map[string]string{}
		w.rolling().Partition = value("100%")
		if version == "" {
			w.rolling().Partition = value(0)
			return
		}
		w.set.Annotations[shared.AnnotationOriginal] = rollable.Twin{Revision: "web-" + version, Pods: pods}.Encode()
	}
}

// gone deletes the pods of a version.
func gone(version string) func(*simulation) {
	return func(w *simulation) {
		w.Pods = slices.DeleteFunc(w.Pods, func(p *corev1.Pod) bool {
			return strings.HasSuffix(p.Labels[appsshared.LabelControllerRevisionHash], version)
		})
	}
}

// TestAReleaseBesideOldPods: whatever comes in the middle, old pods stay until the end, and a set that is given back has one version.
func TestAReleaseBesideOldPods(t *testing.T) {
	for _, how := range []func(*simulation){func(*simulation) {}, inPlace, maxSurge(2), maxUnavailable(0)} {
		w := newSimulation(t, 4, maxSurge(1), maxUnavailable("25%"), how)
		are := func(what string, v1, v2, v3 int) {
			t.Helper()
			w.expect(what, [3]int{w.at("1"), w.at("2"), w.at("3")}, [3]int{v1, v2, v3})
		}
		w.do(partition("100%"))
		w.rest(image("2"))
		are("held", 4, 0, 0)
		w.watch()
		w.rest(besides("2", 2))
		are("the first step", 4, 2, 0)
		w.rest(replicas(6), besides("2", 3))
		are("scaled up", 6, 3, 0)
		w.rest(replicas(4), besides("2", 4))
		are("scaled down, all pods", 4, 4, 0)
		w.rest(image("1"))
		are("set back", 4, 4, 0)
		w.rest(image("3"))
		are("a third version", 4, 4, 0)
		w.rest(gone("2"))
		are("the second is withdrawn", 4, 0, 0)
		w.rest(besides("3", 4))
		are("all of the third", 4, 0, 4)
		w.expect("fewest available", w.minAvailable, 4)
		w.expect("currentRevision", w.set.Status.CurrentRevision, "web-1")
		w.watch()
		w.rest(besides("", 0))
		are("given back", 0, 0, 4)
		if w.minAvailable < 4 {
			t.Errorf("%d pods were available", w.minAvailable)
		}
		w.expect("currentRevision", w.set.Status.CurrentRevision, "web-3")
	}
}
