// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package injection_test

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "k8s.io/apimachinery/pkg/util/json"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
	"github.com/kruise-operator/kruise-operator/internal/testutil/fixtures"
)

// With OpenKruise still running, both inject into one pod. In either order, by policy or by
// webhook, the pod has everything once, with the later one's sidecars. The objects are
// OpenKruise's; its webhook is played by its specification.
func TestAPodIntoWhichOpenKruiseInjectsTooHasEverythingOnce(t *testing.T) {
	e := compile(t)
	before, after := fixtures.Objects(t, "sidecarset/state-after-03.yaml"), fixtures.Objects(t, "sidecarset/state.yaml")
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "sidecarset", Labels: map[string]string{"kubernetes.io/metadata.name": "sidecarset"}}}
	for _, tc := range []struct{ set, deployment, revision string }{{"logs", "front", "logs-d7674b598"}, {"mesh", "back", "mesh-6b6696fbcf"}} {
		revision := injectedAt(t, after, tc.set, tc.revision)
		recorded := podOf(t, before, tc.deployment)
		template := fixtures.Template(t, fixtures.Find(t, before, "Deployment", tc.deployment))
		policy := func(pod *corev1.Pod) *corev1.Pod {
			got, err := e.apply(t.Context(), pod, namespace, revision, false)
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		webhook := func(pod *corev1.Pod) *corev1.Pod {
			got, err := byReference(t, pod, namespace, revision)
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		openKruise := func(pod *corev1.Pod) *corev1.Pod { return asOpenKruiseInjects(t, pod, recorded, tc.set) }
		copied := func(*corev1.Pod) *corev1.Pod { return recorded.DeepCopy() }
		for name, steps := range map[string][]func(*corev1.Pod) *corev1.Pod{
			"OpenKruise, then the webhook":                               {openKruise, webhook},
			"the policy, then OpenKruise":                                {policy, openKruise},
			"the policy, then OpenKruise, then the webhook":              {policy, openKruise, webhook},
			"the webhook, then OpenKruise, and the webhook once more":    {webhook, openKruise, webhook},
			"a pod that OpenKruise has injected is copied, by policy":    {copied, policy},
			"a pod that OpenKruise has injected is copied, by webhook":   {copied, webhook},
			"a copied pod, by policy, and OpenKruise injects once again": {copied, policy, openKruise},
		} {
			t.Run(tc.set+": "+name, func(t *testing.T) {
				pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
				for _, step := range steps {
					pod = step(pod)
				}
				for _, list := range []string{"containers", "initContainers", "volumes", "imagePullSecrets"} {
					got, want := namesIn(t, pod, list), namesIn(t, recorded, list)
					if got, want := withoutToken(got), withoutToken(want); !slices.Equal(got, want) {
						t.Errorf("%s: %v, OpenKruise alone makes %v", list, got, want)
					}
				}
				for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
					once(t, "a variable of container "+c.Name, c.Env, func(e corev1.EnvVar) string { return e.Name })
					once(t, "a mount of container "+c.Name, c.VolumeMounts, func(m corev1.VolumeMount) string { return m.MountPath })
				}
				if got := pod.Annotations[shared.AnnotationSidecarSetInjectedList]; got != tc.set {
					t.Errorf("the injected list is %q", got)
				}
				for _, key := range []string{shared.AnnotationSidecarSetHash, shared.AnnotationSidecarSetHashWithoutImage} {
					if got := strings.Count(pod.Annotations[key], `"sidecarSetName":`); got != 1 || len(sidecar.EntriesOf(pod, key)) != 1 {
						t.Errorf("%s has %d entries: %s", key, got, pod.Annotations[key])
					}
				}
			})
		}
	}
}

// injectedAt is the injection of OpenKruise's set at a revision of its history.
func injectedAt(t *testing.T, objects []*unstructured.Unstructured, name, revision string) *appsv1.ControllerRevision {
	t.Helper()
	set, err := sidecar.ParseSet(fixtures.Find(t, objects, "SidecarSet", name).DeepCopy().Object)
	if err != nil {
		t.Fatal(err)
	}
	data := map[string]any{}
	if err := kjson.Unmarshal(fixtures.Raw(t, "sidecarset", revision), &data); err != nil {
		t.Fatal(err)
	}
	payload, err := sidecar.ParseRevision(data)
	if err != nil {
		t.Fatal(err)
	}
	hashes := fixtures.Find(t, objects, "ControllerRevision", revision).GetAnnotations()
	payload.Hash, payload.WithoutImage, payload.Revision = hashes[shared.AnnotationSidecarSetHash], hashes[shared.AnnotationSidecarSetHashWithoutImage], revision
	set.Latest = *payload
	compiled, err := sidecar.Compile(set, nil)
	if err != nil {
		t.Fatal(err)
	}
	return revisionOf(t, compiled)
}

