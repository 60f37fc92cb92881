// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/controllers/cloneset/convert"
)

// opaque are parts that our types cannot read, or do not know.
const opaque = `
metadata: {name: web, namespace: default, uid: u1, resourceVersion: "7", generation: 3, labels: {a: b}, madeUp: {x: 1}, managedFields: [{manager: m, fieldsV1: {f: {}}}]}
status: {replicas: 3, madeUp: 1}
`

const opaqueSpec = `
  replicas: 3
  selector: {matchLabels: {a: b}}
  template: {metadata: {creationTimestamp: null}, spec: {madeUp: [1.50], containers: [{name: main, ports: [{containerPort: http}], resources: {limits: {cpu: lots}}}]}}
  volumeClaimTemplates: [{metadata: {name: data}, madeUp: 1}]
`

func TestCloneSetObject(t *testing.T) {
	cases := map[string]struct{ from, to, want string }{
		"from the hub": {
			from: "apiVersion: apps.kruise.io/v1beta1\nkind: CloneSet" + opaque + "spec:" + opaqueSpec +
				"  scaleStrategy: {enablePVCReuse: true}\n  updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: InPlaceOnly, partition: 40%}}",
			to: "apps.kruise.io/v1alpha1",
			want: "apiVersion: apps.kruise.io/v1alpha1\nkind: CloneSet" + opaque + "spec:" + opaqueSpec +
				"  scaleStrategy: {}\n  updateStrategy: {type: InPlaceOnly, partition: 40%}",
		},
		"to the hub": {
			from: "apiVersion: apps.kruise.io/v1alpha1\nkind: CloneSet" + opaque + "spec:" + opaqueSpec + "  updateStrategy: {type: InPlaceOnly, partition: 40%}",
			to:   "apps.kruise.io/v1beta1",
			want: "apiVersion: apps.kruise.io/v1beta1\nkind: CloneSet" + opaque + "spec:" + opaqueSpec +
				"  scaleStrategy: {enablePVCReuse: true}\n  updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: InPlaceOnly, partition: 40%}}",
		},
		"to its own version": {
			from: "apiVersion: apps.kruise.io/v1alpha1\nkind: CloneSet" + opaque, to: "apps.kruise.io/v1alpha1",
			want: "apiVersion: apps.kruise.io/v1alpha1\nkind: CloneSet" + opaque,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := convert.Converter().Convert(t.Context(), toJSON(t, tc.from), tc.to)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(*parse[any](t, tc.want), *parse[any](t, string(got))); diff != "" {
				t.Errorf("object (-want +got):\n%s", diff)
			}
		})
	}
}

// The annotation is the only metadata that comes and goes.
func TestCloneSetObjectRoundTrip(t *testing.T) {
	hub := "apiVersion: apps.kruise.io/v1beta1\nkind: CloneSet" + opaque + "spec:" + opaqueSpec +
		"  scaleStrategy: {excludePreparingDelete: true}\n  updateStrategy: {type: OnDelete, rollingUpdate: {podUpdatePolicy: InPlaceOnly, partition: 2}}"
	spoke, err := convert.Converter().Convert(t.Context(), toJSON(t, hub), "apps.kruise.io/v1alpha1")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(spoke), "operator.kruise.io/conversion-data") {
		t.Errorf("nothing is kept in %s", spoke)
	}
	back, err := convert.Converter().Convert(t.Context(), spoke, "apps.kruise.io/v1beta1")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(*parse[any](t, hub), *parse[any](t, string(back))); diff != "" {
		t.Errorf("object (-want +got):\n%s", diff)
	}
}

