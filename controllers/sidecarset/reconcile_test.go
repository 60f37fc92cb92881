// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarset

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecarspec"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/kube/pacing"
	"github.com/kruise-operator/kruise-operator/internal/testutil"
	"github.com/kruise-operator/kruise-operator/internal/testutil/fixtures"
	"github.com/kruise-operator/kruise-operator/internal/testutil/reconcilertest"
)

// shell is a Reconciler on a fake server with a current cache.
type shell struct {
	*Reconciler
	t      *testing.T
	server *testutil.Client
	events *events.FakeRecorder
}

func newShell(t *testing.T, namespace string, objects ...client.Object) *shell {
	t.Helper()
	fake := reconcilertest.New(t, reconcilertest.Options{Entry: Value().Entry, Object: &appsv1beta1.SidecarSet{}, Stored: objects})
	return &shell{t: t, server: fake.Server, events: fake.Events, Reconciler: New(fake.Dependencies, namespace)}
}

func (s *shell) stored(name string) *appsv1beta1.SidecarSet {
	s.t.Helper()
	set := &appsv1beta1.SidecarSet{}
	if err := s.server.Get(s.t.Context(), types.NamespacedName{Name: name}, set); err != nil {
		s.t.Fatal(err)
	}
	return set
}

// passes are several passes over a set, without the pauses between them.
func (s *shell) passes(name string) {
	s.t.Helper()
	for range 8 {
		s.Remembered(s.stored(name)).Pace = pacing.Pace{}
		if _, err := s.Reconcile(s.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: name}}); err != nil {
			s.t.Fatalf("reconciling: %v", err)
		}
	}
}

// writes returns a summary of all writes.
func (s *shell) writes() []string {
	var all []string
	for _, w := range s.server.Writes() {
		kind := w.Object.GetObjectKind().GroupVersionKind().Kind
		all = append(all, strings.TrimSuffix(strings.Join([]string{w.Verb, kind, w.Object.GetName(), w.Subresource}, " "), " "))
	}
	return all
}

func newSet() *appsv1beta1.SidecarSet {
	return &appsv1beta1.SidecarSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: Kind().GroupVersion().String(), Kind: Kind().Kind},
		ObjectMeta: metav1.ObjectMeta{Name: "logs", UID: "set", Generation: 1, Labels: map[string]string{"team": "a"}},
		Spec: appsv1beta1.SidecarSetSpec{
			Selector:      &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Containers:    []appsv1beta1.SidecarContainer{{Container: corev1.Container{Name: "agent", Image: "agent:1"}}},
			CustomVersion: "1.4",
		},
	}
}

// newPod is a ready pod injected by the set.
func newPod(t *testing.T, name, namespace string, set *appsv1beta1.SidecarSet) *corev1.Pod {
	t.Helper()
	hashes, err := sidecarspec.HashesOf(sidecarspec.PayloadOf(&set.Spec, nil))
	if err != nil {
		t.Fatal(err)
	}
	entry := func(hash string) string {
		text, err := json.Marshal(map[string]shared.SidecarSetUpgrade{set.Name: {SidecarSetHash: hash, SidecarSetName: set.Name}})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: types.UID("uid-" + name), Generation: 1, Labels: map[string]string{"app": "web"},
			Annotations: map[string]string{
				shared.AnnotationSidecarSetInjectedList: set.Name, shared.AnnotationSidecarSetHash: entry(hashes.Hash),
				shared.AnnotationSidecarSetHashWithoutImage: entry(hashes.WithoutImage),
			},
		},
		Spec: corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "main", Image: "main:1"}, {Name: "agent", Image: set.Spec.Containers[0].Image}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, ObservedGeneration: 1, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	for _, c := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: c.Image, ContainerID: "sim://" + c.Name, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		})
	}
	return pod
}

