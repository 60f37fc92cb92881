// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package controllers_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecarspec"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
	"github.com/kruise-operator/kruise-operator/internal/engine/united"
	"github.com/kruise-operator/kruise-operator/internal/testutil/fixtures"
)

// TestApplyingAManifestAgainChangesNoPod: OpenKruise stored defaults in specs, and a manifest's next sync drops
// them. This once replaced all pods of UnitedDeployments.
func TestApplyingAManifestAgainChangesNoPod(t *testing.T) {
	compared := map[string]int{}
	for _, name := range fixtures.Cases(t) {
		objects := fixtures.Objects(t, name+"/state.yaml")
		for _, stored := range objects {
			changes := map[string]func(testing.TB, leftover) string{
				"CloneSet": changesOfSet, "StatefulSet": changesOfSet, "DaemonSet": changesOfSet, "SidecarSet": changesOfSidecars, "UnitedDeployment": changesOfUnited,
			}[stored.GetKind()]
			if changes == nil || stored.GroupVersionKind().Group != v1beta1.GroupVersion().Group {
				continue // no revision is made of it, and its pods are not changed
			}
			for how, again := range fixtures.Reapplied(t, name, stored) {
				compared[stored.GetKind()]++
				if what := changes(t, leftover{name, objects, stored, again}); what != "" {
					t.Errorf("%s %s of case %s, %s: %s", stored.GetKind(), stored.GetName(), name, how, what)
				}
			}
		}
	}
	for kind, least := range map[string]int{"CloneSet": 10, "StatefulSet": 6, "DaemonSet": 2, "SidecarSet": 4, "UnitedDeployment": 6} {
		if compared[kind] < least {
			t.Errorf("%d objects of kind %s were applied again, want %d", compared[kind], kind, least)
		}
	}
}

// leftover is an object from OpenKruise, among its case's, and its state after applying the manifest again.
type leftover struct {
	name          string
	objects       []*unstructured.Unstructured
	stored, again *unstructured.Unstructured
}

func (l leftover) revisions(t testing.TB) []*appsv1.ControllerRevision {
	var owned []*appsv1.ControllerRevision
	for _, r := range fixtures.Revisions(t, l.name, l.objects) {
		if metav1.IsControlledBy(r, l.stored) || r.Labels["kruise.io/sidecarset-name"] == l.stored.GetName() {
			owned = append(owned, r)
		}
	}
	return owned
}

func changed[T any](t testing.TB, l leftover, codec revision.Codec[T], owner revision.Owner, payload *T) string {
	t.Helper()
	var stored []revision.Of[T]
	for _, r := range l.revisions(t) {
		decoded, err := revision.DecodeOf(codec, r)
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, decoded)
	}
	owner.Name = l.stored.GetName()
	d, err := revision.DecideOf(codec, owner, payload, stored, nil)
	if err != nil || len(stored) == 0 {
		t.Fatalf("%d revisions are stored: %v", len(stored), err)
	}
	switch {
	case d.Create != nil:
		return fmt.Sprintf("a revision is made: (-recorded +now)\n%s", cmp.Diff(string(stored[len(stored)-1].Object.Data.Raw), string(d.Create.Data.Raw)))
	case d.Bump != nil:
		return fmt.Sprintf("revision %s changes: %v", d.Bump.Name, d.Bump.Annotations)
	}
	return ""
}

func changesOfSet(t testing.TB, l leftover) string {
	codec := revision.PodTemplates(l.stored.GetKind() == "DaemonSet")
	claims := func(o *unstructured.Unstructured) string {
		var templates []corev1.PersistentVolumeClaim
		list, _, _ := unstructured.NestedSlice(o.Object, "spec", "volumeClaimTemplates")
		for _, item := range list {
			templates = append(templates, *fixtures.As[corev1.PersistentVolumeClaim](t, &unstructured.Unstructured{Object: item.(map[string]any)}))
		}
		return revision.RecordClaims(nil, templates)[shared.AnnotationRecordedClaims]
	}
	if diff := cmp.Diff(claims(l.stored), claims(l.again)); diff != "" {
		return "the recorded claim templates change (-before +after):\n" + diff
	}
	return changed(t, l, codec, revision.Owner{}, fixtures.Template(t, l.again))
}

func changesOfSidecars(t testing.TB, l leftover) string {
	payload := func(o *unstructured.Unstructured) *sidecarspec.Payload {
		spec := o.Object["spec"].(map[string]any)
		return sidecarspec.PayloadOf(&fixtures.As[v1beta1.SidecarSet](t, o).Spec, spec)
	}
	before, err := sidecarspec.HashesOf(payload(l.stored))
	after, otherErr := sidecarspec.HashesOf(payload(l.again))
	if err != nil || otherErr != nil || before != after {
		return fmt.Sprintf("the hashes were %v and are %v: %v, %v", before, after, err, otherErr)
	}
	return changed(t, l, sidecarspec.Codec(), revision.Owner{}, payload(l.again))
}

// changesOfUnited also compares the applied workloads: their own kinds would replace the pods.
func changesOfUnited(t testing.TB, l leftover) string {
	set := fixtures.As[v1beta1.UnitedDeployment](t, l.again)
	if what := changed(t, l, united.Templates(), revision.Owner{}, &set.Spec.Template); what != "" {
		return what
	}
	return workloadsChange(t, l, func(o *unstructured.Unstructured) *united.Spec {
		set := fixtures.As[v1beta1.UnitedDeployment](t, o)
		spec := united.Parse(set)
		for _, r := range l.revisions(t) {
			if decoded, err := revision.DecodeOf(united.Templates(), r); err != nil || r.Name == set.Status.UpdatedRevision && spec.Recorded(decoded.Template) != nil {
				t.Fatalf("revision %s: %v", r.Name, err)
			}
		}
		return spec
	})
}

// workloadsChange names the pods a UnitedDeployment's workloads replace when applied again.
func workloadsChange(t testing.TB, l leftover, parse func(*unstructured.Unstructured) *united.Spec) string {
	t.Helper()
	before, after := parse(l.stored), parse(l.again)
	for i := range before.Subsets {
		var made [2]*corev1.PodTemplateSpec
		for j, spec := range []*united.Spec{before, after} {
			manifest, err := spec.Manifest(&spec.Subsets[i], united.Target{Name: "workload", Revision: "r", Size: 1})
			if err != nil {
				t.Fatal(err)
			}
			made[j] = &corev1.PodTemplateSpec{}
			template := manifest.Object["spec"].(map[string]any)["template"].(map[string]any)
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(template, made[j]); err != nil {
				t.Fatal(err)
			}
		}
		same := revision.PodTemplates(before.Adapter.Kind.Group == appsv1.GroupName).Same
		if !same(made[0], made[1]) {
			return fmt.Sprintf("%s of subset %s replaces its pods (-before +after):\n%s", before.Adapter.Kind.Kind, before.Subsets[i].Name, cmp.Diff(made[0], made[1]))
		}
	}
	return ""
}
