// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"encoding/json"
	"errors"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/randfill"

	"github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/testutil"
)

func distribution(version, targets, conditions string) string {
	return `{"apiVersion":"apps.kruise.io/` + version + `","kind":"ResourceDistribution","metadata":{"name":"d"},"spec":{"resource":{"data":{"a":1.50}},"targets":` +
		targets + `},"status":{"desired":1,"conditions":` + conditions + `}}`
}

// roundTrip converts random objects of one version to the other and back: they are the same, and the other has their content.
func roundTrip[From, To any](t *testing.T, from, to string, shown func(*From, *To) (was, is []any)) {
	t.Helper()
	for seed := range int64(500) {
		fill := randfill.NewWithSeed(seed).NilChance(0.3).NumElements(0, 3).Funcs(
			func(v *metav1.Time, c randfill.Continue) { *v = metav1.NewTime(time.Unix(int64(c.Uint32()), 0)) },
			func(v *runtime.RawExtension, c randfill.Continue) {
				v.Raw = []byte(`{"data":{"a":` + strconv.Itoa(c.Intn(9)) + `}}`)
			},
			func(v *metav1.ObjectMeta, c randfill.Continue) { v.Name = "d" + strconv.Itoa(c.Intn(9)) },
			func(*metav1.TypeMeta, randfill.Continue) {},
		)
		source, there, back := new(From), new(To), new(From)
		fill.Fill(source)
		convert(t, source, from, to, there)
		convert(t, there, to, from, back)
		if diff := cmp.Diff(source, back, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("seed %d: it came back otherwise (-want +got):\n%s", seed, diff)
		}
		was, is := shown(source, there)
		if diff := cmp.Diff(was, is, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("seed %d: it is another one (-want +got):\n%s", seed, diff)
		}
	}
}

// convert reads an object of one version as the other.
func convert(t *testing.T, object any, from, to string, into any) {
	t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		t.Fatal(err)
	}
	fields["apiVersion"], fields["kind"] = from, "ResourceDistribution"
	raw, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	if raw, err = Converter().Convert(t.Context(), raw, to); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(json.Unmarshal(raw, &fields), json.Unmarshal(raw, into)); err != nil {
		t.Fatal(err)
	}
	if fields["apiVersion"] != to {
		t.Fatalf("it has the version %v", fields["apiVersion"])
	}
	reflect.ValueOf(into).Elem().FieldByName("TypeMeta").SetZero()
}

func TestRandomObjectsAreConvertedWithoutLoss(t *testing.T) {
	alpha, beta := v1alpha1.GroupVersion().String(), v1beta1.GroupVersion().String()
	same := func(a *v1alpha1.ResourceDistribution, b *v1beta1.ResourceDistribution) (was, is []any) {
		was, is = []any{a.Spec.Targets.NamespaceLabelSelector, a.Spec.Resource, a.Status.Desired}, []any{b.Spec.Targets.NamespaceSelector, b.Spec.Resource, b.Status.Desired}
		for i := range a.Status.Conditions {
			was = append(was, a.Status.Conditions[i].FailedNamespaces)
		}
		for i := range b.Status.Conditions {
			is = append(is, b.Status.Conditions[i].FailedNamespaces)
		}
		return was, is
	}
	roundTrip(t, alpha, beta, same)
	roundTrip(t, beta, alpha, func(b *v1beta1.ResourceDistribution, a *v1alpha1.ResourceDistribution) (was, is []any) {
		return same(a, b)
	})
}

func TestTwoFieldsHaveOtherNames(t *testing.T) {
	for name, tc := range map[string]struct{ v1alpha1, v1beta1 string }{
		"both": {
			distribution("v1alpha1", `{"namespaceLabelSelector":{"matchLabels":{"a":"b"}},"allNamespaces":true}`, `[{"type":"x","failedNamespace":["n"]},{"type":"y"}]`),
			distribution("v1beta1", `{"namespaceSelector":{"matchLabels":{"a":"b"}},"allNamespaces":true}`, `[{"type":"x","failedNamespaces":["n"]},{"type":"y"}]`),
		},
		"neither":                 {distribution("v1alpha1", `{}`, `[]`), distribution("v1beta1", `{}`, `[]`)},
		"what cannot be decoded":  {distribution("v1alpha1", `7`, `"x"`), distribution("v1beta1", `7`, `"x"`)},
		"conditions of any shape": {distribution("v1alpha1", `null`, `[7,null,{}]`), distribution("v1beta1", `null`, `[7,null,{}]`)},
	} {
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
