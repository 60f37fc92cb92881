// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package statefulset

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/statefulset/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/kube/pacing"
	"github.com/kruise-operator/kruise-operator/internal/testutil"
	"github.com/kruise-operator/kruise-operator/internal/testutil/reconcilertest"
)

// shell is a Reconciler on a fake server whose cache is never behind.
type shell struct {
	*Reconciler
	server *testutil.Client
	events *events.FakeRecorder
}

func newShell(t *testing.T, objects ...client.Object) *shell {
	t.Helper()
	fake := reconcilertest.New(t, reconcilertest.Options{Entry: Value().Entry, Object: &appsv1beta1.StatefulSet{}, Stored: objects})
	return &shell{server: fake.Server, events: fake.Events, Reconciler: New(fake.Dependencies, plan.Options{})}
}

func key(object client.Object) ctrl.Request {
	return ctrl.Request{NamespacedName: client.ObjectKeyFromObject(object)}
}

// settle reconciles until done says so and nothing is left to come back for.
func (s *shell) settle(t *testing.T, set client.Object, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), reconcilertest.Limit)
	defer cancel()
	for {
		result, err := s.Reconcile(ctx, key(set))
		if err != nil {
			t.Fatalf("reconciling: %v", err)
		}
		if result.RequeueAfter == 0 && done() {
			return
		}
		select {
		case <-time.After(min(max(result.RequeueAfter, time.Millisecond), 50*time.Millisecond)):
		case <-ctx.Done():
			t.Fatal("the set does not get there")
		}
	}
}

func (s *shell) pods(t *testing.T) map[string]*corev1.Pod {
	t.Helper()
	var list corev1.PodList
	if err := s.server.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	pods := map[string]*corev1.Pod{}
	for i := range list.Items {
		pods[list.Items[i].Name] = &list.Items[i]
	}
	return pods
}

func (s *shell) stored(t *testing.T, set client.Object) *appsv1beta1.StatefulSet {
	t.Helper()
	got := &appsv1beta1.StatefulSet{}
	if err := s.server.Get(t.Context(), client.ObjectKeyFromObject(set), got); err != nil {
		t.Fatal(err)
	}
	return got
}

func controlled(pod *corev1.Pod, set *appsv1beta1.StatefulSet) bool {
	return metav1.IsControlledBy(pod, set)
}

func TestReconcileCreatesPodsAndReports(t *testing.T) {
	set := testutil.StatefulSet("web").UID("set").Replicas(5).Obj()
	s := newShell(t, set)
	before := -1
	s.settle(t, set, func() bool {
		rests := len(s.server.Writes()) == before
		before = len(s.server.Writes())
		return rests
	})
	if got := len(s.pods(t)); got != 5 {
		t.Errorf("%d pods, want 5", got)
	}
	status := s.stored(t, set).Status
	if status.UpdateRevision != status.CurrentRevision {
		t.Errorf("revisions %q and %q", status.CurrentRevision, status.UpdateRevision)
	}
	for name, pod := range s.pods(t) {
		if !controlled(pod, set) || pod.Labels["controller-revision-hash"] != status.UpdateRevision {
			t.Errorf("pod %s has owners %v and labels %v", name, pod.OwnerReferences, pod.Labels)
		}
	}
	// At rest nothing is written.
	writes := len(s.server.Writes())
	for range 3 {
		s.Remembered(set).Pace = pacing.Pace{}
		if _, err := s.Reconcile(t.Context(), key(set)); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.server.Writes()[writes:]; len(got) != 0 {
		t.Errorf("writes at rest: %+v", got)
	}
}

func TestReconcileReportsFailedCreate(t *testing.T) {
	set := testutil.StatefulSet("web").UID("set").Replicas(2).Obj()
	s := newShell(t, set)
	s.server.SetFault(func(_ context.Context, w testutil.Write, forward func() error) error {
		if w.Object.GetName() == "web-1" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "web-1", fmt.Errorf("exceeded quota"))
		}
		return forward()
	})
	find := func() *appsv1.StatefulSetCondition {
		for _, c := range s.stored(t, set).Status.Conditions {
			if c.Type == "FailedCreatePod" {
				return &c
			}
		}
		return nil
	}
	for find() == nil {
		if _, err := s.Reconcile(t.Context(), key(set)); err != nil {
			t.Fatal(err)
		}
	}
	if c := find(); !strings.Contains(c.Message, "exceeded quota") {
		t.Errorf("condition %+v", c)
	}
	if _, ok := s.pods(t)["web-0"]; !ok {
		t.Error("one pod that is refused holds back another")
	}
}

