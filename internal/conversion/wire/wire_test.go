// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/conversion/wire"
)

func TestDecodeNamesEveryValueItCannotRead(t *testing.T) {
	cases := map[string]struct {
		raw  string
		want []string
	}{
		"reads a good object": {raw: `{"spec":{"replicas":3,"template":{"spec":{"containers":[{"name":"a"}]}}}}`},
		"null leaves a field as it is": {
			raw: `{"spec":{"replicas":null,"template":{"metadata":{"creationTimestamp":null},"spec":null}}}`,
		},
		"all at once, with indexes": {
			raw: `{"spec":{"template":{"spec":{"containers":[
				{"name":"a","ports":[{"containerPort":80},{"containerPort":"http"}]},
				{"name":7,"resources":{"limits":{"cpu":"lots"}}}]}}}}`,
			want: []string{
				`spec.template.spec.containers[0].ports[1].containerPort: Invalid value: "http": must be a whole number of at most 32 bits`,
				`spec.template.spec.containers[1].name: Invalid value: 7: must be a string`,
				`spec.template.spec.containers[1].resources.limits[cpu]: Invalid value: "lots": must be a quantity such as 500m, 2 or 1Gi`,
			},
		},
		"a field of an embedded struct": {
			raw:  `{"spec":{"template":{"spec":{"volumes":[{"name":"v","emptyDir":[]}]}}}}`,
			want: []string{`spec.template.spec.volumes[0].emptyDir: Invalid value: []: must be an object`},
		},
		"a list where an object belongs": {
			raw:  `{"spec":{"template":[]}}`,
			want: []string{`spec.template: Invalid value: []: must be an object`},
		},
		"an object where a list belongs": {
			raw:  `{"spec":{"volumeClaimTemplates":{"a":1}}}`,
			want: []string{`spec.volumeClaimTemplates: Invalid value: {"a":1}: must be a list`},
		},
		"a number that does not fit": {
			raw:  `{"spec":{"reserveOrdinals":[4294967296]}}`,
			want: []string{`spec.reserveOrdinals[0]: Invalid value: 4294967296: must be a whole number of at most 32 bits, or a string`},
		},
		"a time": {
			raw:  `{"metadata":{"creationTimestamp":"yesterday"}}`,
			want: []string{`metadata.creationTimestamp: Invalid value: "yesterday": must be a time such as 2006-01-02T15:04:05Z`},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var set appsv1beta1.StatefulSet
			_, errs := wire.Decode([]byte(tc.raw), &set)
			var got []string
			for _, e := range errs {
				got = append(got, e.Error())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeReadsTheRestOfADamagedObject(t *testing.T) {
	set := appsv1beta1.StatefulSet{}
	errs := wire.DecodeRest([]byte(`{"metadata":{"name":"web","labels":{"a":1,"b":"c"}},"spec":{
		"template":{"spec":{"terminationGracePeriodSeconds":"soon","containers":[{"name":"a","resources":{"limits":{"cpu":"lots","memory":"1Gi"}}},{"name":7,"image":"x"}]}},
		"replicas":3,"reserveOrdinals":[1,true,"3-4"],"volumeClaimTemplates":7,"serviceName":"web"}}`), &set)
	if len(errs) != 6 {
		t.Errorf("%d errors, want 6: %v", len(errs), errs)
	}
	got, err := json.Marshal(map[string]any{
		"name": set.Name, "labels": set.Labels, "service": set.Spec.ServiceName, "replicas": set.Spec.Replicas, "reserved": set.Spec.ReserveOrdinals,
		"limits": set.Spec.Template.Spec.Containers[0].Resources.Limits, "image": set.Spec.Template.Spec.Containers[1].Image,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"name":"web","labels":{"b":"c"},"service":"web","replicas":3,"reserved":[1,0,"3-4"],"limits":{"memory":"1Gi"},"image":"x"}`
	if diff := cmp.Diff(parse(t, want), parse(t, string(got))); diff != "" {
		t.Errorf("what is left (-want +got):\n%s", diff)
	}
}

func TestDecodeNamesUnknownFields(t *testing.T) {
	var set appsv1beta1.StatefulSet
	unknown, errs := wire.Decode([]byte(`{"spec":{"Replicas":3,"template":{"spec":{"containers":[{"name":"a","imagee":"x"}]}}}}`), &set)
	if len(errs) > 0 {
		t.Fatalf("errors: %v", errs)
	}
	if diff := cmp.Diff([]string{"spec.Replicas", "spec.template.spec.containers[0].imagee"}, unknown); diff != "" {
		t.Errorf("unknown fields (-want +got):\n%s", diff)
	}
}

func TestMergeTouchesOnlyWhatChanged(t *testing.T) {
	raw := `{"spec":{"updateStrategy":null,"template":{"metadata":{"creationTimestamp":null},"spec":{"containers":[{"name":"a","madeUp":{"x":null,"n":1.0}}]}},"other":12345678901234567890}}`
	before := &appsv1beta1.StatefulSet{}
	if _, errs := wire.Decode([]byte(raw), before); len(errs) > 0 {
		t.Fatalf("errors: %v", errs)
	}
	after := before.DeepCopy()
	after.Spec.Replicas = ptr.To[int32](1)
	after.Spec.UpdateStrategy.Type = "RollingUpdate"

	got, err := wire.Merge([]byte(raw), before, after)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"spec":{"replicas":1,"updateStrategy":{"type":"RollingUpdate"},"template":{"metadata":{"creationTimestamp":null},"spec":{"containers":[{"name":"a","madeUp":{"x":null,"n":1.0}}]}},"other":12345678901234567890}}`
	if diff := cmp.Diff(parse(t, want), parse(t, string(got))); diff != "" {
		t.Errorf("merged (-want +got):\n%s", diff)
	}
}

func TestPartWithFieldsOfTheStoredObject(t *testing.T) {
	const old = `{"spec":{"reserveOrdinals":[1,"3-4"],"ordinals":{"start":0},"lifecycle":{"preDelete":{"labelsHandler":{"a":"b"}}},"replicas":3}}`
	cases := map[string]struct{ raw, want string }{
		"what is left out comes back": {
			raw:  `{"spec":{"replicas":5}}`,
			want: `{"metadata":{},"spec":{"replicas":5,"reserveOrdinals":[1,"3-4"],"lifecycle":{"preDelete":{"labelsHandler":{"a":"b"}}}}}`,
		},
		"null comes back": {
			raw:  `{"spec":{"reserveOrdinals":null,"lifecycle":{}}}`,
			want: `{"metadata":{},"spec":{"reserveOrdinals":[1,"3-4"],"lifecycle":{}}}`,
		},
		"what is named stays, an empty list too": {
			raw:  `{"spec":{"reserveOrdinals":[],"lifecycle":{"preNormal":{}}}}`,
			want: `{"metadata":{},"spec":{"reserveOrdinals":[],"lifecycle":{"preNormal":{}}}}`,
		},
		"an object without a spec gets one": {
			raw:  `{"metadata":{"name":"a"}}`,
			want: `{"metadata":{},"spec":{"reserveOrdinals":[1,"3-4"],"lifecycle":{"preDelete":{"labelsHandler":{"a":"b"}}}}}`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			is, err := wire.PartOf([]byte(tc.raw))
			if err != nil {
				t.Fatal(err)
			}
			was, err := wire.PartOf([]byte(old))
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(is.With(was, "reserveOrdinals", "lifecycle", "absent"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(parse(t, tc.want), parse(t, string(got))); diff != "" {
				t.Errorf("restored (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSameSpec(t *testing.T) {
	same := wire.SameSpec([]byte(`{"metadata":{"labels":{"a":"b"}},"spec":{"x":1,"y":[2]}}`), []byte(`{"spec":{"y":[2],"x":1}}`))
	if !same {
		t.Error("objects that differ in metadata and order only: SameSpec is false")
	}
	if wire.SameSpec([]byte(`{"spec":{"x":1}}`), []byte(`{"spec":{"x":2}}`)) {
		t.Error("objects that differ in the spec: SameSpec is true")
	}
}

func parse(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}