// podOf is a pod of a Deployment as OpenKruise has injected it.
func podOf(t *testing.T, objects []*unstructured.Unstructured, deployment string) *corev1.Pod {
	t.Helper()
	for _, one := range objects {
		if one.GetKind() == "Pod" && strings.HasPrefix(one.GetName(), deployment) {
			pod := fixtures.As[corev1.Pod](t, one)
			pod.Status = corev1.PodStatus{}
			return pod
		}
	}
	t.Fatal("no pods of " + deployment)
	return nil
}

// asOpenKruiseInjects injects like its webhook. A container of a sidecar's name is replaced
// where it stands, others are added on their side of the pod's own; volumes and pull
// secrets are added unless the pod has them by name; its own members of the annotations are
// written.
func asOpenKruiseInjects(t *testing.T, pod, recorded *corev1.Pod, set string) *corev1.Pod {
	t.Helper()
	pod = pod.DeepCopy()
	merge := func(have, made []corev1.Container) []corev1.Container {
		var first, last []corev1.Container
		added := &first
		for _, c := range made {
			if !slices.Contains(c.Env, corev1.EnvVar{Name: shared.EnvIsInjected, Value: "true"}) {
				added = &last
				continue
			}
			if at := slices.IndexFunc(have, func(h corev1.Container) bool { return h.Name == c.Name }); at >= 0 {
				have[at] = *c.DeepCopy()
			} else {
				*added = append(*added, *c.DeepCopy())
			}
		}
		return slices.Concat(first, have, last)
	}
	pod.Spec.Containers = merge(pod.Spec.Containers, recorded.Spec.Containers)
	pod.Spec.InitContainers = merge(pod.Spec.InitContainers, recorded.Spec.InitContainers)
	for _, v := range recorded.Spec.Volumes {
		if !slices.ContainsFunc(pod.Spec.Volumes, func(h corev1.Volume) bool { return h.Name == v.Name }) {
			pod.Spec.Volumes = append(pod.Spec.Volumes, v)
		}
	}
	for _, s := range recorded.Spec.ImagePullSecrets {
		if !slices.Contains(pod.Spec.ImagePullSecrets, s) {
			pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, s)
		}
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	for key, value := range recorded.Annotations {
		switch key {
		case shared.AnnotationSidecarSetHash, shared.AnnotationSidecarSetHashWithoutImage:
			entries := sidecar.EntriesOf(pod, key)
			entries[set] = sidecar.EntriesOf(recorded, key)[set]
			text, err := json.Marshal(entries)
			if err != nil {
				t.Fatal(err)
			}
			pod.Annotations[key] = string(text)
		case shared.AnnotationSidecarSetInjectedList:
			if list := pod.Annotations[key]; !slices.Contains(strings.Split(list, ","), set) {
				pod.Annotations[key] = strings.TrimPrefix(list+","+set, ",")
			}
		default:
			pod.Annotations[key] = cmp.Or(pod.Annotations[key], value)
		}
	}
	return pod
}

// namesIn are the names of the items of a list of a pod.
func namesIn(t *testing.T, pod *corev1.Pod, list string) []string {
	t.Helper()
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
	if err != nil {
		t.Fatal(err)
	}
	items, _, err := unstructured.NestedSlice(object, "spec", list)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, item := range items {
		name, _ := item.(map[string]any)["name"].(string)
		names = append(names, name)
	}
	return names
}

// withoutToken omits the API server's volume.
func withoutToken(names []string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, "kube-api-access-") })
}

func once[T any](t *testing.T, what string, list []T, key func(T) string) {
	t.Helper()
	seen := map[string]bool{}
	for _, item := range list {
		if seen[key(item)] {
			t.Errorf("%s is there twice: %s", what, key(item))
		}
		seen[key(item)] = true
	}
}
