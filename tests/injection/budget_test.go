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
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
)

// The API server bounds an expression's cost. Pods within the limits stay below, and larger
// ones are refused with the reason.
func TestLargePodsAreWithinTheBudget(t *testing.T) {
	e := compile(t)
	for _, size := range []struct{ sidecars, containers, mounts, expressions, env int }{
		{1, 1, 400, 60, 387}, {1, 20, 400, 60, 800}, {5, 1, 400, 60, 140}, {5, 20, 400, 60, 800}, {5, 100, 400, 60, 800}, {20, 20, 100, 60, 800},
	} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			compiled := sharing(t, size.sidecars, size.env/size.containers)
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
				fmt.Sprintf("has %d volume mounts,", size.mounts+1):                 largePod(1, size.mounts+1, 0, 0),
				"has 61 volume mounts with subPathExpr,":                            largePod(1, size.mounts, size.expressions+1, 0),
				fmt.Sprintf("has %d environment variables,", compiled.Limits.Env+1): largePod(1, size.mounts, 0, compiled.Limits.Env+1),
			} {
				if _, err := e.apply(t.Context(), larger, namespace, revision, true); err == nil || !strings.Contains(err.Error(), "SidecarSet log: the pod "+words) {
					t.Errorf("a pod beyond the limit is not refused because it %s: %v", words, err)
				}
			}
		})
	}
}

// However many sidecars of a set compute their resources, with long names and regular expressions and whatever variables: the policy injects into pods as
// large as the limits allow, and refuses larger ones. Where they would be very low, the set is injected by webhook.
func TestPodsFromWhichManySidecarsComputeResourcesAreWithinTheBudget(t *testing.T) {
	e := compile(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	for _, size := range []struct {
		sidecars, regex int
		amounts         string
		env, want       int
	}{
		{1, 256, allAmounts, 10_000, 1000}, {6, 40, allAmounts, 0, 1000}, {10, 40, allAmounts, 0, 655}, {20, 2, onlyCPU, 0, 769}, {60, 2, allAmounts, 1000, 111}, {200, 2, onlyCPU, 1000, 76},
		{200, 2, allAmounts, 0, 0}, {100, 256, allAmounts, 0, 0}, {200, 256, allAmounts, 10_000, 0},
	} {
		t.Run(fmt.Sprint(size.sidecars, size.regex, len(size.amounts)), func(t *testing.T) {
			compiled := computing(t, size.sidecars, size.regex, size.amounts, "")
			if got := compiled.Webhooked(); (len(got) > 0) != (size.want == 0) {
				t.Fatalf("left to the webhook: %v", got)
			}
			if size.want == 0 {
				return
			}
			most := 1000
			if compiled.Limits != nil {
				most = compiled.Limits.Containers
			}
			if most != size.want {
				t.Errorf("the policy serves pods of %d containers, want %d", most, size.want)
			}
			revision := revisionOf(t, compiled)
			pod := pricedPod(most-1, size.env)
			pod.Spec.InitContainers = []corev1.Container{{Name: "native", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways), Resources: pod.Spec.Containers[0].Resources}}
			began := time.Now()
			got, err := e.apply(t.Context(), pod, namespace, revision, true)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("measured: %d containers, %d ms", most, time.Since(began).Milliseconds())
			want, err := byReference(t, pod, namespace, revision)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(corev1.Pod{}, "TypeMeta"), cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
			if most == 1000 {
				return
			}
			larger := pricedPod(most, 0)
			larger.Spec.InitContainers = pod.Spec.InitContainers
			words := fmt.Sprintf("SidecarSet log: the pod has %d containers and native sidecars, and sidecars that take something from its containers allow %d", most+1, most)
			if _, err := e.apply(t.Context(), larger, namespace, revision, true); err == nil || !strings.Contains(err.Error(), words) {
				t.Errorf("a pod beyond the limit is not refused: %v", err)
			}
		})
	}
}

