// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podtemplate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/internal/testutil/fixtures"
)

func parse(t *testing.T, text string) *corev1.PodTemplateSpec {
	t.Helper()
	template := &corev1.PodTemplateSpec{}
	if err := yaml.UnmarshalStrict([]byte(text), template); err != nil {
		t.Fatalf("reading %s: %v", text, err)
	}
	return template
}

// TestDefaulted gives the spec as a user writes it and what a pod made from it has in addition.
func TestDefaulted(t *testing.T) {
	cases := map[string]struct{ given, want string }{
		"an empty pod": {
			given: `{}`,
			want: `{dnsPolicy: ClusterFirst, restartPolicy: Always, schedulerName: default-scheduler, terminationGracePeriodSeconds: 30,
				securityContext: {}, enableServiceLinks: true}`,
		},
		"a pod that says everything itself": {
			given: `{dnsPolicy: None, restartPolicy: Never, schedulerName: mine, terminationGracePeriodSeconds: 0, securityContext: {runAsUser: 1},
				enableServiceLinks: false, serviceAccountName: a, serviceAccount: a}`,
			want: `{}`,
		},
		"a service account under its old name": {given: `{serviceAccount: a}`, want: `{serviceAccountName: a}`},
		"a service account under its new name": {given: `{serviceAccountName: a}`, want: `{serviceAccount: a}`},
		"a pod with overhead":                  {given: `{overhead: {cpu: 0.5m}}`, want: `{overhead: {cpu: 1m}}`},
		"a container": {
			given: `{containers: [{name: c, image: i}]}`,
			want:  `{containers: [{terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File, imagePullPolicy: Always}]}`,
		},
		"a container whose tag is not latest is pulled always all the same": {
			given: `{containers: [{name: c, image: "i:1"}]}`,
			want:  `{containers: [{imagePullPolicy: Always}]}`,
		},
		"init containers are pulled by tag": {
			given: `{initContainers: [{image: i}, {image: "i:latest"}, {image: "i:1"}, {image: "host:5000/i"}, {image: "host:5000/i:1"},
				{image: "i@sha256:0123456789012345678901234567890123456789012345678901234567890123"},
				{image: "i:latest@sha256:0123456789012345678901234567890123456789012345678901234567890123"}, {image: ""}, {image: "i", imagePullPolicy: Never}]}`,
			want: `{initContainers: [{imagePullPolicy: Always}, {imagePullPolicy: Always}, {imagePullPolicy: IfNotPresent}, {imagePullPolicy: Always},
				{imagePullPolicy: IfNotPresent}, {imagePullPolicy: IfNotPresent}, {imagePullPolicy: Always}, {imagePullPolicy: IfNotPresent}, {}]}`,
		},
		"ports": {
			given: `{containers: [{ports: [{containerPort: 80}, {containerPort: 81, protocol: UDP}]}]}`,
			want:  `{containers: [{ports: [{protocol: TCP}, {}]}]}`,
		},
		"ports on the host network": {
			given: `{hostNetwork: true, containers: [{ports: [{containerPort: 80}, {containerPort: 81, hostPort: 9}]}], initContainers: [{ports: [{containerPort: 82}]}]}`,
			want:  `{containers: [{ports: [{protocol: TCP, hostPort: 80}, {protocol: TCP}]}], initContainers: [{ports: [{protocol: TCP, hostPort: 82}]}]}`,
		},
		"variables from fields and files": {
			given: `{containers: [{env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}, {name: B, value: x},
				{name: C, valueFrom: {fileKeyRef: {key: k, path: p, volumeName: v}}}]}]}`,
			want: `{containers: [{env: [{valueFrom: {fieldRef: {apiVersion: v1}}}, {}, {valueFrom: {fileKeyRef: {optional: false}}}]}]}`,
		},
		"requests follow limits, rounded up": {
			given: `{containers: [{resources: {limits: {cpu: 100.5m, memory: 1Gi}, requests: {memory: 1Mi}}}]}`,
			want:  `{containers: [{resources: {limits: {cpu: 101m}, requests: {cpu: 101m}}}]}`,
		},
		"resources of the pod are rounded and left as they are": {
			given: `{resources: {limits: {cpu: 100.5m}}, containers: [{resources: {requests: {cpu: 1m}}}]}`,
			want:  `{resources: {limits: {cpu: 101m}}}`,
		},
		"probes": {
			given: `{containers: [{livenessProbe: {httpGet: {port: 80}}, readinessProbe: {grpc: {port: 1}}, startupProbe: {tcpSocket: {port: 2}, periodSeconds: 7}}]}`,
			want: `{containers: [{
				livenessProbe: {httpGet: {path: /, scheme: HTTP}, timeoutSeconds: 1, periodSeconds: 10, successThreshold: 1, failureThreshold: 3},
				readinessProbe: {grpc: {service: ""}, timeoutSeconds: 1, periodSeconds: 10, successThreshold: 1, failureThreshold: 3},
				startupProbe: {timeoutSeconds: 1, successThreshold: 1, failureThreshold: 3}}]}`,
		},
		"hooks": {
			given: `{containers: [{lifecycle: {postStart: {httpGet: {port: 80, path: /x}}, preStop: {exec: {command: [a]}}}}]}`,
			want:  `{containers: [{lifecycle: {postStart: {httpGet: {scheme: HTTP}}}}]}`,
		},
		"a volume of nothing": {given: `{volumes: [{name: v}]}`, want: `{volumes: [{emptyDir: {}}]}`},
		"volumes with modes": {
			given: `{volumes: [{secret: {secretName: s}}, {configMap: {name: c}}, {downwardAPI: {items: [{path: p, fieldRef: {fieldPath: metadata.name}}]}},
				{projected: {sources: [{serviceAccountToken: {path: t}}, {downwardAPI: {items: [{path: p, fieldRef: {fieldPath: metadata.uid}}]}}]}},
				{secret: {secretName: s, defaultMode: 256}}, {hostPath: {path: /x}}, {hostPath: {path: /x, type: Directory}}]}`,
			want: `{volumes: [{secret: {defaultMode: 420}}, {configMap: {defaultMode: 420}}, {downwardAPI: {defaultMode: 420, items: [{fieldRef: {apiVersion: v1}}]}},
				{projected: {defaultMode: 420, sources: [{serviceAccountToken: {expirationSeconds: 3600}}, {downwardAPI: {items: [{fieldRef: {apiVersion: v1}}]}}]}},
				{}, {hostPath: {type: ""}}, {}]}`,
		},
		"volumes on the network": {
			given: `{volumes: [{iscsi: {lun: 0}}, {azureDisk: {diskName: d}}, {image: {reference: "i:1"}}, {image: {reference: i}},
				{ephemeral: {volumeClaimTemplate: {spec: {resources: {requests: {storage: 1Gi}}}}}}]}`,
			want: `{volumes: [{iscsi: {iscsiInterface: default}},
				{azureDisk: {cachingMode: ReadWrite, kind: Shared, fsType: ext4, readOnly: false}},
				{image: {pullPolicy: IfNotPresent}}, {image: {pullPolicy: Always}}, {ephemeral: {volumeClaimTemplate: {spec: {volumeMode: Filesystem}}}}]}`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			given := parse(t, "{spec: "+tc.given+"}")
			before := given.DeepCopy()
			got := Defaulted(given)
			if diff := cmp.Diff(before, given); diff != "" {
				t.Errorf("the given template was changed:\n%s", diff)
			}
			var want map[string]any
			if err := yaml.Unmarshal([]byte(tc.want), &want); err != nil {
				t.Fatal(err)
			}
			if missing := covers(tree(t, got.Spec), want); missing != "" {
				t.Errorf("not there: %s\n%s", missing, toYAML(t, got.Spec))
			}
			if lost := covers(tree(t, got.Spec), quantityFree(tree(t, before.Spec))); lost != "" {
				t.Errorf("lost or changed: %s\n%s", lost, toYAML(t, got.Spec))
			}
			if diff := cmp.Diff(got, Defaulted(got)); diff != "" {
				t.Errorf("a second time changes something:\n%s", diff)
			}
		})
	}
}