func TestReconcileAdoptsAndReleases(t *testing.T) {
	set := testutil.StatefulSet("web").UID("set").Replicas(2).OnDelete().Obj()
	labels := map[string]string{"app": "web"}
	older := testutil.Pod("web-1").UID("b").Labels(labels).ControlledBy(set).Obj()
	older.OwnerReferences[0].APIVersion = "apps.kruise.io/v1alpha1"
	s := newShell(t, set,
		testutil.Pod("web-0").UID("a").Labels(labels).Obj(), older,
		testutil.Pod("web-7").UID("c").Labels(map[string]string{"app": "debugged"}).ControlledBy(set).Obj(),
		testutil.Pod("web-8").UID("d").Labels(map[string]string{"app": "other"}).Obj(),
		testutil.Pod("website-0").UID("e").Labels(labels).Obj(),
	)
	s.settle(t, set, func() bool {
		pods := s.pods(t)
		return controlled(pods["web-0"], set) && !controlled(pods["web-7"], set) && s.stored(t, set).Status.UpdateRevision != ""
	})
	pods := s.pods(t)
	for name, want := range map[string]bool{"web-0": true, "web-1": true, "web-7": false, "web-8": false, "website-0": false} {
		if pods[name] == nil || controlled(pods[name], set) != want {
			t.Errorf("pod %s is controlled: %v, want %v", name, !want, want)
		}
	}
}

func TestReconcileOnlyReportsASetThatIsBeingDeleted(t *testing.T) {
	set := testutil.StatefulSet("web").UID("set").Replicas(3).Deleting(time.Unix(1e9, 0)).Obj()
	orphan := testutil.Pod("web-0").UID("a").Labels(map[string]string{"app": "web"}).Obj()
	s := newShell(t, set, orphan)
	s.settle(t, set, func() bool { return len(s.stored(t, set).Status.Conditions) > 0 })
	for _, w := range s.server.Writes() {
		if _, ok := w.Object.(*metav1.PartialObjectMetadata); !ok || w.Object.GetName() != "web" || w.Subresource != "status" {
			t.Errorf("wrote %s %s/%s", w.Verb, w.Object.GetName(), w.Subresource)
		}
	}
	if c, ok := conditions.Find(conditions.From(s.stored(t, set).Status.Conditions), "Reconciling"); !ok || c.Reason != appsv1beta1.ReasonDeleting {
		t.Errorf("Reconciling is %+v", c)
	}
}

func TestReconcileLeavesAnUndecodableSetAlone(t *testing.T) {
	broken := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet",
		"metadata": map[string]any{"namespace": testutil.Namespace, "name": "broken", "uid": "broken"},
		"spec":     map[string]any{"replicas": int64(3), "template": map[string]any{"spec": map[string]any{"containers": "none"}}},
	}}
	s := newShell(t)
	// The typed fake server cannot hold it: only reads of the cache return it, as a real cache of stored objects does.
	cache := brokenView{s.Cache, broken}
	s.Cache = cache
	var bodies []string
	s.server.SetFault(func(_ context.Context, w testutil.Write, _ func() error) error {
		bodies = append(bodies, w.Patch)
		return nil
	})
	if _, err := s.Reconcile(t.Context(), key(broken)); err != nil {
		t.Fatal(err)
	}
	if len(bodies) != 1 || !strings.Contains(bodies[0], `"type":"Stalled"`) || !strings.Contains(bodies[0], "containers") {
		t.Fatalf("patches %q, want one with the condition Stalled that names the field", bodies)
	}
	if got := len(s.events.Events); got != 1 {
		t.Errorf("%d events, want 1", got)
	}

	// Once said, it is not said again.
	var written map[string]any
	if err := json.Unmarshal([]byte(bodies[0]), &written); err != nil {
		t.Fatal(err)
	}
	broken.Object["status"] = written["status"]
	if _, err := s.Reconcile(t.Context(), key(broken)); err != nil {
		t.Fatal(err)
	}
	if len(bodies) != 1 || len(s.events.Events) != 1 {
		t.Errorf("%d patches and %d events after the second pass, want one of each", len(bodies), len(s.events.Events))
	}
}

// brokenView is a cache that holds one set that cannot be decoded.
type brokenView struct {
	ctrlcache.Cache
	set *unstructured.Unstructured
}

func (v brokenView) Get(_ context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	v.set.DeepCopyInto(o.(*unstructured.Unstructured))
	return nil
}

