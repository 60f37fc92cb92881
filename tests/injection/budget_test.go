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
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/internal/engine/sidecar"
)

// The API server bounds what an expression may cost. Pods far larger than usual ones stay below, as the page on injection says.
func TestLargePodsAreWithinTheBudget(t *testing.T) {
	e := compile(t)
	for _, size := range []struct{ sidecars, containers, each, expressions int }{{1, 1, 10, 1}, {3, 10, 10, 1}, {5, 20, 20, 10}} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "shop"}}}
			var names []string
			for n := range size.containers {
				c := corev1.Container{Name: fmt.Sprintf("c%d", n)}
				for k := range size.each {
					c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("E%d", k), Value: "x"})
					mount := corev1.VolumeMount{Name: "v", MountPath: fmt.Sprintf("/m/%d/%d", n, k)}
					if k%size.expressions == 0 {
						mount.SubPathExpr = fmt.Sprintf("$(E%d)", k)
					}
					c.VolumeMounts = append(c.VolumeMounts, mount)
				}
				pod.Spec.Containers = append(pod.Spec.Containers, c)
			}
			for k := range size.each {
				names = append(names, fmt.Sprintf("E%d", k))
			}
			var text strings.Builder
			text.WriteString("metadata: {name: log}\nspec:\n  selector: {matchLabels: {app: shop}}\n  containers:\n")
			for n := range size.sidecars {
				fmt.Fprintf(&text, "  - {name: s%d, image: a, shareVolumePolicy: {type: enabled}, transferEnv: [{sourceContainerName: c0, envNames: [%s]}]}\n", n, strings.Join(names, ", "))
			}
			parsed := map[string]any{}
			if err := yaml.Unmarshal([]byte(text.String()), &parsed); err != nil {
				t.Fatal(err)
			}
			set, err := sidecar.ParseSet(parsed)
			if err != nil {
				t.Fatal(err)
			}
			compiled, err := sidecar.Compile(set, nil)
			if err != nil {
				t.Fatal(err)
			}
			revision, namespace := revisionOf(t, compiled), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
			began := time.Now()
			got, err := e.apply(t.Context(), pod, namespace, revision, true)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("measured: %d ms", time.Since(began).Milliseconds())
			want, err := byReference(t, pod, namespace, revision)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(corev1.Pod{}, "TypeMeta"), cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