func toYAML(t *testing.T, v any) string {
	t.Helper()
	text, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func tree(t *testing.T, v any) any {
	t.Helper()
	var parsed any
	if err := yaml.Unmarshal([]byte(toYAML(t, v)), &parsed); err != nil {
		t.Fatal(err)
	}
	return parsed
}

// quantityFree drops resources and overhead, whose values are rounded.
func quantityFree(v any) any {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "resources")
		delete(v, "overhead")
		for _, child := range v {
			quantityFree(child)
		}
	case []any:
		for _, child := range v {
			quantityFree(child)
		}
	}
	return v
}

// covers returns the path of something in want that is not in got.
func covers(got, want any) string {
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok && len(want) > 0 {
			return " (no object)"
		}
		for key, value := range want {
			if missing := covers(object[key], value); missing != "" {
				return "." + key + missing
			}
		}
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			return " (no list of that length)"
		}
		for i := range want {
			if missing := covers(list[i], want[i]); missing != "" {
				return "[]" + missing
			}
		}
	default:
		if text, ok := got.(string); ok {
			if number, isNumber := want.(float64); isNumber && text == toText(number) {
				return ""
			}
		}
		if want != nil && got != want {
			return " is not the value wanted"
		}
	}
	return ""
}

func toText(number float64) string {
	text, _ := yaml.Marshal(number)
	return string(text[:len(text)-1])
}