// What cannot be read is there in the other version, and the same after the way back. Nothing else suffers from it.
func TestCloneSetObjectThatCannotBeRead(t *testing.T) {
	const scale, head = "  scaleStrategy: {enablePVCReuse: true}\n", "\nkind: CloneSet" + opaque + "spec:" + opaqueSpec
	cases := map[string]struct{ spoke, hub string }{
		"a number that is too large": {
			spoke: "  updateStrategy: {type: InPlaceOnly, partition: 1, maxUnavailable: 12345678901234567890}",
			hub:   scale + "  updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: InPlaceOnly, partition: 1, maxUnavailable: 12345678901234567890}}",
		},
		"values of other types": {
			spoke: "  updateStrategy: {type: ReCreate, partition: 3.50, paused: many, scatterStrategy: [{key: a, value: b}, {key: 5, value: [6]}], inPlaceUpdateStrategy: {gracePeriodSeconds: x}}",
			hub: scale + "  updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: ReCreate, partition: 3.50, paused: many, scatterStrategy: [{key: a, value: b}, {key: 5, value: [6]}], " +
				"inPlaceUpdateStrategy: {gracePeriodSeconds: x}}}",
		},
		"while it grows": {
			spoke: "  scaleStrategy: {podsToDelete: [1], maxUnavailable: 4294967296}\n  updateStrategy: {type: ReCreate}",
			hub:   "  scaleStrategy: {podsToDelete: [1], maxUnavailable: 4294967296, enablePVCReuse: true}\n  updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: ReCreate}}",
		},
		"reusing claims": {
			spoke: "  scaleStrategy: {disablePVCReuse: never}\n  updateStrategy: {type: ReCreate}",
			hub:   "  scaleStrategy: {enablePVCReuse: never}\n  updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: ReCreate}}",
		},
		"whole strategies": {
			spoke: "  scaleStrategy: []\n  updateStrategy: fast",
			hub:   "  scaleStrategy: []\n  updateStrategy: fast",
		},
		"a type of another type": {
			spoke: "  updateStrategy: {type: 5, partition: 2}",
			hub:   scale + "  updateStrategy: {type: 5, rollingUpdate: {podUpdatePolicy: ReCreate, partition: 2}}",
		},
		"beside what has no effect": {
			spoke: "  updateStrategy: {type: OnDelete, partition: 3.5, maxSurge: 1}",
			hub:   scale + "  updateStrategy: {type: OnDelete, rollingUpdate: {partition: 3.5}}",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			spoke := "apiVersion: apps.kruise.io/v1alpha1" + head + tc.spoke
			hub, err := convert.Converter().Convert(t.Context(), toJSON(t, spoke), "apps.kruise.io/v1beta1")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(specOf(t, "apiVersion: apps.kruise.io/v1beta1"+head+tc.hub), specOf(t, string(hub))); diff != "" {
				t.Errorf("v1beta1 (-want +got):\n%s", diff)
			}
			back, err := convert.Converter().Convert(t.Context(), hub, "apps.kruise.io/v1alpha1")
			if err != nil {
				t.Fatal(err)
			}
			want, got := specOf(t, spoke), specOf(t, string(back))
			if want["scaleStrategy"] == nil {
				delete(got, "scaleStrategy") // an empty one
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("v1alpha1 again (-want +got):\n%s", diff)
			}
		})
	}
}

func specOf(t *testing.T, object string) map[string]any {
	t.Helper()
	spec, _ := (*parse[map[string]any](t, object))["spec"].(map[string]any)
	return spec
}

// A client of v1alpha1 can mend what was stored while nobody refused it.
func TestCloneSetObjectIsMended(t *testing.T) {
	const hub = `{"apiVersion":"apps.kruise.io/v1beta1","spec":{"scaleStrategy":{"excludePreparingDelete":true},` +
		`"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"podUpdatePolicy":"ReCreate","maxUnavailable":4294967296}}}}`
	spoke, err := convert.Converter().Convert(t.Context(), []byte(hub), "apps.kruise.io/v1alpha1")
	if err != nil {
		t.Fatal(err)
	}
	mended, err := convert.Converter().Convert(t.Context(), bytes.Replace(spoke, []byte("4294967296"), []byte("2"), 1), "apps.kruise.io/v1beta1")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(specOf(t, strings.Replace(hub, "4294967296", "2", 1)), specOf(t, string(mended))); diff != "" {
		t.Errorf("v1beta1 (-want +got):\n%s", diff)
	}
}

func TestCloneSetObjectRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ raw, want string }{
		"what is no object":  {`[]`, "cannot unmarshal array"},
		"an unknown version": {`{"apiVersion":"apps.kruise.io/v7"}`, "apps.kruise.io/v7 cannot become apps.kruise.io/v1alpha1"},
		"no version":         {`{}`, "apiVersion"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := convert.Converter().Convert(t.Context(), []byte(tc.raw), "apps.kruise.io/v1alpha1")
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("converted to %s with the error %v, want one with %q", got, err, tc.want)
			}
		})
	}
}

// The schema of v1beta1 refuses such values. Until then nothing of them is lost.
func TestCloneSetsWithValuesOfAnotherTypeAreKept(t *testing.T) {
	for _, spec := range []string{
		`{"scaleStrategy":{"enablePVCReuse":true},"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"podUpdatePolicy":7}}}`,
		`{"scaleStrategy":{"enablePVCReuse":true},"updateStrategy":{"type":"RollingUpdate","rollingUpdate":[]}}`,
	} {
		hub := `{"apiVersion":"apps.kruise.io/v1beta1","spec":` + spec + `}`
		spoke, err := convert.Converter().Convert(t.Context(), []byte(hub), "apps.kruise.io/v1alpha1")
		if err != nil {
			t.Fatal(err)
		}
		back, err := convert.Converter().Convert(t.Context(), spoke, "apps.kruise.io/v1beta1")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(specOf(t, hub), specOf(t, string(back))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", spoke, diff)
		}
	}
}

func toJSON(t *testing.T, text string) []byte {
	t.Helper()
	object, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return object
}
