// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package conversion_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/internal/conversion"
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
			got, err := conversion.CloneSet(t.Context(), toJSON(t, tc.from), tc.to)
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
	spoke, err := conversion.CloneSet(t.Context(), toJSON(t, hub), "apps.kruise.io/v1alpha1")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(spoke), "operator.kruise.io/conversion-data") {
		t.Errorf("nothing is kept in %s", spoke)
	}
	back, err := conversion.CloneSet(t.Context(), spoke, "apps.kruise.io/v1beta1")
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
			hub, err := conversion.CloneSet(t.Context(), toJSON(t, spoke), "apps.kruise.io/v1beta1")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(specOf(t, "apiVersion: apps.kruise.io/v1beta1"+head+tc.hub), specOf(t, string(hub))); diff != "" {
				t.Errorf("v1beta1 (-want +got):\n%s", diff)
			}
			back, err := conversion.CloneSet(t.Context(), hub, "apps.kruise.io/v1alpha1")
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
	spoke, err := conversion.CloneSet(t.Context(), []byte(hub), "apps.kruise.io/v1alpha1")
	if err != nil {
		t.Fatal(err)
	}
	mended, err := conversion.CloneSet(t.Context(), bytes.Replace(spoke, []byte("4294967296"), []byte("2"), 1), "apps.kruise.io/v1beta1")
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
		"a choice of another type": {
			`{"apiVersion":"apps.kruise.io/v1beta1","spec":{"updateStrategy":{"rollingUpdate":{"podUpdatePolicy":7}}}}`,
			"spec.updateStrategy.rollingUpdate.podUpdatePolicy: Invalid value: 7: must be a string",
		},
		"no rolling update": {
			`{"apiVersion":"apps.kruise.io/v1beta1","spec":{"updateStrategy":{"rollingUpdate":[]}}}`, "spec.updateStrategy.rollingUpdate: Invalid value: []",
		},
		"a count of another type": {
			`{"apiVersion":"apps.kruise.io/v1beta1","spec":{"scaleStrategy":{"excludePreparingDelete":"no"}}}`,
			`spec.scaleStrategy.excludePreparingDelete: Invalid value: "no": must be true or false`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := conversion.CloneSet(t.Context(), []byte(tc.raw), "apps.kruise.io/v1alpha1")
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("converted to %s with the error %v, want one with %q", got, err, tc.want)
			}
		})
	}
}

func TestHandler(t *testing.T) {
	const set = `{"apiVersion":"apps.kruise.io/v1alpha1","kind":"CloneSet","metadata":{"name":"web","namespace":"default"},"spec":{"updateStrategy":{"type":"OnDelete"}}}`
	const other = `{"apiVersion":"apps.kruise.io/v1alpha1","kind":"Other","metadata":{"name":"web","namespace":"default"}}`
	cases := map[string]struct {
		objects     []string
		version     string // v1beta1 when empty
		want        []string
		wantMessage string
	}{
		"two sets in their order": {
			objects: []string{set, strings.ReplaceAll(set, "web", "api")},
			want: []string{
				`{"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet","metadata":{"name":"web","namespace":"default"},"spec":{"scaleStrategy":{"enablePVCReuse":true},"updateStrategy":{"type":"OnDelete"}}}`,
				`{"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet","metadata":{"name":"api","namespace":"default"},"spec":{"scaleStrategy":{"enablePVCReuse":true},"updateStrategy":{"type":"OnDelete"}}}`,
			},
		},
		"none":         {},
		"another kind": {objects: []string{set, other}, wantMessage: "default/web: there is no conversion for Other.apps.kruise.io"},
		"values that have no place in the other version": {
			objects:     []string{`{"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet","metadata":{"name":"web","namespace":"default"},"spec":{"updateStrategy":{"rollingUpdate":[]},"scaleStrategy":{"excludePreparingDelete":1}}}`},
			version:     "apps.kruise.io/v1alpha1",
			wantMessage: `default/web: converting a CloneSet: [spec.scaleStrategy.excludePreparingDelete: Invalid value: 1: must be true or false, spec.updateStrategy.rollingUpdate: Invalid value: []: must be an object]`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			request := &apiextensionsv1.ConversionRequest{UID: "u1", DesiredAPIVersion: "apps.kruise.io/v1beta1"}
			if tc.version != "" {
				request.DesiredAPIVersion = tc.version
			}
			for _, object := range tc.objects {
				request.Objects = append(request.Objects, runtime.RawExtension{Raw: []byte(object)})
			}
			body, err := json.Marshal(&apiextensionsv1.ConversionReview{
				TypeMeta: metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "ConversionReview"}, Request: request,
			})
			if err != nil {
				t.Fatal(err)
			}
			code, text := post(body)
			var review apiextensionsv1.ConversionReview
			if err := json.Unmarshal(text, &review); err != nil || code != http.StatusOK || review.Response == nil {
				t.Fatalf("answer %d %s: %v", code, text, err)
			}
			response := review.Response
			if review.Kind != "ConversionReview" || review.APIVersion != "apiextensions.k8s.io/v1" || response.UID != "u1" || response.Result.Message != tc.wantMessage ||
				(response.Result.Status == metav1.StatusSuccess) != (tc.wantMessage == "") {
				t.Errorf("answer %s", text)
			}
			var got []string
			for _, object := range response.ConvertedObjects {
				got = append(got, string(object.Raw))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
		})
	}
	if code, _ := post([]byte("{}")); code != http.StatusBadRequest {
		t.Errorf("a body without a request: %d", code)
	}
}

func post(body []byte) (int, []byte) {
	recorder := httptest.NewRecorder()
	conversion.NewHandler().ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, conversion.Path, bytes.NewReader(body)))
	return recorder.Code, recorder.Body.Bytes()
}

func toJSON(t *testing.T, text string) []byte {
	t.Helper()
	object, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return object
}
