// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package injection_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
)

// Objects stored without a schema, or by OpenKruise, are injected by both ways alike: null
// fields, as `volumeMounts:` with nothing behind it, and an unknown patchPolicy, which does
// nothing.
func TestWhatIsStoredIsInjectedAlike(t *testing.T) {
	e := compile(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{corev1.LabelMetadataName: "shop"}}}
	device, path := "block", "/dev/a"
	for name, spec := range map[string]string{
		"mounts that are null": `{containers: [{name: agent, image: a, volumeMounts: null, shareVolumePolicy: {type: enabled}}]}`,
		"devices that are null": `{containers: [{name: agent, image: a, volumeMounts: null, volumeDevices: null,
			shareVolumePolicy: {type: enabled}, shareVolumeDevicePolicy: {type: enabled}}]}`,
		"more that is null": `{containers: [{name: agent, image: a, env: null, args: null, resources: null, lifecycle: null, ports: null,
			volumeMounts: [{name: data, mountPath: /data, subPath: null}]}], volumes: [{name: data, emptyDir: null}], initContainers: null}`,
		"variables that are null": `{containers: [{name: agent, image: a, env: null, transferEnv: [{sourceContainerName: web, envName: A, envNames: null}]}]}`,
		"variables of a native sidecar": `{containers: [{name: agent, image: a, transferEnv: [{sourceContainerName: mesh, envName: B}, {sourceContainerName: setup, envName: C}]}],
			initContainers: [{name: first, image: f, podInjectPolicy: BeforeAppContainer}, {name: last, image: l}]}`,
		"a hot upgrade": `{containers: [{name: agent, image: a, command: null, upgradeStrategy: {upgradeType: HotUpgrade, hotUpgradeEmptyImage: idle}}]}`,
		"another patchPolicy": `{containers: [{name: agent, image: a}], patchPodMetadata: [{patchPolicy: Replace, annotations: {theirs: ours, new: ours}},
			{patchPolicy: Overwrite, annotations: {set: ours}}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			parsed := map[string]any{}
			if err := yaml.Unmarshal([]byte(`{metadata: {name: log}, spec: `+spec+`}`), &parsed); err != nil {
				t.Fatal(err)
			}
			parsed["spec"].(map[string]any)["selector"] = map[string]any{"matchLabels": map[string]any{"app": "shop"}}
			set, err := sidecar.ParseSet(parsed)
			if err != nil {
				t.Fatal(err)
			}
			compiled, err := sidecar.Compile(set, nil)
			if err != nil {
				t.Fatal(err)
			}
			revision := revisionOf(t, compiled)
			for _, pod := range []*corev1.Pod{
				{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}}},
				{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}, InitContainers: []corev1.Container{
					{Name: "setup", Image: "s", Env: []corev1.EnvVar{{Name: "C", Value: "c"}}},
					{Name: "mesh", Image: "m", RestartPolicy: new(corev1.ContainerRestartPolicyAlways), Env: []corev1.EnvVar{{Name: "A", Value: "a"}, {Name: "B", Value: "b"}}},
				}}},
				{
					ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"theirs": "theirs"}},
					Spec: corev1.PodSpec{Containers: []corev1.Container{{
						Name: "web", Image: "web", Env: []corev1.EnvVar{{Name: "A", Value: "a"}}, VolumeMounts: []corev1.VolumeMount{{Name: "logs", MountPath: "/logs"}},
						VolumeDevices: []corev1.VolumeDevice{{Name: device, DevicePath: path}},
						Resources:     corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
					}}},
				},
			} {
				pod.Namespace, pod.Name, pod.Labels = "shop", "web", map[string]string{"app": "shop"}
				want, err := byReference(t, pod, namespace, revision)
				if err != nil {
					t.Fatal(err)
				}
				got, err := e.apply(t.Context(), pod, namespace, revision, true)
				if err != nil {
					t.Errorf("the policy refuses the pod: %v", err)
					continue
				}
				if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(corev1.Pod{}, "TypeMeta"), cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("(-webhook +policy):\n%s", diff)
				}
			}
		})
	}
}