// OpenKruise's objects are taken over without a write to
// pods or revisions, wherever the operator is installed.
func TestTakeoverWritesNothingButStatuses(t *testing.T) {
	for _, namespace := range []string{"kruise-system", "elsewhere"} {
		t.Run(namespace, func(t *testing.T) {
			recorded := fixtures.Objects(t, "sidecarset/state.yaml")
			var objects []client.Object
			sets := fixtures.All[appsv1beta1.SidecarSet](t, recorded, appsv1beta1.GroupVersion().String(), "SidecarSet")
			for _, set := range sets {
				objects = append(objects, set)
			}
			for _, pod := range fixtures.All[corev1.Pod](t, recorded, "v1", "Pod") {
				objects = append(objects, pod)
			}
			for _, revision := range fixtures.Revisions(t, "sidecarset", recorded) {
				objects = append(objects, revision)
			}
			s := newShell(t, namespace, objects...)
			for _, before := range sets {
				s.passes(before.Name)
				after := s.stored(before.Name)
				if diff := cmp.Diff(before.Spec, after.Spec) + cmp.Diff(before.Annotations, after.Annotations); diff != "" {
					t.Errorf("%s changed:\n%s", before.Name, diff)
				}
				if c, ok := conditions.Find(plan.Conditions(&after.Status), appsv1beta1.SidecarSetReconciling); !ok || c.Reason != appsv1beta1.ReasonPartitionReached {
					t.Errorf("%s: conditions %+v", before.Name, after.Status.Conditions)
				}
				after.Status.Conditions = nil
				if diff := cmp.Diff(before.Status, after.Status); diff != "" {
					t.Errorf("the status of %s changed:\n%s", before.Name, diff)
				}
			}
			for _, write := range s.writes() {
				if !strings.HasPrefix(write, "patch SidecarSet ") || !strings.HasSuffix(write, " status") {
					t.Errorf("written: %s", write)
				}
			}
		})
	}
}

func TestANewSetGetsARevisionAndItsHashes(t *testing.T) {
	s := newShell(t, "kruise-system", newSet())
	s.passes("logs")
	set := s.stored("logs")
	revision := &appsv1.ControllerRevision{}
	if err := s.server.Get(t.Context(), types.NamespacedName{Namespace: "kruise-system", Name: set.Status.LatestRevision}, revision); err != nil {
		t.Fatal(err)
	}
	if !metav1.IsControlledBy(revision, set) {
		t.Errorf("its owners are %v", revision.OwnerReferences)
	}
	for key, want := range map[string]string{
		"team": "a", shared.LabelSidecarSetName: "logs", shared.LabelSidecarSetCustomVersion: "1.4",
		shared.LabelRevisionHash: strings.TrimPrefix(revision.Name, "logs-"),
	} {
		if got := revision.Labels[key]; got != want {
			t.Errorf("label %s is %q, want %q", key, got, want)
		}
	}
	hash := set.Annotations[shared.AnnotationSidecarSetHash]
	if hash == "" || hash != revision.Annotations[shared.AnnotationSidecarSetHash] {
		t.Errorf("hash %q of the set, %q of its revision", hash, revision.Annotations[shared.AnnotationSidecarSetHash])
	}
	before := len(s.writes())
	s.passes("logs")
	if after := s.writes(); len(after) > before {
		t.Errorf("writes at rest: %v", after[before:])
	}
	// A version named later goes to the existing revision.
	set.Spec.CustomVersion = "1.5"
	if err := s.server.Update(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	s.passes("logs")
	if err := s.server.Get(t.Context(), client.ObjectKeyFromObject(revision), revision); err != nil || revision.Labels[shared.LabelSidecarSetCustomVersion] != "1.5" {
		t.Errorf("its labels are %v: %v", revision.Labels, err)
	}
}

// Anybody able to write ControllerRevisions in a namespace could
// otherwise forge the set's hash, and update all of its pods, or none.
func TestRevisionsThatSomebodyForgedDoNotSayTheHashes(t *testing.T) {
	s := newShell(t, "operators", newSet())
	s.passes("logs")
	before := s.stored("logs")
	genuine := &appsv1.ControllerRevision{}
	if err := s.server.Get(t.Context(), types.NamespacedName{Namespace: "operators", Name: before.Status.LatestRevision}, genuine); err != nil {
		t.Fatal(err)
	}
	copied := func(namespace string, number int64) *appsv1.ControllerRevision {
		r := genuine.DeepCopy()
		r.Namespace, r.UID, r.ResourceVersion, r.Revision = namespace, types.UID("uid-in-"+namespace), "", number
		r.Annotations[shared.AnnotationSidecarSetHash] = "hash-of-" + namespace
		return r
	}
	for _, tc := range []struct {
		name, hash string
		objects    []client.Object
	}{
		{"beside its own", before.Annotations[shared.AnnotationSidecarSetHash], []client.Object{genuine.DeepCopy(), copied("anybodys", 9)}},
		{"alone", before.Annotations[shared.AnnotationSidecarSetHash], []client.Object{copied("anybodys", 9)}},
		{"where OpenKruise left it", "hash-of-kruise-system", []client.Object{copied("kruise-system", 1)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			set := newSet()
			s := newShell(t, "operators", append(tc.objects, set)...)
			s.passes("logs")
			if got := s.stored("logs").Annotations[shared.AnnotationSidecarSetHash]; got != tc.hash {
				t.Errorf("the hash is %q, want %q", got, tc.hash)
			}
			for _, write := range s.server.Writes() {
				if write.Object.GetNamespace() == "anybodys" {
					t.Errorf("%s of %s", write.Verb, client.ObjectKeyFromObject(write.Object))
				}
			}
		})
	}
}

func TestPodsOfSelectedNamespacesAreUpdated(t *testing.T) {
	old := newSet()
	set := newSet()
	set.Spec.Containers[0].Image = "agent:2"
	set.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: "shop"}}
	s := newShell(t, "kruise-system", set, newPod(t, "a", "shop", old), newPod(t, "b", "elsewhere", old))
	s.passes("logs")
	for name, want := range map[types.NamespacedName]string{{Namespace: "shop", Name: "a"}: "agent:2", {Namespace: "elsewhere", Name: "b"}: "agent:1"} {
		pod := &corev1.Pod{}
		if err := s.server.Get(t.Context(), name, pod); err != nil {
			t.Fatal(err)
		}
		if got := pod.Spec.Containers[1].Image; got != want {
			t.Errorf("pod %s has %s, want %s", name, got, want)
		}
	}
	if status := s.stored("logs").Status; status.MatchedPods != 1 {
		t.Errorf("status %+v", status)
	}
}

