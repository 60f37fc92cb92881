// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
	"github.com/kruise-operator/kruise-operator/internal/testutil"
)

const listed = "example.com/owners"

// ownersInAnnotation is a MapFunc for a kind with many objects per pod.
func ownersInAnnotation(_ context.Context, pod client.Object) []types.NamespacedName {
	var owners []types.NamespacedName
	for name := range strings.SplitSeq(pod.GetAnnotations()[listed], ",") {
		if name != "" {
			owners = append(owners, types.NamespacedName{Name: name})
		}
	}
	return owners
}

func podOf(version, owners string) *corev1.Pod {
	pod := testutil.Pod("web-0").Obj()
	pod.ResourceVersion, pod.Annotations = version, map[string]string{listed: owners}
	return pod
}

func newBase(scope kinds.Scope) *Base {
	b := &Base{Kind: appsv1beta1.GroupVersion().WithKind("StatefulSet"), Dependencies: Dependencies{Scope: scope}}
	b.Clock = clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	return b
}

func TestAnEventEnqueuesAllWhomItConcerns(t *testing.T) {
	cases := map[string]struct {
		before, after *corev1.Pod
		want          []string
	}{
		"several owners":                {podOf("1", "a,b"), podOf("2", "a,b"), []string{"a", "b"}},
		"owners that came and went":     {podOf("1", "a,b"), podOf("2", "b,c"), []string{"a", "b", "c"}},
		"a resync":                      {podOf("1", "a,b"), podOf("1", "a,b"), nil},
		"a pod that concerns nobody":    {podOf("1", ""), podOf("2", ""), nil},
		"one that concerns nobody more": {podOf("1", "a"), podOf("2", ""), []string{"a"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
			defer q.ShutDown()
			newBase(kinds.Cluster).enqueueMapped(ownersInAnnotation).Update(t.Context(), event.UpdateEvent{ObjectOld: tc.before, ObjectNew: tc.after}, q)
			var enqueued []string
			for q.Len() > 0 {
				request, _ := q.Get()
				enqueued = append(enqueued, request.Name)
				q.Done(request)
			}
			slices.Sort(enqueued)
			if diff := cmp.Diff(tc.want, enqueued); diff != "" {
				t.Errorf("enqueued (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnObjectIsEnqueuedNoEarlierThanItMayBePlanned(t *testing.T) {
	b := newBase(kinds.Cluster)
	set := &metav1.ObjectMeta{Name: "a", UID: "1"}
	pace := &b.memories.of(freshness.OwnerOf(set)).Pace
	pace.Passed(b.Clock.Now(), 1, time.Second, 0)
	q := &laterQueue{}
	b.enqueueMapped(ownersInAnnotation).Create(t.Context(), event.CreateEvent{Object: podOf("1", "a")}, q)
	if left := pace.Wait(b.Clock.Now()); left < time.Second || len(q.waits) != 1 || q.waits[0] > 4*time.Second || q.waits[0] < left {
		t.Errorf("it is enqueued after %v, and may be planned after %v", q.waits, left)
	}
}

// laterQueue keeps when requests are to be handled.
type laterQueue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	waits []time.Duration
}

func (q *laterQueue) AddAfter(_ reconcile.Request, wait time.Duration) {
	q.waits = append(q.waits, wait)
}

func TestControllerNamesOwnersOfEitherScope(t *testing.T) {
	pod := testutil.Pod("web-0").ControlledBy(testutil.StatefulSet("web").UID("set").Obj()).Obj()
	for scope, want := range map[kinds.Scope]types.NamespacedName{
		kinds.Namespaced: {Namespace: testutil.Namespace, Name: "web"},
		kinds.Cluster:    {Name: "web"},
	} {
		if diff := cmp.Diff([]types.NamespacedName{want}, newBase(scope).Controller(t.Context(), pod)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", scope, diff)
		}
	}
	if got := newBase(kinds.Namespaced).Controller(t.Context(), testutil.Pod("web-0").Obj()); got != nil {
		t.Errorf("a pod without a controller enqueues %v", got)
	}
}

func TestMemoryIsOfOneObject(t *testing.T) {
	var m memories
	first := freshness.OwnerOf(&metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "1"})
	m.of(first).Own = "something"
	if m.of(first).Own != "something" {
		t.Error("it is not remembered")
	}
	if again := m.of(freshness.OwnerOf(&metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "2"})); again.Own != nil {
		t.Error("an object that was created again remembers the earlier one")
	}
	m.forget(types.NamespacedName{Namespace: "default", Name: "web"})
	if m.known(types.NamespacedName{Namespace: "default", Name: "web"}) != nil {
		t.Error("it is not forgotten")
	}
}

// waits is a queue noting each object's wait.
type waits struct {
	queue
	asked map[string]time.Duration
}

func (w *waits) AddAfter(request reconcile.Request, wait time.Duration) {
	if known, found := w.asked[request.Name]; !found || wait < known {
		w.asked[request.Name] = wait
	}
}

func TestStatusesAreGathered(t *testing.T) {
	const gather = time.Minute
	of := func(version, owners string, generation int64, ready bool) *corev1.Pod {
		pod := podOf(version, owners)
		pod.Generation = generation
		if ready {
			pod.Status.Phase = corev1.PodRunning
		}
		return pod
	}
	cases := map[string]struct {
		before, after *corev1.Pod
		want          map[string]time.Duration
	}{
		"a status":   {of("1", "a", 1, false), of("2", "a", 1, true), map[string]time.Duration{"a": gather}},
		"a spec":     {of("1", "a", 1, false), of("2", "a", 2, true), map[string]time.Duration{"a": 0}},
		"new owners": {of("1", "a", 1, false), of("2", "b", 1, true), map[string]time.Duration{"a": 0, "b": 0}},
		"a resync":   {of("1", "a", 1, false), of("1", "a", 1, false), map[string]time.Duration{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			q := &waits{asked: map[string]time.Duration{}}
			handler := newBase(kinds.Cluster).gathering(ownersInAnnotation, gather)
			handler.Update(t.Context(), event.UpdateEvent{ObjectOld: tc.before, ObjectNew: tc.after}, q)
			if diff := cmp.Diff(tc.want, q.asked); diff != "" {
				t.Errorf("waits (-want +got):\n%s", diff)
			}
			q.asked = map[string]time.Duration{}
			handler.Create(t.Context(), event.CreateEvent{Object: tc.after}, q)
			handler.Delete(t.Context(), event.DeleteEvent{Object: tc.after}, q)
			for owner, wait := range q.asked {
				if wait != 0 {
					t.Errorf("an object that comes or goes enqueues %s after %s", owner, wait)
				}
			}
		})
	}
}

func TestPodsConcernNobodyWhileThereIsNoObject(t *testing.T) {
	b := newBase(kinds.Namespaced)
	own, pods := b.counting(), b.unlessNone()
	object, change := event.CreateEvent{Object: &appsv1beta1.StatefulSet{}}, event.UpdateEvent{ObjectOld: podOf("1", "a"), ObjectNew: podOf("2", "a")}

	var asked []bool
	for _, step := range []func() bool{
		func() bool { return true },
		func() bool { return own.Create(object) },
		func() bool { return own.Create(object) },
		func() bool { return own.Delete(event.DeleteEvent{Object: object.Object}) },
		func() bool { return own.Delete(event.DeleteEvent{Object: object.Object}) },
	} {
		if !step() {
			t.Error("an event of the kind itself is dropped")
		}
		asked = append(asked, pods.Update(change))
	}
	if diff := cmp.Diff([]bool{false, true, true, true, false}, asked); diff != "" {
		t.Errorf("pods are asked about with 0, 1, 2, 1 and 0 objects (-want +got):\n%s", diff)
	}
}
