// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// The rules from v1alpha1. keeps says that the annotation carries something that v1beta1 has no words for.
func TestCloneSetFromV1alpha1(t *testing.T) {
	cases := map[string]struct {
		spoke, hub string
		keeps      bool
	}{
		"nothing set: pods are replaced, claims reused": {
			spoke: `{}`,
			hub:   `{spec: {scaleStrategy: {enablePVCReuse: true}, updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: ReCreate}}}}`,
		},
		"the minimal manifest": {
			spoke: `{spec: {updateStrategy: {type: InPlaceIfPossible, partition: 3, maxUnavailable: 2}}}`,
			hub:   `{spec: {scaleStrategy: {enablePVCReuse: true}, updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: InPlaceIfPossible, partition: 3, maxUnavailable: 2}}}}`,
		},
		"every field that has a counterpart": {
			spoke: `{metadata: {name: web}, spec: {replicas: 3, selector: {matchLabels: {a: b}}, template: {spec: {hostNetwork: true}}, volumeClaimTemplates: [{metadata: {name: data}}],
				minReadySeconds: 4, revisionHistoryLimit: 5, progressDeadlineSeconds: 6, lifecycle: {preDelete: {finalizersHandler: [x]}},
				scaleStrategy: {podsToDelete: [a], maxUnavailable: 10%, disablePVCReuse: true},
				updateStrategy: {type: InPlaceOnly, partition: 50%, maxUnavailable: 1, maxSurge: 2, paused: true, priorityStrategy: {orderPriority: [{orderedKey: k}]},
					scatterStrategy: [{key: a, value: b}], inPlaceUpdateStrategy: {gracePeriodSeconds: 7}}}, status: {replicas: 3, conditions: [{type: FailedScale, status: "True"}]}}`,
			hub: `{metadata: {name: web}, spec: {replicas: 3, selector: {matchLabels: {a: b}}, template: {spec: {hostNetwork: true}}, volumeClaimTemplates: [{metadata: {name: data}}],
				minReadySeconds: 4, revisionHistoryLimit: 5, progressDeadlineSeconds: 6, lifecycle: {preDelete: {finalizersHandler: [x]}},
				scaleStrategy: {podsToDelete: [a], maxUnavailable: 10%},
				updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: InPlaceOnly, partition: 50%, maxUnavailable: 1, maxSurge: 2, paused: true, priorityStrategy: {orderPriority: [{orderedKey: k}]},
					scatterStrategy: [{key: a, value: b}], inPlaceUpdateStrategy: {gracePeriodSeconds: 7}}}}, status: {replicas: 3, conditions: [{type: FailedScale, status: "True"}]}}`,
		},
		"an unknown type replaces pods": {
			spoke: `{spec: {scaleStrategy: {disablePVCReuse: true}, updateStrategy: {type: Sideways}}}`,
			hub:   `{spec: {updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: ReCreate}}}}`,
			keeps: true,
		},
		"on delete nothing else counts": {
			spoke: `{spec: {scaleStrategy: {disablePVCReuse: true}, updateStrategy: {type: OnDelete, partition: 3, maxUnavailable: 20%, paused: true}}}`,
			hub:   `{spec: {updateStrategy: {type: OnDelete}}}`,
			keeps: true,
		},
		"on delete alone": {
			spoke: `{spec: {scaleStrategy: {disablePVCReuse: true}, updateStrategy: {type: OnDelete}}}`,
			hub:   `{spec: {updateStrategy: {type: OnDelete}}}`,
		},
		"the label is a field": {
			spoke: `{metadata: {labels: {apps.kruise.io/cloneset-scaling-exclude-preparing-delete: "true"}}, spec: {updateStrategy: {type: ReCreate}}}`,
			hub: `{metadata: {labels: {apps.kruise.io/cloneset-scaling-exclude-preparing-delete: "true"}},
				spec: {scaleStrategy: {enablePVCReuse: true, excludePreparingDelete: true}, updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: ReCreate}}}}`,
		},
		"the label with another value": {
			spoke: `{metadata: {labels: {apps.kruise.io/cloneset-scaling-exclude-preparing-delete: "yes"}}, spec: {updateStrategy: {type: ReCreate}}}`,
			hub: `{metadata: {labels: {apps.kruise.io/cloneset-scaling-exclude-preparing-delete: "yes"}},
				spec: {scaleStrategy: {enablePVCReuse: true}, updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: ReCreate}}}}`,
		},
		"annotations about pulling ahead are fields": {
			spoke: `{metadata: {annotations: {apps.kruise.io/image-predownload-parallelism: "5", apps.kruise.io/image-predownload-timeout-seconds: "60", apps.kruise.io/image-predownload-min-updated-ready-pods: "2"}},
				spec: {updateStrategy: {type: InPlaceIfPossible}}}`,
			hub: `{metadata: {annotations: {apps.kruise.io/image-predownload-parallelism: "5", apps.kruise.io/image-predownload-timeout-seconds: "60", apps.kruise.io/image-predownload-min-updated-ready-pods: "2"}},
				spec: {scaleStrategy: {enablePVCReuse: true}, updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: InPlaceIfPossible,
					inPlaceUpdateStrategy: {imagePreDownloadParallelism: 5, imagePreDownloadTimeoutSeconds: 60, imagePreDownloadMinUpdatedReadyPods: 2}}}}}`,
		},
		"annotations that are no whole numbers are ignored": {
			spoke: `{metadata: {annotations: {apps.kruise.io/image-predownload-parallelism: "10%", apps.kruise.io/image-predownload-timeout-seconds: soon, apps.kruise.io/image-predownload-min-updated-ready-pods: "20%"}},
				spec: {updateStrategy: {type: InPlaceIfPossible}}}`,
			hub: `{metadata: {annotations: {apps.kruise.io/image-predownload-parallelism: "10%", apps.kruise.io/image-predownload-timeout-seconds: soon, apps.kruise.io/image-predownload-min-updated-ready-pods: "20%"}},
				spec: {scaleStrategy: {enablePVCReuse: true}, updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: InPlaceIfPossible}}}}`,
		},
		"fields about pulling ahead do not count": {
			spoke: `{spec: {updateStrategy: {type: InPlaceIfPossible, inPlaceUpdateStrategy: {gracePeriodSeconds: 3, imagePreDownloadParallelism: 5}}}}`,
			hub: `{spec: {scaleStrategy: {enablePVCReuse: true}, updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: InPlaceIfPossible,
				inPlaceUpdateStrategy: {gracePeriodSeconds: 3}}}}}`,
			keeps: true,
		},
		"an empty in-place strategy stays": {
			spoke: `{spec: {updateStrategy: {type: InPlaceIfPossible, inPlaceUpdateStrategy: {}}}}`,
			hub:   `{spec: {scaleStrategy: {enablePVCReuse: true}, updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: InPlaceIfPossible, inPlaceUpdateStrategy: {}}}}}`,
		},
		"an annotation that somebody else wrote is not believed": {
			spoke: `{metadata: {annotations: {operator.kruise.io/conversion-data: "{}", a: b}}, spec: {updateStrategy: {type: ReCreate}}}`,
			hub:   `{metadata: {annotations: {a: b}}, spec: {scaleStrategy: {enablePVCReuse: true}, updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: ReCreate}}}}`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := fromSpoke(t, parse[v1alpha1.CloneSet](t, tc.spoke))
			expectConversion(t, tc.keeps, got.Annotations, parse[v1beta1.CloneSet](t, tc.hub), bare(got))
		})
	}
}