func TestAPodThatCannotBeWrittenIsReported(t *testing.T) {
	old := newSet()
	set := newSet()
	set.Spec.Containers[0].Image = "agent:2"
	s := newShell(t, "kruise-system", set, newPod(t, "a", "shop", old))
	tries := 0
	s.server.SetFault(func(_ context.Context, w testutil.Write, forward func() error) error {
		if w.Object.GetName() == "a" {
			tries++
			return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "a", fmt.Errorf("a budget refuses it"))
		}
		return forward()
	})
	s.passes("logs")
	if tries > 2 {
		t.Errorf("it was tried %d times in a row", tries)
	}
	c, ok := conditions.Find(plan.Conditions(ptr.To(s.stored("logs").Status)), appsv1beta1.SidecarSetFailedUpdate)
	if !ok || c.Reason != appsv1beta1.ReasonRequestFailed || !strings.Contains(c.Message, "shop/a") || !strings.Contains(c.Message, "a budget refuses it") {
		t.Errorf("condition %+v", c)
	}
}

// With maxUnavailable 1, only a pod protected by a budget would be tried.
func TestAPodThatABudgetProtectsHoldsUpNoOther(t *testing.T) {
	old := newSet()
	set := newSet()
	set.Spec.Containers[0].Image = "agent:2"
	s := newShell(t, "kruise-system", set, newPod(t, "a", "shop", old), newPod(t, "b", "shop", old), newPod(t, "c", "shop", old))
	var changed []string
	s.server.SetFault(func(_ context.Context, w testutil.Write, forward func() error) error {
		if w.Object.GetNamespace() != "shop" {
			return forward()
		}
		if w.Object.GetName() == "a" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "a", fmt.Errorf("a budget refuses it"))
		}
		changed = append(changed, w.Object.GetName())
		return forward()
	})
	s.passes("logs")
	if !slices.Contains(changed, "b") {
		t.Errorf("changed are %v", changed)
	}
}

func TestRevisionsThatPodsOrTheSpecNameAreKept(t *testing.T) {
	set := newSet()
	set.Spec.RevisionHistoryLimit = ptr.To[int32](1)
	set.Spec.CustomVersion = ""
	s := newShell(t, "kruise-system", set)
	var names []string
	for i := range 5 {
		set := s.stored("logs")
		set.Generation++
		set.Spec.Containers[0].Image = fmt.Sprintf("agent:%d", i)
		if i == 1 {
			set.Spec.InjectionStrategy.Revision = &appsv1beta1.SidecarSetInjectRevision{RevisionName: &names[0]}
		}
		if err := s.server.Update(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		s.passes("logs")
		names = append(names, s.stored("logs").Status.LatestRevision)
	}
	var stored appsv1.ControllerRevisionList
	if err := s.server.List(t.Context(), &stored); err != nil {
		t.Fatal(err)
	}
	var kept []string
	for _, r := range stored.Items {
		kept = append(kept, r.Name)
	}
	want := []string{names[0], names[3], names[4]}
	slices.Sort(kept)
	slices.Sort(want)
	if !slices.Equal(kept, want) {
		t.Errorf("kept are %v, want the named one, the present one and one more: %v", kept, want)
	}
}