// A set taking everything from the policy's largest pod, and computing resources, is within
// the budget, too.
func TestSharingAndComputingTogetherAreWithinTheBudget(t *testing.T) {
	e := compile(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	var names []string
	for k := range 40 {
		names = append(names, fmt.Sprintf("E%d", k))
	}
	more := "shareVolumePolicy: {type: enabled}, transferEnv: [{sourceContainerName: c0, envNames: [" + strings.Join(names, ", ") + "]}],"
	for _, sidecars := range []int{1, 5, 20} {
		t.Run(fmt.Sprint(sidecars), func(t *testing.T) {
			compiled := computing(t, sidecars, 256, allAmounts, more)
			bounds := compiled.Limits
			most := min(bounds.Containers, 400)
			pod := largePod(most, bounds.Mounts/most*most, bounds.SubPathExprs, bounds.Env/most*most)
			for at := range pod.Spec.Containers {
				pod.Spec.Containers[at].Resources = priced()
			}
			revision := revisionOf(t, compiled)
			got, err := e.apply(t.Context(), pod, namespace, revision, true)
			if err != nil {
				t.Fatal(err)
			}
			if want, err := byReference(t, pod, namespace, revision); err != nil || !cmp.Equal(want, got, cmpopts.IgnoreFields(corev1.Pod{}, "TypeMeta"), cmpopts.EquateEmpty()) {
				t.Errorf("the webhook makes another pod: %v", err)
			}
		})
	}
}

// Expressions of very many steps cost too much whatever the pod: the webhook computes them.
func TestVeryManyStepsAreComputedByTheWebhook(t *testing.T) {
	for terms, byWebhook := range map[int]bool{2: false, 32: false, 64: true} {
		balanced := []string{}
		for n := range terms {
			balanced = append(balanced, fmt.Sprintf("cpu*%d%%", n+1))
		}
		for len(balanced) > 1 {
			half := balanced[:0:0]
			for n := 0; n < len(balanced); n += 2 {
				half = append(half, "("+balanced[n]+" + "+balanced[n+1]+")")
			}
			balanced = half
		}
		compiled := computing(t, 200, 2, fmt.Sprintf("{limits: {cpu: %[1]q}, requests: {cpu: %[1]q}}", balanced[0]), "")
		if got := fmt.Sprint(compiled.Webhooked()); strings.Contains(got, "so many steps") != byWebhook || !byWebhook && got != "[]" {
			t.Errorf("%d terms: left to the webhook: %s", terms, got)
		}
		if byWebhook {
			continue
		}
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
		if _, err := compile(t).apply(t.Context(), pricedPod(compiled.Limits.Containers, 0), namespace, revisionOf(t, compiled), true); err != nil {
			t.Errorf("%d terms: %v", terms, err)
		}
	}
}

// The sidecars' computed amounts, by expressions of eight levels.
const (
	onlyCPU    = `{limits: {cpu: "max(min(max(min(max(min(max(cpu + 1m, 1m), 9), 2m), 9), 3m), 9), 4m)"}}`
	allAmounts = `{limits: {cpu: "max(min(max(min(max(min(max(cpu, 1m) + 1m, 2m), 9), 3m), 9), 4m), 9)", memory: "max(min(max(min(max(memory + 1, 1), 9Gi), 2), 8Gi), 3)"},
      requests: {cpu: "max(min(max(min(max(cpu, 1m), 2), 3m), 9), 4m)", memory: "memory*10%"}}`
)

// computing is a set of sidecars with resources from all containers, by a regular
// expression of a length.
func computing(t *testing.T, sidecars, regex int, amounts, more string) sidecar.Injection {
	t.Helper()
	var text strings.Builder
	text.WriteString("metadata: {name: log}\nspec:\n  selector: {matchLabels: {app: shop}}\n  containers:\n")
	for n := range sidecars {
		fmt.Fprintf(&text, "  - {name: s%d, image: a, %s resourcesPolicy: {targetContainersMode: sum, targetContainersNameRegex: %q, resourcesExpr: %s}}\n",
			n, more, "y*"+strings.Repeat("z*", regex/2-1), amounts)
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

func priced() corev1.ResourceRequirements {
	list := corev1.ResourceList{"cpu": resource.MustParse("1234m"), "memory": resource.MustParse("1234567890")}
	return corev1.ResourceRequirements{Limits: list, Requests: list}
}

// pricedPod has containers with long names, resources and variables.
func pricedPod(containers, env int) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "shop"}}}
	for n := range max(containers, 1) {
		c := corev1.Container{Name: fmt.Sprintf("%063d", n), Resources: priced()}
		for k := range env / max(containers, 1) {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("E%d", k), Value: "x"})
		}
		pod.Spec.Containers = append(pod.Spec.Containers, c)
	}
	return pod
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
			pod.Annotations = map[string]string{sidecar.HashAnnotation: strings.Repeat(`"a":{},`, n/7) + strings.Repeat(" ", n%7)}
		}},
		"an annotation of names": {65_536, func(pod *corev1.Pod, n int) {
			pod.Annotations = map[string]string{sidecar.InjectedListAnnotation: strings.Repeat(",", n)}
		}},
		"characters of several bytes": {65_536, func(pod *corev1.Pod, n int) {
			pod.Annotations = map[string]string{sidecar.WorkingAnnotation: strings.Repeat("é", n)}
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