// The rules to v1alpha1.
func TestCloneSetToV1alpha1(t *testing.T) {
	cases := map[string]struct {
		hub, spoke string
		keeps      bool
	}{
		"the minimal manifest": {
			hub:   `{spec: {updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: InPlaceIfPossible, partition: 3, maxUnavailable: 2}}}}`,
			spoke: `{spec: {scaleStrategy: {disablePVCReuse: true}, updateStrategy: {type: InPlaceIfPossible, partition: 3, maxUnavailable: 2}}}`,
		},
		"no rolling update": {
			hub:   `{spec: {scaleStrategy: {enablePVCReuse: true}, updateStrategy: {type: RollingUpdate}}}`,
			spoke: `{spec: {updateStrategy: {type: ReCreate}}}`,
			keeps: true,
		},
		"an unknown policy": {
			hub:   `{spec: {scaleStrategy: {enablePVCReuse: true}, updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: Sideways}}}}`,
			spoke: `{spec: {updateStrategy: {type: ReCreate}}}`,
			keeps: true,
		},
		"on delete": {
			hub:   `{spec: {scaleStrategy: {enablePVCReuse: true}, updateStrategy: {type: OnDelete}}}`,
			spoke: `{spec: {updateStrategy: {type: OnDelete}}}`,
		},
		"on delete with the fields of a rolling update": {
			hub:   `{spec: {scaleStrategy: {enablePVCReuse: true}, updateStrategy: {type: OnDelete, rollingUpdate: {podUpdatePolicy: InPlaceOnly, partition: 2, paused: true}}}}`,
			spoke: `{spec: {updateStrategy: {type: OnDelete, partition: 2, paused: true}}}`,
			keeps: true,
		},
		"a field without its label": {
			hub:   `{spec: {scaleStrategy: {enablePVCReuse: true, excludePreparingDelete: true}, updateStrategy: {type: OnDelete}}}`,
			spoke: `{spec: {updateStrategy: {type: OnDelete}}}`,
			keeps: true,
		},
		"a label without its field": {
			hub:   `{metadata: {labels: {apps.kruise.io/cloneset-scaling-exclude-preparing-delete: "true"}}, spec: {scaleStrategy: {enablePVCReuse: true}, updateStrategy: {type: OnDelete}}}`,
			spoke: `{metadata: {labels: {apps.kruise.io/cloneset-scaling-exclude-preparing-delete: "true"}}, spec: {updateStrategy: {type: OnDelete}}}`,
			keeps: true,
		},
		"fields about pulling ahead are annotations": {
			hub: `{metadata: {annotations: {apps.kruise.io/image-predownload-timeout-seconds: "9"}}, spec: {scaleStrategy: {enablePVCReuse: true}, updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: InPlaceIfPossible,
				inPlaceUpdateStrategy: {imagePreDownloadParallelism: 5, imagePreDownloadTimeoutSeconds: 60, imagePreDownloadMinUpdatedReadyPods: 0}}}}}`,
			spoke: `{metadata: {annotations: {apps.kruise.io/image-predownload-parallelism: "5", apps.kruise.io/image-predownload-timeout-seconds: "60", apps.kruise.io/image-predownload-min-updated-ready-pods: "0"}},
				spec: {updateStrategy: {type: InPlaceIfPossible}}}`,
			keeps: true, // that the hub has other annotations
		},
		"an empty in-place strategy stays": {
			hub:   `{spec: {scaleStrategy: {enablePVCReuse: true}, updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: InPlaceIfPossible, inPlaceUpdateStrategy: {}}}}}`,
			spoke: `{spec: {updateStrategy: {type: InPlaceIfPossible, inPlaceUpdateStrategy: {}}}}`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := toSpoke(t, parse[v1beta1.CloneSet](t, tc.hub))
			expectConversion(t, tc.keeps, got.Annotations, parse[v1alpha1.CloneSet](t, tc.spoke), bareSpoke(got))
		})
	}
}

