// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package uniteddeployment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/uniteddeployment/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/united"
	"github.com/kruise-operator/kruise-operator/internal/kube/pacing"
	"github.com/kruise-operator/kruise-operator/internal/kube/pages"
	"github.com/kruise-operator/kruise-operator/internal/testutil"
	"github.com/kruise-operator/kruise-operator/internal/testutil/reconcilertest"
)

// shell is a reconciler with a fake server, which is its cache as well.
type shell struct {
	*Reconciler
	t      *testing.T
	server *testutil.Client
	set    *appsv1beta1.UnitedDeployment
}

// children are the kinds of the workloads, as the reconciler reads them.
func children() []client.Object {
	var all []client.Object
	for _, adapter := range united.Adapters() {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(adapter.Kind)
		all = append(all, object)
	}
	return all
}

func newShell(t *testing.T, set *appsv1beta1.UnitedDeployment, objects ...client.Object) *shell {
	t.Helper()
	fake := reconcilertest.New(t, reconcilertest.Options{
		Entry: Value().Entry, Object: &appsv1beta1.UnitedDeployment{}, Controlled: children(), Stored: append(objects, set),
	})
	s := &shell{t: t, server: fake.Server, set: set, Reconciler: New(fake.Dependencies, func(schema.GroupVersionKind) bool { return true })}
	s.follow = func(context.Context, *unstructured.Unstructured) error { return nil } // The cache of a shell needs none.
	return s
}

func newSet(replicas int32) *appsv1beta1.UnitedDeployment {
	labels := map[string]string{"app": "web"}
	spec := `{"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"main","image":"web:1"}]}}}`
	return &appsv1beta1.UnitedDeployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: united.Kind().GroupVersion().String(), Kind: united.Kind().Kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: testutil.Namespace, Name: "web", UID: "set", Generation: 1},
		Spec: appsv1beta1.UnitedDeploymentSpec{
			Replicas: ptr.To(replicas), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: appsv1beta1.SubsetTemplate{CloneSetTemplate: &appsv1beta1.WorkloadTemplate{
				Metadata: metav1.ObjectMeta{Labels: labels}, Spec: runtime.RawExtension{Raw: []byte(spec)},
			}},
			Topology: appsv1beta1.Topology{Subsets: []appsv1beta1.Subset{{Name: "a"}, {Name: "b"}}},
		},
	}
}

// pass is one pass, which may not fail.
func (s *shell) pass() ctrl.Result {
	s.t.Helper()
	s.Remembered(s.set).Pace = pacing.Pace{}
	result, err := s.Reconcile(s.t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(s.set)})
	if err != nil {
		s.t.Fatalf("reconciling: %v", err)
	}
	return result
}

// until makes passes until done.
func (s *shell) until(what string, done func() bool) {
	s.t.Helper()
	for end := time.Now().Add(reconcilertest.Limit); !done(); {
		if time.Now().After(end) {
			status, _ := json.Marshal(s.stored().Status)
			s.t.Fatalf("not reached: %s: %s", what, status)
		}
		s.pass()
	}
}

func (s *shell) stored() *appsv1beta1.UnitedDeployment {
	s.t.Helper()
	got := &appsv1beta1.UnitedDeployment{}
	if err := s.server.Get(s.t.Context(), client.ObjectKeyFromObject(s.set), got); err != nil {
		s.t.Fatal(err)
	}
	return got
}

// sets are the CloneSets, by name.
func (s *shell) sets() map[string]*unstructured.Unstructured {
	s.t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(appsv1beta1.GroupVersion().WithKind("CloneSetList"))
	if err := s.server.List(s.t.Context(), list); err != nil {
		s.t.Fatal(err)
	}
	all := map[string]*unstructured.Unstructured{}
	for i := range list.Items {
		all[list.Items[i].GetName()] = &list.Items[i]
	}
	return all
}

func TestReconcileAppliesWorkloadsAndRests(t *testing.T) {
	s := newShell(t, newSet(5))
	s.until("two CloneSets and a status", func() bool { return len(s.sets()) == 2 && s.stored().Status.UpdatedRevision != "" })
	for range 10 {
		s.pass()
	}
	before := len(s.server.Writes())
	for range 3 {
		s.pass()
	}
	if got := s.server.Writes()[before:]; len(got) > 0 {
		t.Errorf("writes at rest: %+v", got)
	}
	sum := 0
	for name, set := range s.sets() {
		sum += united.Number(set.Object, "spec", "replicas")
		if !metav1.IsControlledBy(set, s.set) || name != "web-"+set.GetLabels()[shared.LabelSubsetName] {
			t.Errorf("CloneSet %s has labels %v and owners %v", name, set.GetLabels(), set.GetOwnerReferences())
		}
	}
	if sum != 5 {
		t.Errorf("the CloneSets have %d pods", sum)
	}
	for _, w := range s.server.Writes() {
		if w.Verb == "apply" && (w.ApplyOptions.FieldManager != shared.FieldManagerUnitedDeployment || !ptr.Deref(w.ApplyOptions.Force, false)) {
			t.Errorf("applied with %+v", w.ApplyOptions)
		}
	}
}

