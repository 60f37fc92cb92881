// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
	"github.com/kruise-operator/kruise-operator/internal/kube/writer"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
	"github.com/kruise-operator/kruise-operator/internal/testutil"
)

type fixture struct {
	*Store
	server *testutil.Client
	set    *appsv1beta1.StatefulSet
}

func newFixture(t *testing.T, objects ...client.Object) *fixture {
	t.Helper()
	types, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	server := testutil.NewClient(types, nil, objects...)
	return &fixture{
		server: server,
		set:    testutil.StatefulSet("web").UID("set").Obj(),
		Store: &Store{
			Client: server, Writer: &writer.Writer{Client: server, Live: server},
		},
	}
}

func (f *fixture) owner() revision.Owner {
	return revision.Owner{
		Namespace: f.set.Namespace, Name: f.set.Name,
		Reference: *metav1.NewControllerRef(f.set, appsv1beta1.GroupVersion().WithKind("StatefulSet")),
	}
}

// stored reads all revisions without indexes: the fake server has none.
func (f *fixture) stored(t *testing.T) []revision.Revision {
	t.Helper()
	var list appsv1.ControllerRevisionList
	if err := f.server.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	var all []revision.Revision
	for i := range list.Items {
		if r, err := revision.Decode(&list.Items[i]); err == nil && metav1.IsControlledBy(&list.Items[i], f.set) {
			all = append(all, r)
		}
	}
	return all
}

// ensure makes sure of the revision for an image and returns it.
func (f *fixture) ensure(t *testing.T, image string) revision.DecisionOf[corev1.PodTemplateSpec] {
	t.Helper()
	f.set.Spec.Template.Spec.Containers[0].Image = image
	decision, err := Ensure(t.Context(), f.Store, revision.PodTemplates(false), freshness.OwnerOf(f.set), f.owner(), &f.set.Spec.Template, f.stored(t), f.set.Status.CollisionCount)
	if err != nil {
		t.Fatalf("ensuring the revision of %s: %v", image, err)
	}
	return decision
}

func TestEnsureCreatesReusesAndRollsBack(t *testing.T) {
	f := newFixture(t)
	first := f.ensure(t, "registry.example/main:1").Update
	if first.Object == nil || first.Object.ResourceVersion == "" || first.Number != 1 {
		t.Fatalf("first revision %+v", first)
	}
	if again := f.ensure(t, "registry.example/main:1").Update; again.Name != first.Name || len(f.server.Writes()) != 1 {
		t.Errorf("the same template has the revision %s after %d writes", again.Name, len(f.server.Writes()))
	}
	second := f.ensure(t, "registry.example/main:2").Update
	back := f.ensure(t, "registry.example/main:1").Update
	if back.Name != first.Name || back.Number != 3 {
		t.Errorf("rolled back to %s number %d, want %s number 3", back.Name, back.Number, first.Name)
	}
	numbers := map[string]int64{}
	for _, r := range f.stored(t) {
		numbers[r.Name] = r.Number
	}
	if numbers[first.Name] != 3 || numbers[second.Name] != 2 || len(numbers) != 2 {
		t.Errorf("stored %v", numbers)
	}
}

// indexed answers as a cache with these revisions in an index.
type indexed struct {
	client.Reader
	revisions []appsv1.ControllerRevision
}

func (r indexed) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if into, ok := list.(*appsv1.ControllerRevisionList); ok {
		into.Items = slices.Clone(r.revisions)
	}
	return nil
}

// With a revisionHistoryLimit of thousands and a template of a megabyte, each pass decoded gigabytes.
func TestOfALongHistoryOfLargeTemplatesTheNewestAreDecoded(t *testing.T) {
	note := strings.Repeat("x", 1<<20)
	var r indexed
	for i := range 40 {
		r.revisions = append(r.revisions, appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("web-", i)}, Revision: int64(i*7%40 + 1),
			Data: runtime.RawExtension{Raw: []byte(`{"spec":{"template":{"metadata":{"annotations":{"note":"` + note + `"}}}}}`)},
		})
	}
	all, err := List(t.Context(), &Store{Client: r}, revision.PodTemplates(false), "shop", "set")
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 20 || len(all) >= 25 || all[0].Number != 40 || all[len(all)-1].Number != int64(41-len(all)) {
		t.Errorf("%d revisions are decoded, from number %d to %d", len(all), all[0].Number, all[len(all)-1].Number)
	}
}