// A client of v1alpha1 reads an object, changes something and writes it.
func TestCloneSetWriteThroughV1alpha1(t *testing.T) {
	cases := map[string]struct{ hub, change, want string }{
		"what only v1beta1 says survives": {
			hub:    `{spec: {scaleStrategy: {excludePreparingDelete: true}, updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: ReCreate}}}}`,
			change: `{spec: {replicas: 5, updateStrategy: {partition: 2}}}`,
			want:   `{spec: {replicas: 5, scaleStrategy: {excludePreparingDelete: true}, updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: ReCreate, partition: 2}}}}`,
		},
		"on delete keeps the policy and takes the partition": {
			hub:    `{spec: {updateStrategy: {type: OnDelete, rollingUpdate: {podUpdatePolicy: InPlaceOnly, partition: 2}}}}`,
			change: `{spec: {updateStrategy: {partition: 4}}}`,
			want:   `{spec: {updateStrategy: {type: OnDelete, rollingUpdate: {podUpdatePolicy: InPlaceOnly, partition: 4}}}}`,
		},
		"another type starts afresh": {
			hub:    `{spec: {updateStrategy: {type: OnDelete, rollingUpdate: {podUpdatePolicy: InPlaceOnly, partition: 2}}}}`,
			change: `{spec: {updateStrategy: {type: InPlaceIfPossible}}}`,
			want:   `{spec: {updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: InPlaceIfPossible, partition: 2}}}}`,
		},
		"the label switches the field on": {
			hub:    `{spec: {updateStrategy: {type: OnDelete}}}`,
			change: `{metadata: {labels: {apps.kruise.io/cloneset-scaling-exclude-preparing-delete: "true"}}}`,
			want:   `{metadata: {labels: {apps.kruise.io/cloneset-scaling-exclude-preparing-delete: "true"}}, spec: {scaleStrategy: {excludePreparingDelete: true}, updateStrategy: {type: OnDelete}}}`,
		},
		"removing the label switches the field off": {
			hub:    `{metadata: {labels: {apps.kruise.io/cloneset-scaling-exclude-preparing-delete: "true"}}, spec: {scaleStrategy: {excludePreparingDelete: true}, updateStrategy: {type: OnDelete, rollingUpdate: {podUpdatePolicy: InPlaceOnly}}}}`,
			change: `{metadata: {labels: null}}`,
			want:   `{spec: {updateStrategy: {type: OnDelete, rollingUpdate: {podUpdatePolicy: InPlaceOnly}}}}`,
		},
		"an annotation changes the field": {
			hub:    `{spec: {updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: InPlaceOnly, inPlaceUpdateStrategy: {imagePreDownloadParallelism: 5}}}}}`,
			change: `{metadata: {annotations: {apps.kruise.io/image-predownload-parallelism: "9"}}}`,
			want: `{metadata: {annotations: {apps.kruise.io/image-predownload-parallelism: "9"}},
				spec: {updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: InPlaceOnly, inPlaceUpdateStrategy: {imagePreDownloadParallelism: 9}}}}}`,
		},
		"a field removed in v1beta1 does not come back from its annotation": {
			hub:    `{metadata: {annotations: {apps.kruise.io/image-predownload-parallelism: "5"}}, spec: {updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: InPlaceOnly}}}}`,
			change: `{spec: {replicas: 2}}`,
			want:   `{metadata: {annotations: {apps.kruise.io/image-predownload-parallelism: "5"}}, spec: {replicas: 2, updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: InPlaceOnly}}}}`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			written := edited(t, toSpoke(t, parse[v1beta1.CloneSet](t, tc.hub)), tc.change)
			same(t, 0, "the hub", parse[v1beta1.CloneSet](t, tc.want), bare(fromSpoke(t, written)))
		})
	}
}