// A UnitedDeployment said for ever that workloads are being changed: its last apply had changed nothing, so that no event came.
func TestReconcileLooksAgainAfterAnApply(t *testing.T) {
	s := newShell(t, newSet(5))
	applies := 0
	rests := false
	for range 30 {
		before := len(s.server.Writes())
		result := s.pass()
		wrote := slices.ContainsFunc(s.server.Writes()[before:], func(w testutil.Write) bool { return w.Verb == "apply" })
		if wrote {
			applies++
		}
		if wrote && (result.RequeueAfter == 0 || result.RequeueAfter > appliedRecheck) {
			t.Errorf("after an apply the next pass is in %s", result.RequeueAfter)
		}
		rests = len(s.server.Writes()) == before && result.RequeueAfter == 0
	}
	if !rests || applies == 0 {
		t.Errorf("%d passes applied something; at rest without a timer: %t", applies, rests)
	}
}

func TestReconcileLeavesWorkloadsOfOthersAlone(t *testing.T) {
	other := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": int64(7)}}}
	other.SetGroupVersionKind(appsv1beta1.GroupVersion().WithKind("CloneSet"))
	other.SetNamespace(testutil.Namespace)
	other.SetName("web-a")
	s := newShell(t, newSet(2), other)
	s.until("two more CloneSets", func() bool { return len(s.sets()) == 3 })
	hashed := united.Names("web", "a")[1]
	if sets := s.sets(); united.Number(sets["web-a"].Object, "spec", "replicas") != 7 || sets[hashed] == nil {
		t.Errorf("the CloneSets are %v", sets)
	}
}

func TestReconcileNamesTheSubsetThatIsRefused(t *testing.T) {
	s := newShell(t, newSet(2))
	s.server.SetFault(func(_ context.Context, w testutil.Write, forward func() error) error {
		if w.Verb == "apply" && w.Object.GetName() == "web-a" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "clonesets"}, "web-a", errors.New("exceeded quota"))
		}
		return forward()
	})
	s.until("the other one exists, and the status names the first", func() bool {
		for _, c := range s.stored().Status.Conditions {
			if c.Type == appsv1beta1.UnitedDeploymentSubsetFailure && strings.Contains(c.Message, "subset a: ") && strings.Contains(c.Message, "exceeded quota") {
				return s.sets()["web-b"] != nil
			}
		}
		return false
	})
}

// TestReconcileKeepsWorkloadsOfOpenKruise: a workload with a generated name is not created again.
func TestReconcileKeepsWorkloadsOfOpenKruise(t *testing.T) {
	set := newSet(2)
	child := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"app": "web", shared.LabelSubsetName: "a"}}, "spec": map[string]any{"replicas": int64(1), "minReadySeconds": int64(3)},
	}}
	child.SetGroupVersionKind(appsv1beta1.GroupVersion().WithKind("CloneSet"))
	child.SetNamespace(testutil.Namespace)
	child.SetName("web-a-gx7kz")
	child.SetUID("theirs")
	child.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(set, united.Kind())})
	s := newShell(t, set, child)
	s.until("it is applied", func() bool {
		return s.sets()[child.GetName()].GetAnnotations()[shared.AnnotationAppliedHash] != ""
	})
	for range 5 {
		s.pass()
	}
	if sets := s.sets(); len(sets) != 2 || sets[child.GetName()].GetUID() != "theirs" {
		t.Errorf("%d CloneSets: %v", len(sets), sets)
	}
}

func TestReconcileForgetsASetThatIsGone(t *testing.T) {
	s := newShell(t, newSet(2))
	s.until("two CloneSets", func() bool { return len(s.sets()) == 2 })
	before := s.Remembered(s.set)
	if err := s.server.Delete(t.Context(), s.set); err != nil {
		t.Fatal(err)
	}
	s.pass()
	if s.Remembered(s.set) == before {
		t.Error("it is remembered")
	}
}

func TestReconcileOnlyReportsASetThatIsBeingDeleted(t *testing.T) {
	set := newSet(2)
	set.DeletionTimestamp, set.Finalizers = ptr.To(metav1.Unix(1e9, 0)), []string{metav1.FinalizerDeleteDependents}
	s := newShell(t, set)
	s.until("the status says so", func() bool { return len(s.stored().Status.Conditions) > 0 })
	for _, w := range s.server.Writes() {
		if w.Object.GetName() != "web" || w.Subresource != "status" {
			t.Errorf("wrote %s %s/%s", w.Verb, w.Object.GetName(), w.Subresource)
		}
	}
	if c, ok := conditions.Find(conditions.From(s.stored().Status.Conditions), "Reconciling"); !ok || c.Reason != appsv1beta1.ReasonDeleting {
		t.Errorf("Reconciling is %+v", c)
	}
}