func TestEnsureFindsAnotherNameWhenItsOwnIsTaken(t *testing.T) {
	probe := newFixture(t)
	name := probe.ensure(t, "registry.example/main:1").Update.Name

	stranger := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: testutil.Namespace, Name: name}, Revision: 1}
	f := newFixture(t, stranger)
	decision := f.ensure(t, "registry.example/main:1")
	if decision.Update.Name == name || ptr.Deref(decision.CollisionCount, 0) != 1 {
		t.Errorf("revision %s with collision count %v", decision.Update.Name, decision.CollisionCount)
	}
}

func TestEnsureSurvivesALostAnswer(t *testing.T) {
	f := newFixture(t)
	f.server.SetFault(func(_ context.Context, _ testutil.Write, forward func() error) error {
		return errors.Join(forward(), io.ErrUnexpectedEOF)
	})
	if _, err := Ensure(t.Context(), f.Store, revision.PodTemplates(false), freshness.OwnerOf(f.set), f.owner(), &f.set.Spec.Template, nil, nil); err == nil {
		t.Fatal("a lost answer is no error")
	}
	f.server.SetFault(nil)
	// The cache does not show it yet: the same name is tried again and found to be ours.
	decision, err := Ensure(t.Context(), f.Store, revision.PodTemplates(false), freshness.OwnerOf(f.set), f.owner(), &f.set.Spec.Template, nil, nil)
	if err != nil || decision.CollisionCount != nil {
		t.Errorf("collision count %v, error %v", decision.CollisionCount, err)
	}
	if got := f.stored(t); len(got) != 1 || got[0].Name != decision.Update.Name {
		t.Errorf("stored %v", got)
	}
}

func TestTrim(t *testing.T) {
	f := newFixture(t)
	var names []string
	for _, image := range []string{"a:1", "a:2", "a:3", "a:4", "a:5"} {
		names = append(names, f.ensure(t, image).Update.Name)
	}
	stored := f.stored(t)
	// Somebody else was faster with one of them.
	gone := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: testutil.Namespace, Name: names[0]}}
	if err := f.server.Delete(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	live := sets.New(names[1], names[4])
	if err := Trim(t.Context(), f.Store, freshness.OwnerOf(f.set), stored, live, 1); err != nil {
		t.Fatal(err)
	}
	for _, r := range f.stored(t) {
		live.Delete(r.Name)
		if r.Name == names[0] || r.Name == names[2] {
			t.Errorf("surplus revision %s is kept", r.Name)
		}
	}
	if len(live) > 0 {
		t.Errorf("revisions %v are gone", live)
	}
}

func TestLabel(t *testing.T) {
	f := newFixture(t)
	object := f.ensure(t, "registry.example/main:1").Update.Object
	hash := object.Labels["controller.kubernetes.io/hash"]
	owner := freshness.OwnerOf(f.set)
	yes := "true"
	label := func(labels map[string]*string) map[string]string {
		t.Helper()
		if err := f.Label(t.Context(), owner, object, labels); err != nil {
			t.Fatal(err)
		}
		return f.stored(t)[0].Object.Labels
	}
	if got := label(map[string]*string{"one": &yes}); got["one"] != yes || got["controller.kubernetes.io/hash"] != hash {
		t.Errorf("the labels are %v", got)
	}
	if got := label(map[string]*string{"one": nil, "two": &yes}); got["one"] != "" || got["two"] != yes {
		t.Errorf("then they are %v", got)
	}
	if err := f.server.Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	if err := f.Label(t.Context(), owner, object, map[string]*string{"one": &yes}); err != nil {
		t.Errorf("labeling a revision that is gone: %v", err)
	}
}

func TestRevisionsOfAClusterScopedOwnerLieInAnotherNamespace(t *testing.T) {
	f := newFixture(t)
	of := freshness.Owner{UID: f.set.UID, NamespacedName: types.NamespacedName{Name: "logs"}}
	owner := f.owner()
	owner.Namespace, owner.Name, owner.HashLabel = "operator", "logs", "example.com/hash"
	decision, err := Ensure(t.Context(), f.Store, revision.PodTemplates(false), of, owner, &f.set.Spec.Template, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	stored := f.stored(t)
	if len(stored) != 1 || stored[0].Object.Namespace != "operator" || stored[0].Object.Labels["example.com/hash"] == "" {
		t.Fatalf("stored are %+v", stored)
	}
	if err := Trim(t.Context(), f.Store, of, []revision.Revision{decision.Update}, nil, 0); err != nil {
		t.Fatal(err)
	}
	if stored := f.stored(t); len(stored) != 0 {
		t.Errorf("left are %+v", stored)
	}
}
