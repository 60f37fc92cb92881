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

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
)

// The API server bounds an expression's cost. Pods within the limits stay below, and larger
// ones are refused with the reason.
func TestLargePodsAreWithinTheBudget(t *testing.T) {
	e := compile(t)
	for _, size := range []struct{ sidecars, containers, mounts, expressions, env int }{
		{1, 1, 400, 60, 140}, {1, 20, 400, 60, 800}, {5, 1, 400, 60, 140}, {5, 20, 400, 60, 800}, {5, 100, 400, 60, 800},
	} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			compiled := sharing(t, size.sidecars, size.env/size.containers)
			if gaps := compiled.Webhooked(); len(gaps) > 0 {
				t.Fatalf("left to the webhook: %v", gaps)
			}
			revision, namespace := revisionOf(t, compiled), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
			pod := largePod(size.containers, size.mounts, size.expressions, size.env)
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
			for words, larger := range map[string]*corev1.Pod{
				fmt.Sprintf("has %d volume mounts,", size.mounts+1): largePod(1, size.mounts+1, 0, 0),
				"has 61 volume mounts with subPathExpr,":            largePod(1, size.mounts, size.expressions+1, 0),
				"has 801 environment variables,":                    largePod(1, size.mounts, 0, 801),
			} {
				if _, err := e.apply(t.Context(), larger, namespace, revision, true); err == nil || !strings.Contains(err.Error(), "SidecarSet log: the pod "+words) {
					t.Errorf("a pod beyond the limit is not refused because it %s: %v", words, err)
				}
			}
		})
	}
}

// Sets taking more are injected by the webhook.
func TestWhatTakesTooMuchIsLeftToTheWebhook(t *testing.T) {
	for _, size := range []struct{ sidecars, variables int }{{6, 1}, {1, 141}} {
		if gaps := sharing(t, size.sidecars, size.variables).Webhooked(); len(gaps) != 1 {
			t.Errorf("%v: left to the webhook: %v", size, gaps)
		}
	}
}

// sharing is a set of sidecars taking everything from the pod.
func sharing(t *testing.T, sidecars, variables int) sidecar.Injection {
	t.Helper()
	var names []string
	for k := range variables {
		names = append(names, fmt.Sprintf("E%d", k))
	}
	var text strings.Builder
	text.WriteString("metadata: {name: log}\nspec:\n  selector: {matchLabels: {app: shop}}\n  containers:\n")
	for n := range sidecars {
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
	return compiled
}

// largePod has mounts and variables spread over its containers, with expressions in the first mounts.
func largePod(containers, mounts, expressions, env int) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "shop"}}}
	for n := range containers {
		c := corev1.Container{Name: fmt.Sprintf("c%d", n)}
		for k := range env / containers {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("E%d", k), Value: "x"})
		}
		for k := range mounts / containers {
			mount := corev1.VolumeMount{Name: "v", MountPath: fmt.Sprintf("/m/%d/%d", n, k)}
			if n*(mounts/containers)+k < expressions {
				mount.SubPathExpr = fmt.Sprintf("$(E%d)", k)
			}
			c.VolumeMounts = append(c.VolumeMounts, mount)
		}
		pod.Spec.Containers = append(pod.Spec.Containers, c)
	}
	return pod
}

// Both ways refuse a pod too costly for the API server with the reason; one just small
// enough takes little.
func TestPodsThatAreTooLargeAreRefusedInOurWords(t *testing.T) {
	e := compile(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	plain, taking := revisionOf(t, plainSet(t)), revisionOf(t, sharing(t, 1, 10))
	few := func(n int) []corev1.Container { return largePod(n, 0, 0, 0).Spec.Containers }
	for name, tc := range map[string]struct {
		most   int
		change func(pod *corev1.Pod, n int)
	}{
		"containers":      {1000, func(pod *corev1.Pod, n int) { pod.Spec.Containers = few(n) }},
		"init containers": {1000, func(pod *corev1.Pod, n int) { pod.Spec.InitContainers = few(n) }},
		"volumes": {2000, func(pod *corev1.Pod, n int) {
			for k := range n {
				pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: fmt.Sprintf("v%d", k)})
			}
		}},
		"pull secrets": {1000, func(pod *corev1.Pod, n int) {
			for k := range n {
				pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: fmt.Sprintf("s%d", k)})
			}
		}},
		"variables": {10_000, func(pod *corev1.Pod, n int) {
			pod.Spec.Containers = append(largePod(1, 0, 0, n/2).Spec.Containers, largePod(1, 0, 0, n-n/2).Spec.Containers...)
			pod.Spec.Containers[1].Name = "c1"
		}},
		"an annotation of members": {65_536, func(pod *corev1.Pod, n int) {
			pod.Annotations = map[string]string{shared.AnnotationSidecarSetHash: strings.Repeat(`"a":{},`, n/7) + strings.Repeat(" ", n%7)}
		}},
		"an annotation of names": {65_536, func(pod *corev1.Pod, n int) {
			pod.Annotations = map[string]string{shared.AnnotationSidecarSetInjectedList: strings.Repeat(",", n)}
		}},
		"characters of several bytes": {65_536, func(pod *corev1.Pod, n int) {
			pod.Annotations = map[string]string{shared.AnnotationSidecarSetWorkingContainer: strings.Repeat("é", n)}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, revision := range []*appsv1.ControllerRevision{plain, taking} {
				for n, refused := range map[int]bool{tc.most: false, tc.most + 1: true} {
					pod := largePod(1, 0, 0, 0)
					tc.change(pod, n)
					began := time.Now()
					got, err := e.apply(t.Context(), pod, namespace, revision, false)
					if took := time.Since(began); took > 3*time.Second {
						t.Errorf("%d: it takes %s", n, took)
					}
					want, byWebhook := byReference(t, pod, namespace, revision)
					if refused {
						const words = "SidecarSet log: the pod is too large to get sidecars: it may have 1000 containers, "
						if byWebhook == nil || !strings.HasPrefix(byWebhook.Error(), words) || err == nil || !strings.Contains(err.Error(), byWebhook.Error()) {
							t.Errorf("%d: by policy %v, by webhook %v", n, err, byWebhook)
						}
						continue
					}
					if revision == taking && err != nil && strings.Contains(err.Error(), "take something from its containers") {
						continue // This set has a lower limit.
					}
					if err != nil || byWebhook != nil {
						t.Errorf("%d: by policy %v, by webhook %v", n, err, byWebhook)
					} else if revision == plain {
						if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(corev1.Pod{}, "TypeMeta"), cmpopts.EquateEmpty()); diff != "" {
							t.Error(diff)
						}
					}
				}
			}
		})
	}
}

// plainSet is a set with one sidecar taking nothing from the pod.
func plainSet(t *testing.T) sidecar.Injection {
	t.Helper()
	parsed := map[string]any{}
	if err := yaml.Unmarshal([]byte(`{metadata: {name: log}, spec: {selector: {matchLabels: {app: shop}}, containers: [{name: agent, image: a}]}}`), &parsed); err != nil {
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
	return compiled
}