func TestTriedIsOfOneGeneration(t *testing.T) {
	s := newShell(t, newSet(2))
	s.until("two CloneSets", func() bool { return len(s.sets()) == 2 })
	applies := 0
	s.server.SetFault(func(_ context.Context, w testutil.Write, forward func() error) error {
		if w.Verb == "apply" && w.Object.GetName() == "web-a" {
			applies++
			return nil // The server writes the value in its own way.
		}
		return forward()
	})
	set := s.sets()["web-a"]
	set.SetGeneration(4)
	set.SetUID("a")
	if err := unstructured.SetNestedField(set.Object, int64(9), "spec", "replicas"); err != nil {
		t.Fatal(err)
	}
	if err := s.server.Update(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		s.pass()
	}
	if applies != 1 {
		t.Errorf("applied %d times, want once; the generation is %d", applies, s.sets()["web-a"].GetGeneration())
	}
}

// TestReconcileKeepsFewRevisions: beyond the limit, revisions go that nothing is at; sizes and subsets make none.
func TestReconcileKeepsFewRevisions(t *testing.T) {
	set := newSet(2)
	set.Spec.RevisionHistoryLimit = ptr.To[int32](2)
	s := newShell(t, set)
	revisions := func() []string {
		var list appsv1.ControllerRevisionList
		if err := s.server.List(t.Context(), &list); err != nil {
			t.Fatal(err)
		}
		var names []string
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
			if list.Items[i].Labels["app"] != "web" {
				t.Errorf("the selector does not find revision %s, whose labels are %v", list.Items[i].Name, list.Items[i].Labels)
			}
		}
		slices.Sort(names)
		return names
	}
	follows := func() bool {
		stored := s.stored()
		for _, child := range s.sets() {
			if child.GetLabels()[shared.LabelUnitedDeploymentRevision] != stored.Status.UpdatedRevision {
				return false
			}
		}
		return stored.Status.ObservedGeneration == stored.Generation && len(s.sets()) == len(stored.Spec.Topology.Subsets)
	}
	change := func(change func(*appsv1beta1.UnitedDeployment)) {
		stored := s.stored()
		change(stored)
		stored.Generation++
		if err := s.server.Update(t.Context(), stored); err != nil {
			t.Fatal(err)
		}
		s.until("the workloads follow", follows)
	}
	s.until("the workloads are there", follows)
	first := s.stored().Status.CurrentRevision
	var all []string
	for i := range 6 {
		change(func(set *appsv1beta1.UnitedDeployment) {
			raw := string(set.Spec.Template.CloneSetTemplate.Spec.Raw)
			set.Spec.Template.CloneSetTemplate.Spec.Raw = []byte(strings.Replace(raw, fmt.Sprintf("web:%d", i+1), fmt.Sprintf("web:%d", i+2), 1))
		})
		all = append(all, s.stored().Status.UpdatedRevision)
	}
	// No pod is ready, so the first revision is still the current one.
	want := append([]string{first}, all[len(all)-3:]...)
	slices.Sort(want)
	s.until("the others are gone", func() bool { return len(revisions()) <= len(want) })
	if diff := cmp.Diff(want, revisions()); diff != "" {
		t.Errorf("the revisions (-want +got):\n%s", diff)
	}
	change(func(set *appsv1beta1.UnitedDeployment) { set.Spec.Replicas = ptr.To[int32](9) })
	change(func(set *appsv1beta1.UnitedDeployment) {
		set.Spec.Topology.Subsets = append(set.Spec.Topology.Subsets, appsv1beta1.Subset{Name: "c"})
	})
	if diff := cmp.Diff(want, revisions()); diff != "" {
		t.Errorf("the revisions after changes of size and subsets (-want +got):\n%s", diff)
	}
}

// pagedReader answers lists of pods as a server does that is asked for pages.
type pagedReader struct {
	client.Reader
	pods  int
	asked []int64
}

func (r *pagedReader) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	asked := (&client.ListOptions{}).ApplyOptions(options)
	r.asked = append(r.asked, asked.Limit)
	pods, _ := list.(*corev1.PodList)
	from, _ := strconv.Atoi(asked.Continue)
	for n := from; n < r.pods && int64(n-from) < asked.Limit; n++ {
		pods.Items = append(pods.Items, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("web-", n)}})
	}
	if next := from + len(pods.Items); next < r.pods {
		pods.Continue = strconv.Itoa(next)
	}
	return nil
}

func TestPodsAreReadInPages(t *testing.T) {
	s := newShell(t, newSet(5))
	reader := &pagedReader{pods: 2*pages.MaxObjects + 1}
	s.Live = reader
	pods, err := s.readPods(t.Context(), united.Parse(s.set), plan.AllPods)
	if err != nil || len(pods) != reader.pods || pods[reader.pods-1].Name != "web-1000" || !slices.Equal(reader.asked, []int64{pages.MaxObjects, pages.MaxObjects, pages.MaxObjects}) {
		t.Errorf("%d pods of %d, asked for %v: %v", len(pods), reader.pods, reader.asked, err)
	}
}
