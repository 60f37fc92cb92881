// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package injection_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
)

// alike are so many sets for the same pods, each with so many containers.
func alike(t testing.TB, n, containers int) []*appsv1.ControllerRevision {
	t.Helper()
	var sets []*sidecar.Set
	for i := range n {
		parsed := map[string]any{}
		var all []string
		for k := range containers {
			all = append(all, fmt.Sprintf("{name: agent-%02d-%d, image: a}", i, k))
		}
		text := fmt.Sprintf("{metadata: {name: set-%02d}, spec: {selector: {matchLabels: {app: shop}}, containers: [%s]}}", i, strings.Join(all, ", "))
		if err := yaml.Unmarshal([]byte(text), &parsed); err != nil {
			t.Fatal(err)
		}
		set, err := sidecar.ParseSet(parsed)
		if err != nil {
			t.Fatal(err)
		}
		sets = append(sets, set)
	}
	var revisions []*appsv1.ControllerRevision
	for _, set := range sets {
		compiled, err := sidecar.Compile(set, sets)
		if err != nil {
			t.Fatal(err)
		}
		revisions = append(revisions, revisionOf(t, compiled))
	}
	return revisions
}

func shopPod() (*corev1.Pod, *corev1.Namespace) {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "shop"}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "w"}}},
	}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
}

// A set's cost grows with the number of sets for a pod, and at most with their number times
// the pod's containers. Costs are the API server's units; a pod may take ten million for
// each set.
func TestManySetsOnOnePodCostLittleEach(t *testing.T) {
	e := compile(t)
	for _, tc := range []struct {
		sets, containers int
		budget           int64
	}{{1, 1, 1_500}, {5, 1, 8_000}, {20, 1, 30_000}, {50, 3, 900_000}} {
		t.Run(fmt.Sprint(tc.sets, tc.containers), func(t *testing.T) {
			pod, namespace := shopPod()
			want := pod.DeepCopy()
			began := time.Now()
			for _, revision := range alike(t, tc.sets, tc.containers) {
				var err error
				if pod, err = e.applyWithin(t.Context(), pod, namespace, revision, false, tc.budget); err != nil {
					t.Fatalf("%d containers so far: %v", len(want.Spec.Containers), err)
				}
				if want, err = byReference(t, want, namespace, revision); err != nil {
					t.Fatal(err)
				}
			}
			t.Logf("measured: %d ms", time.Since(began).Milliseconds())
			if diff := cmp.Diff(want, pod, cmpopts.IgnoreFields(corev1.Pod{}, "TypeMeta"), cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// BenchmarkOneSet creates a pod with one set's container.
func BenchmarkOneSet(b *testing.B) {
	e, revisions := compile(b), alike(b, 1, 1)
	for b.Loop() {
		pod, namespace := shopPod()
		if _, err := e.apply(b.Context(), pod, namespace, revisions[0], false); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkConstant creates a pod with a one-line policy's container: the API server's base
// cost of a policy.
func BenchmarkConstant(b *testing.B) {
	e, revisions := compiled(b, nil, `[JSONPatch{op: "add", path: "/spec/containers/0", value: {"name": dyn("agent"), "image": dyn("a")}}]`), alike(b, 1, 1)
	for b.Loop() {
		pod, namespace := shopPod()
		if _, err := e.apply(b.Context(), pod, namespace, revisions[0], false); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkTwentySets creates a pod with twenty sets' containers.
func BenchmarkTwentySets(b *testing.B) {
	e, revisions := compile(b), alike(b, 20, 1)
	for b.Loop() {
		pod, namespace := shopPod()
		for _, revision := range revisions {
			var err error
			if pod, err = e.apply(b.Context(), pod, namespace, revision, false); err != nil {
				b.Fatal(err)
			}
		}
	}
}