func TestEphemeralContainersGetTheSame(t *testing.T) {
	template := parse(t, `{spec: {ephemeralContainers: [{name: e, image: "i:1", env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}]}}`)
	got := Defaulted(template).Spec.EphemeralContainers[0]
	if got.ImagePullPolicy != corev1.PullIfNotPresent || got.TerminationMessagePath == "" || got.Env[0].ValueFrom.FieldRef.APIVersion != "v1" {
		t.Errorf("got %+v", got)
	}
}

// TestNothingIsLeftToFillInToWhatOpenKruiseStored: it wrote the defaults of the server's own library into its templates, so the
// only things still filled in are those that concern pods alone.
func TestNothingIsLeftToFillInToWhatOpenKruiseStored(t *testing.T) {
	tested := 0
	for _, name := range fixtures.Cases(t) {
		for _, o := range fixtures.Objects(t, name+"/state.yaml") {
			if kind := o.GetKind(); o.GroupVersionKind().Group != "apps.kruise.io" || (kind != "CloneSet" && kind != "StatefulSet") {
				continue
			}
			tested++
			stored := fixtures.Template(t, o)
			got := Defaulted(stored)
			got.Spec.EnableServiceLinks = stored.Spec.EnableServiceLinks
			for i := range got.Spec.Containers {
				if len(stored.Spec.Containers[i].Resources.Requests) == 0 {
					got.Spec.Containers[i].Resources.Requests = stored.Spec.Containers[i].Resources.Requests
				}
			}
			if diff := cmp.Diff(stored, got); diff != "" {
				t.Errorf("%s: %s %s (-stored +filled in):\n%s", name, o.GetKind(), o.GetName(), diff)
			}
		}
	}
	if tested < 20 {
		t.Fatalf("only %d templates tested", tested)
	}
}

func TestForPod(t *testing.T) {
	template := parse(t, `
metadata: {name: ignored, namespace: ignored, labels: {a: b}, annotations: {c: d}, finalizers: [e/f]}
spec: {initContainers: [{name: i, image: i}], containers: [{name: a, image: "i:1"}, {name: b, image: i, imagePullPolicy: Never}]}
`)
	want := parse(t, `
metadata: {labels: {a: b}, annotations: {c: d}, finalizers: [e/f]}
spec: {initContainers: [{name: i, image: i}], containers: [{name: a, image: "i:1", imagePullPolicy: Always}, {name: b, image: i, imagePullPolicy: Never}]}
`)
	before := template.DeepCopy()
	got := ForPod(template)
	got.Spec.Containers = AlwaysPulled(got.Spec.Containers)
	if diff := cmp.Diff(&corev1.Pod{ObjectMeta: want.ObjectMeta, Spec: want.Spec}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got.Labels["x"], got.Annotations["x"] = "y", "y"
	got.Finalizers[0], got.Spec.Containers[0].Image = "x", "x"
	got.Spec.ReadinessGates = append(got.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: "x"})
	if diff := cmp.Diff(before, template); diff != "" {
		t.Errorf("the template was changed:\n%s", diff)
	}
}

// A template that says "delete this pod" was stored while nobody refused it: its pods were deleted and made again without end.
func TestPodsDoNotGetLabelsThatAreAboutSinglePods(t *testing.T) {
	template := parse(t, `
metadata: {labels: {app: web, apps.kruise.io/specified-delete: "true", lifecycle.apps.kruise.io/state: PreparingDelete,
  apps.kruise.io/cloneset-instance-id: abcde, controller-revision-hash: web-1, pod-template-hash: keep}}
`)
	want := map[string]string{"app": "web", "pod-template-hash": "keep"}
	if diff := cmp.Diff(want, ForPod(template).Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}
