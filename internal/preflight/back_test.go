// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
	"github.com/kruise-operator/kruise-operator/internal/testutil/fixtures"
)

// Workloads applied under this operator lacked OpenKruise's defaults: their first change
// under it recreated all pods. Their revisions have to become OpenKruise's bytes for the
// same manifests.
func TestTemplatesGetTheDefaultsOfOpenKruise(t *testing.T) {
	tested := 0
	for _, name := range fixtures.Cases(t) {
		for _, stored := range fixtures.Objects(t, name+"/state.yaml") {
			kind := stored.GetKind()
			if stored.GroupVersionKind().Group != "apps.kruise.io" || kind != "CloneSet" && kind != "StatefulSet" {
				continue
			}
			again := fixtures.Reapplied(t, name, stored)["replaced"]
			if again == nil {
				continue
			}
			tested++
			want, err := revision.Encode(fixtures.Template(t, stored))
			if err != nil {
				t.Fatal(err)
			}
			got, err := revision.Encode(defaulted(fixtures.Template(t, again)))
			if diff := cmp.Diff(string(want), string(got)); diff != "" || err != nil {
				t.Errorf("%s %s of case %s (-OpenKruise's +ours): %v\n%s", kind, stored.GetName(), name, err, diff)
			}
		}
	}
	if tested < 8 {
		t.Errorf("%d manifests were compared", tested)
	}
}

// Revisions keep the name their pods carry; a second run writes nothing.
func TestGoingBackFillsTemplatesAndRevisions(t *testing.T) {
	types, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	stored := fixtures.Find(t, fixtures.Objects(t, "cloneset-simple/state.yaml"), "CloneSet", "web")
	set := fixtures.Reapplied(t, "cloneset-simple", stored)["replaced"]
	set.SetResourceVersion("")
	data, err := revision.Encode(fixtures.Template(t, set))
	if err != nil {
		t.Fatal(err)
	}
	own := metav1.NewControllerRef(set, set.GroupVersionKind())
	recorded := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Namespace: set.GetNamespace(), Name: "web-1", OwnerReferences: []metav1.OwnerReference{*own}},
		Data:       runtime.RawExtension{Raw: data}, Revision: 3,
	}
	c := fake.NewClientBuilder().WithScheme(types).WithObjects(set, recorded).Build()
	for _, want := range []int{1, 0} {
		written := 0
		if err := GoBack(t.Context(), c, func(string) { written++ }); err != nil || written != want {
			t.Fatalf("%d workloads are written, want %d: %v", written, want, err)
		}
	}
	now, filled := set.DeepCopy(), &appsv1.ControllerRevision{}
	if err := errors.Join(c.Get(t.Context(), client.ObjectKeyFromObject(set), now), c.Get(t.Context(), client.ObjectKeyFromObject(recorded), filled)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fixtures.Template(t, stored), fixtures.Template(t, now)); diff != "" {
		t.Errorf("the template (-OpenKruise's +ours):\n%s", diff)
	}
	want, err := revision.Encode(fixtures.Template(t, stored))
	if diff := cmp.Diff(string(want), string(filled.Data.Raw)); diff != "" || err != nil {
		t.Errorf("the revision (-OpenKruise's +ours): %v\n%s", err, diff)
	}
	if filled.Revision != 3 || filled.Labels[shared.LabelRevisionHash] != revision.Hash(want, nil) || !metav1.IsControlledBy(filled, set) {
		t.Errorf("the revision is %+v", filled.ObjectMeta)
	}
}