// A client of v1beta1 changes an object that was made through v1alpha1.
func TestCloneSetWriteThroughV1beta1(t *testing.T) {
	cases := map[string]struct{ spoke, change, want string }{
		"what has no effect on delete survives": {
			spoke:  `{spec: {updateStrategy: {type: OnDelete, partition: 3, maxUnavailable: 20%}}}`,
			change: `{spec: {replicas: 5}}`,
			want:   `{spec: {replicas: 5, updateStrategy: {type: OnDelete, partition: 3, maxUnavailable: 20%}}}`,
		},
		"a rolling update replaces it": {
			spoke:  `{spec: {updateStrategy: {type: OnDelete, partition: 3, maxUnavailable: 20%}}}`,
			change: `{spec: {updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: ReCreate, maxSurge: 1}}}}`,
			want:   `{spec: {updateStrategy: {type: ReCreate, maxSurge: 1}}}`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			written := edited(t, fromSpoke(t, parse[v1alpha1.CloneSet](t, tc.spoke)), tc.change)
			same(t, 0, "the spoke", parse[v1alpha1.CloneSet](t, tc.want), bareSpoke(toSpoke(t, written)))
		})
	}
}

func expectConversion(t *testing.T, keeps bool, annotations map[string]string, want, got any) {
	t.Helper()
	same(t, 0, "converted", want, got)
	if _, kept := annotations[shared.AnnotationConversionData]; kept != keeps {
		t.Errorf("the annotation is there: %t, want %t (%s)", kept, keeps, annotations[shared.AnnotationConversionData])
	}
}

// edited is the object with a merge patch.
func edited[T any](t *testing.T, set *T, change string) *T {
	t.Helper()
	text, err := yaml.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	object, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := yaml.YAMLToJSON([]byte(change))
	if err != nil {
		t.Fatal(err)
	}
	merged, err := jsonpatch.MergePatch(object, patch)
	if err != nil {
		t.Fatal(err)
	}
	result := new(T)
	if err := yaml.Unmarshal(merged, result); err != nil {
		t.Fatal(err)
	}
	return result
}

func parse[T any](t *testing.T, text string) *T {
	t.Helper()
	v := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), v); err != nil {
		t.Fatalf("reading %s: %v", text, err)
	}
	return v
}
