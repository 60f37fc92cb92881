// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"testing"

	"github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/testutil"
)

func daemonSetJSON(version, metadata, spec, status string) string {
	return `{"apiVersion":"apps.kruise.io/` + version + `","kind":"DaemonSet","metadata":{"name":"agent"` + metadata + `},"spec":{` + spec + `},"status":{` + status + `}}`
}

func TestDaemonSetConversion(t *testing.T) {
	const template = `"template":{"spec":{"containers":[{"name":"main","madeUp":{"n":1.50,"x":null}}]}}`
	const annotated = `,"annotations":{"daemonset.kruise.io/progressive-create-pod":"true"}`
	const both = `,"annotations":{"a":"b","daemonset.kruise.io/progressive-create-pod":"true"}`
	cases := map[string]struct{ v1alpha1, v1beta1 string }{
		"everything else passes through": {
			daemonSetJSON("v1alpha1", `,"annotations":{"a":"b"}`, template+`,"updateStrategy":{"rollingUpdate":{"partition":"30%","madeUp":1}}`, `"numberReady":2`),
			daemonSetJSON("v1beta1", `,"annotations":{"a":"b"}`, template+`,"updateStrategy":{"rollingUpdate":{"partition":"30%","madeUp":1}}`, `"numberReady":2`),
		},
		"the hash of the revision has another name": {
			daemonSetJSON("v1alpha1", ``, template, `"daemonSetHash":"abc","desiredNumberScheduled":3`),
			daemonSetJSON("v1beta1", ``, template, `"updateRevision":"abc","desiredNumberScheduled":3`),
		},
		"progressive creation": {
			daemonSetJSON("v1alpha1", annotated, template, ``),
			daemonSetJSON("v1beta1", ``, template+`,"scaleStrategy":{"partitionedScaling":true}`, ``),
		},
		"progressive creation beside other annotations": {
			daemonSetJSON("v1alpha1", both, template, ``),
			daemonSetJSON("v1beta1", `,"annotations":{"a":"b"}`, template+`,"scaleStrategy":{"partitionedScaling":true}`, ``),
		},
		"another value of the annotation means nothing, and stays": {
			daemonSetJSON("v1alpha1", `,"annotations":{"daemonset.kruise.io/progressive-create-pod":"false"}`, template, ``),
			daemonSetJSON("v1beta1", `,"annotations":{"daemonset.kruise.io/progressive-create-pod":"false"}`, template, ``),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			hub, err := Converter().Convert(t.Context(), []byte(tc.v1alpha1), v1beta1.GroupVersion().String())
			if err != nil {
				t.Fatal(err)
			}
			testutil.SameJSON(t, "v1beta1", string(hub), tc.v1beta1)
			spoke, err := Converter().Convert(t.Context(), []byte(tc.v1beta1), v1alpha1.GroupVersion().String())
			if err != nil {
				t.Fatal(err)
			}
			testutil.SameJSON(t, "v1alpha1", string(spoke), tc.v1alpha1)
		})
	}
}

func TestDaemonSetConversionOneWay(t *testing.T) {
	const annotated = `,"annotations":{"daemonset.kruise.io/progressive-create-pod":"true"}`
	rolling := func(fields string) string {
		return `"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{` + fields + `}}`
	}
	cases := map[string]struct{ from, want, version string }{
		"Surging is Standard with one surplus pod": {
			from:    daemonSetJSON("v1alpha1", ``, rolling(`"rollingUpdateType":"Surging"`), ``),
			want:    daemonSetJSON("v1beta1", ``, rolling(`"rollingUpdateType":"Standard","maxSurge":1,"maxUnavailable":0`), ``),
			version: "v1beta1",
		},
		"Surging with its own limits": {
			from:    daemonSetJSON("v1alpha1", ``, rolling(`"rollingUpdateType":"Surging","maxSurge":"20%","maxUnavailable":2`), ``),
			want:    daemonSetJSON("v1beta1", ``, rolling(`"rollingUpdateType":"Standard","maxSurge":"20%","maxUnavailable":2`), ``),
			version: "v1beta1",
		},
		"an annotation that another manager stored beside the field": {
			from:    daemonSetJSON("v1beta1", annotated, `"scaleStrategy":{"partitionedScaling":true}`, ``),
			want:    daemonSetJSON("v1alpha1", annotated, ``, ``),
			version: "v1alpha1",
		},
		"switched off through v1beta1, it does not come back": {
			from:    daemonSetJSON("v1beta1", annotated, `"scaleStrategy":{"partitionedScaling":false}`, ``),
			want:    daemonSetJSON("v1alpha1", ``, ``, ``),
			version: "v1alpha1",
		},
		"what has the wrong shape is left to the schema": {
			from:    daemonSetJSON("v1alpha1", ``, `"updateStrategy":{"rollingUpdate":[1]}`, ``),
			want:    daemonSetJSON("v1beta1", ``, `"updateStrategy":{"rollingUpdate":[1]}`, ``),
			version: "v1beta1",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Converter().Convert(t.Context(), []byte(tc.from), "apps.kruise.io/"+tc.version)
			if err != nil {
				t.Fatal(err)
			}
			testutil.SameJSON(t, tc.version, string(got), tc.want)
		})
	}
}

func TestDaemonSetsOfUnknownVersionsAreNotConverted(t *testing.T) {
	object := daemonSetJSON("v1beta1", ``, ``, ``)
	if _, err := Converter().Convert(t.Context(), []byte(object), "apps.kruise.io/v2"); err == nil {
		t.Error("v2 was made up")
	}
	unchanged, err := Converter().Convert(t.Context(), []byte(object), "apps.kruise.io/v1beta1")
	if err != nil || string(unchanged) != object {
		t.Errorf("%s, error %v", unchanged, err)
	}
}