func TestReconcileForgetsASetThatIsGone(t *testing.T) {
	set := testutil.StatefulSet("web").UID("set").Obj()
	s := newShell(t, set)
	s.settle(t, set, func() bool { return len(s.pods(t)) == 1 })
	before := s.Remembered(set)
	if err := s.server.Delete(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	if result, err := s.Reconcile(t.Context(), key(set)); err != nil || result.RequeueAfter != 0 {
		t.Errorf("result %+v, error %v", result, err)
	}
	if after := s.Remembered(set); after == before || after.Pace.Wait(time.Now()) != 0 {
		t.Errorf("it is remembered, and waits %v", after.Pace.Wait(time.Now()))
	}
}

// TestHangingSetsDoNotDelayAnotherNamespace hangs more sets than there are workers.
func TestHangingSetsDoNotDelayAnotherNamespace(t *testing.T) {
	var objects []client.Object
	for i := range 20 {
		objects = append(objects, testutil.StatefulSet(fmt.Sprintf("a%d", i)).Namespace("hanging").UID(types.UID(fmt.Sprint(i))).Replicas(5).Obj())
	}
	healthy := testutil.StatefulSet("b").Namespace("healthy").UID("b").Replicas(5).Obj()
	s := newShell(t, append(objects, healthy)...)
	release := make(chan struct{})
	hung := make(chan struct{}, 1000)
	s.server.SetFault(func(ctx context.Context, w testutil.Write, forward func() error) error {
		if _, pod := w.Object.(*corev1.Pod); !pod || w.Object.GetNamespace() != "hanging" {
			return forward()
		}
		hung <- struct{}{}
		select {
		case <-release:
		case <-ctx.Done():
		}
		return context.DeadlineExceeded
	})

	// As the controller does: so many workers on one queue, and whoever has to wait comes back later.
	ctx, cancel := context.WithCancel(t.Context())
	queue := make(chan client.Object, 1000)
	var workers sync.WaitGroup
	for range s.Workers {
		workers.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case object := <-queue:
					result, err := s.Reconcile(ctx, key(object))
					if wait := max(result.RequeueAfter, 10*time.Millisecond); err != nil || result.RequeueAfter > 0 {
						time.AfterFunc(wait, func() { queue <- object })
					}
				}
			}
		})
	}
	defer workers.Wait()
	defer cancel()
	defer close(release)
	for _, object := range objects {
		queue <- object
	}
	select {
	case <-hung:
	case <-time.After(reconcilertest.Limit):
		t.Fatal("nothing hangs")
	}
	began := time.Now()
	queue <- healthy
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		count := 0
		for _, pod := range s.pods(t) {
			if pod.Namespace == "healthy" {
				count++
			}
		}
		if count == 5 {
			break
		}
		if time.Since(began) > reconcilertest.Limit/2 {
			t.Fatalf("%d of 5 pods of the healthy set after %v", count, time.Since(began))
		}
	}
}

func TestOwnersOfPod(t *testing.T) {
	set := testutil.StatefulSet("web").UID("set").Obj()
	older := testutil.Pod("any").ControlledBy(set).Obj()
	older.OwnerReferences[0].APIVersion = "apps.kruise.io/v1alpha1"
	native := testutil.Pod("web-0").ControlledBy(set).Obj()
	native.OwnerReferences[0].APIVersion = "apps/v1"
	cases := map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"controlled":                       {testutil.Pod("any").ControlledBy(set).Obj(), "web"},
		"controlled, in the older version": {older, "web"},
		"an orphan named after a slot":     {testutil.Pod("my-web-12").Obj(), "my-web"},
		"an orphan with another name":      {testutil.Pod("web").Obj(), ""},
		"an orphan of no set":              {testutil.Pod("web-12").Obj(), ""},
		"controlled by a native set":       {native, ""},
	}
	s := newShell(t, testutil.StatefulSet("my-web").UID("my").Obj())
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := names(s.ownersOfPod(t.Context(), tc.pod)); got != tc.want {
				t.Errorf("enqueues %q, want %q", got, tc.want)
			}
		})
	}
}

// names joins the names of the sets that are enqueued.
func names(sets []types.NamespacedName) string {
	var all []string
	for _, set := range sets {
		all = append(all, set.Name)
	}
	return strings.Join(all, ",")
}

func TestOwnersOfClaim(t *testing.T) {
	withClaims := func(name string, templates ...string) *appsv1beta1.StatefulSet {
		set := testutil.StatefulSet(name).UID(types.UID(name)).Obj()
		for _, template := range templates {
			set.Spec.VolumeClaimTemplates = append(set.Spec.VolumeClaimTemplates,
				corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: template}})
		}
		return set
	}
	s := newShell(t, withClaims("web", "data", "web-logs"), withClaims("my-web", "data"), withClaims("plain"))
	got := map[string]string{}
	for _, name := range []string{"data-web-0", "web-logs-web-3", "data-my-web-1", "data-plain-0", "data-web", "logs-web-0"} {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: testutil.Namespace, Name: name}}
		owners := s.ownersOfClaim(t.Context(), claim)
		slices.SortFunc(owners, func(a, b types.NamespacedName) int { return strings.Compare(a.Name, b.Name) })
		if set := names(owners); set != "" {
			got[name] = set
		}
	}
	want := map[string]string{"data-web-0": "web", "web-logs-web-3": "web", "data-my-web-1": "my-web,web", "data-plain-0": "plain", "logs-web-0": "web"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("enqueued by claims (-want +got):\n%s", diff)
	}
}
