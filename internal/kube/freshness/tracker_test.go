// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package freshness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kruise-operator/kruise-operator/internal/testutil"
)

// store is a cache at a version.
type store string

func (s *store) LastStoreSyncResourceVersion() string { return string(*s) }

type fixture struct {
	*Tracker
	clock *clocktesting.FakePassiveClock
	store store
	// liveErr fails live reads.
	liveErr error
	reads   int
}

func pods() schema.GroupVersionKind { return corev1.SchemeGroupVersion.WithKind("Pod") }

func web() Owner {
	return Owner{NamespacedName: types.NamespacedName{Namespace: testutil.Namespace, Name: "web"}, UID: "set"}
}

func newFixture(live ...client.Object) *fixture {
	f := &fixture{clock: clocktesting.NewFakePassiveClock(time.Unix(1e9, 0)), store: "10"}
	reader := interceptor.NewClient(fake.NewClientBuilder().WithObjects(live...).Build(), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
			f.reads++
			if f.liveErr != nil {
				return f.liveErr
			}
			return c.Get(ctx, key, object, opts...)
		},
	})
	kept := map[types.UID]*Record{}
	look := func(ctx context.Context, kind schema.GroupVersionKind, key types.NamespacedName) (*metav1.PartialObjectMetadata, error) {
		found := &metav1.PartialObjectMetadata{}
		found.SetGroupVersionKind(kind)
		if err := reader.Get(ctx, key, found); err != nil {
			return nil, err
		}
		return found, nil
	}
	f.Tracker = New(look, f.clock, func(o Owner) *Record {
		if kept[o.UID] == nil {
			kept[o.UID] = &Record{}
		}
		return kept[o.UID]
	})
	f.Watch(pods(), &f.store)
	f.Deleted(web(), pods(), slices.Values([]metav1.Object{})) // as an observer of pods does
	return f
}

func (f *fixture) ready(t *testing.T, o Owner) bool {
	t.Helper()
	wait, err := f.Ready(t.Context(), o)
	if err != nil && wait == 0 {
		t.Errorf("Ready says to go ahead and fails: %v", err)
	}
	return wait == 0
}

// isDeleted is true if the view's only pod counts as deleted.
func (f *fixture) isDeleted(pod *corev1.Pod) bool {
	return f.Deleted(web(), pods(), slices.Values([]metav1.Object{pod})).Has(pod.UID)
}

func TestReadyWaitsForTheHighestWrite(t *testing.T) {
	f := newFixture()
	f.Wrote(web(), pods(), "12")
	f.Wrote(web(), pods(), "11")
	for _, tc := range []struct {
		store store
		want  bool
	}{{"", false}, {"9", false}, {"11", false}, {"12", true}} {
		f.store = tc.store
		if got := f.ready(t, web()); got != tc.want {
			t.Errorf("ready at %q: %v, want %v", tc.store, got, tc.want)
		}
	}
	f.store = "3"
	if !f.ready(t, web()) {
		t.Error("a write that was seen is waited for again")
	}
}

func TestReadyWaitsForNoOtherOwner(t *testing.T) {
	f := newFixture()
	f.Wrote(web(), pods(), "99")
	other := Owner{NamespacedName: types.NamespacedName{Namespace: testutil.Namespace, Name: "api"}, UID: "other"}
	if !f.ready(t, other) {
		t.Error("an owner waits for another one's write")
	}
	again := web()
	again.UID = "recreated"
	if !f.ready(t, again) {
		t.Error("a set created again waits for its predecessor's write")
	}
}

func TestReadyDoesNotWaitForKindsWithoutACache(t *testing.T) {
	f := newFixture()
	f.Wrote(web(), corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"), "99")
	if !f.ready(t, web()) {
		t.Error("waits for a kind that nothing watches")
	}
}

func TestReadyGivesUpAfterTheRecordTimeout(t *testing.T) {
	f := newFixture()
	f.Wrote(web(), pods(), "99")
	f.clock.SetTime(f.clock.Now().Add(recordTimeout))
	if f.ready(t, web()) {
		t.Fatal("gave up too early")
	}
	f.clock.SetTime(f.clock.Now().Add(time.Second))
	if !f.ready(t, web()) {
		t.Error("blocks for ever")
	}
}

func TestReadyBacksOffAndStartsOver(t *testing.T) {
	f := newFixture()
	f.Wrote(web(), pods(), "99")
	var waits []time.Duration
	for range 8 {
		wait, _ := f.Ready(t.Context(), web())
		waits = append(waits, wait)
	}
	if waits[0] != shortestWait || waits[1] != 2*shortestWait || waits[7] != longestWait {
		t.Errorf("waits %v, want them to double from %v to %v", waits, shortestWait, longestWait)
	}
	f.store = "99"
	f.ready(t, web())
	f.store = "10"
	f.Wrote(web(), pods(), "100")
	if wait, _ := f.Ready(t.Context(), web()); wait != shortestWait {
		t.Errorf("the wait after a success is %v, want %v", wait, shortestWait)
	}
}

func TestReadyResolvesDoubts(t *testing.T) {
	set := testutil.StatefulSet("web").UID("set").Obj()
	pod := func(uid types.UID, resourceVersion string) *corev1.Pod {
		p := testutil.Pod("web-0").UID(uid).ControlledBy(set).Obj()
		p.ResourceVersion = resourceVersion
		return p
	}
	cases := map[string]struct {
		live []client.Object
		op   Op
		ref  Ref
		// wantWait says that a resourceVersion has to be waited for afterwards; wantDeleted that the pod counts as deleted.
		wantWait, wantDeleted bool
	}{
		"a create that was not applied":          {op: Create, ref: Ref{Name: "web-0"}},
		"a create that was applied":              {live: []client.Object{pod("a", "50")}, op: Create, ref: Ref{Name: "web-0"}, wantWait: true},
		"a patch that was not applied":           {live: []client.Object{pod("a", "9")}, op: Patch, ref: Ref{Name: "web-0", UID: "a", ResourceVersion: "9"}},
		"a patch that was applied":               {live: []client.Object{pod("a", "50")}, op: Patch, ref: Ref{Name: "web-0", UID: "a", ResourceVersion: "9"}, wantWait: true},
		"a patch of a pod that is gone":          {op: Patch, ref: Ref{Name: "web-0", UID: "a", ResourceVersion: "9"}},
		"a delete that was not applied":          {live: []client.Object{pod("a", "9")}, op: Delete, ref: Ref{Name: "web-0", UID: "a", ResourceVersion: "9"}},
		"a delete after which the pod is gone":   {op: Delete, ref: Ref{Name: "web-0", UID: "a"}, wantDeleted: true},
		"a delete after which another pod lives": {live: []client.Object{pod("b", "50")}, op: Delete, ref: Ref{Name: "web-0", UID: "a"}, wantDeleted: true},
		"a delete after which the pod is terminating": {
			live: []client.Object{func() client.Object {
				p := pod("a", "50")
				p.Finalizers = []string{"example.io/hold"}
				p.DeletionTimestamp = testutil.StatefulSet("x").Deleting(time.Unix(1e9, 0)).Obj().DeletionTimestamp
				return p
			}()},
			op: Delete, ref: Ref{Name: "web-0", UID: "a"}, wantWait: true, wantDeleted: true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(tc.live...)
			tc.ref.Kind, tc.ref.Namespace = pods(), testutil.Namespace
			if tc.op == Delete {
				f.Deleting(web(), tc.ref)
			}
			f.Answered(web(), tc.ref, tc.op, "", io.ErrUnexpectedEOF)

			f.liveErr = errors.New("no route to host")
			if f.ready(t, web()) {
				t.Fatal("planned while a write is in doubt and cannot be looked up")
			}
			f.liveErr = nil
			if got := !f.ready(t, web()); got != tc.wantWait {
				t.Errorf("waits: %v, want %v", got, tc.wantWait)
			}
			whole := []*corev1.Pod{pod("a", "9")}
			if got := f.isDeleted(whole[0]); got != tc.wantDeleted {
				t.Errorf("deleted: %v, want %v", got, tc.wantDeleted)
			}
			reads := f.reads
			f.ready(t, web())
			if f.reads != reads {
				t.Error("a doubt that is settled is looked up again")
			}
			f.store = "50"
			if !f.ready(t, web()) {
				t.Error("not ready although the cache has caught up")
			}
		})
	}
}

func TestReadyGivesUpADoubtThatCannotBeLookedUp(t *testing.T) {
	f := newFixture()
	f.liveErr = apierrors.NewForbidden(schema.GroupResource{}, "web-0", nil)
	f.Answered(web(), Ref{Kind: pods(), Namespace: testutil.Namespace, Name: "web-0"}, Create, "", io.ErrUnexpectedEOF)
	if f.ready(t, web()) {
		t.Fatal("gave up too early")
	}
	f.clock.SetTime(f.clock.Now().Add(recordTimeout + time.Second))
	if !f.ready(t, web()) {
		t.Error("blocks for ever")
	}
}

func TestDeleted(t *testing.T) {
	pod := testutil.Pod("web-0").UID("a").Obj()
	ref := Ref{Kind: pods(), Namespace: testutil.Namespace, Name: "web-0", UID: "a"}

	t.Run("until the cache shows it", func(t *testing.T) {
		f := newFixture()
		f.Deleting(web(), ref)
		if !f.isDeleted(pod) {
			t.Error("a pod that was deleted does not count as deleted")
		}
		f.Deleted(web(), pods(), slices.Values([]metav1.Object{}))
		if f.isDeleted(pod) {
			t.Error("remembered although the cache had dropped the pod")
		}
	})
	t.Run("not after the deletion was refused", func(t *testing.T) {
		f := newFixture()
		f.Deleting(web(), ref)
		f.Answered(web(), ref, Delete, "", apierrors.NewConflict(schema.GroupResource{}, "web-0", nil))
		if f.isDeleted(pod) {
			t.Error("a pod whose deletion was refused counts as deleted")
		}
	})
	t.Run("not when it turns out to be alive", func(t *testing.T) {
		f := newFixture(testutil.Pod("web-0").UID("a").Obj())
		f.Deleting(web(), ref)
		f.ready(t, web())
		if f.reads != 0 {
			t.Error("looked up at once")
		}
		f.clock.SetTime(f.clock.Now().Add(lookAgain))
		f.ready(t, web())
		if f.isDeleted(pod) {
			t.Error("a pod that lives counts as deleted for ever")
		}
	})
}

// A deleted object nobody observes is neither remembered nor looked up.
func TestDeletionsThatNobodyAsksAboutAreForgotten(t *testing.T) {
	f := newFixture()
	f.Deleting(web(), Ref{Kind: corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"), Namespace: testutil.Namespace, Name: "data-web-0", UID: "c"})
	f.clock.SetTime(f.clock.Now().Add(lookAgain))
	if !f.ready(t, web()) || f.reads != 0 || len(f.records(web()).deleted) != 0 {
		t.Errorf("%d live reads, or it is remembered", f.reads)
	}
}

func TestDeletedKeepsKindsApart(t *testing.T) {
	pod := testutil.Pod("web-0").UID("a").Obj()
	f := newFixture()
	f.Deleting(web(), RefOf(pods(), pod))
	f.Deleted(web(), corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"), slices.Values([]metav1.Object{}))
	if !f.isDeleted(pod) {
		t.Error("a look at another kind forgot the deleted pod")
	}
}

// A cluster-scoped owner writes to objects of one name in several namespaces.
func TestDoubtsAreLookedUpInTheNamespaceOfTheObject(t *testing.T) {
	f := newFixture(testutil.Pod("web-0").Namespace("there").UID("b").Obj())
	cluster := Owner{NamespacedName: types.NamespacedName{Name: "sidecars"}, UID: "sidecars"}
	f.Answered(cluster, Ref{Kind: pods(), Namespace: "here", Name: "web-0"}, Create, "", io.ErrUnexpectedEOF)
	if !f.ready(t, cluster) {
		t.Error("waits for a pod that was not created here: one of its name there was taken for it")
	}
	f.Answered(cluster, Ref{Kind: pods(), Namespace: "here", Name: "web-0"}, Create, "", io.ErrUnexpectedEOF)
	f.Answered(cluster, Ref{Kind: pods(), Namespace: "there", Name: "web-0"}, Apply, "", io.ErrUnexpectedEOF)
	if f.store = "10"; f.ready(t, cluster) {
		t.Error("does not wait for the pod that was applied there")
	}
	if f.reads != 3 {
		t.Errorf("%d live reads, want one for each doubt", f.reads)
	}
}

func TestRecordsAreTheOwners(t *testing.T) {
	records := map[types.UID]*Record{"set": {}, "other": {}}
	f := newFixture()
	f.records = func(o Owner) *Record { return records[o.UID] }
	f.Wrote(web(), pods(), "99")
	if !f.ready(t, Owner{UID: "other"}) {
		t.Error("waits for the write of another owner")
	}
	if f.ready(t, web()) {
		t.Error("does not wait for its own write")
	}
	records["set"] = &Record{}
	if !f.ready(t, web()) {
		t.Error("an owner that was forgotten waits")
	}
}

func TestJudge(t *testing.T) {
	gr := schema.GroupResource{Resource: "pods"}
	cases := map[string]struct {
		err  error
		want Outcome
	}{
		"no error":              {nil, Done},
		"conflict":              {fmt.Errorf("patching: %w", apierrors.NewConflict(gr, "a", nil)), Refused},
		"not found":             {apierrors.NewNotFound(gr, "a"), Refused},
		"already exists":        {apierrors.NewAlreadyExists(gr, "a"), Refused},
		"forbidden":             {apierrors.NewForbidden(gr, "a", nil), Refused},
		"invalid":               {apierrors.NewInvalid(schema.GroupKind{}, "a", nil), Refused},
		"too many requests":     {apierrors.NewTooManyRequests("slow down", 1), Refused},
		"internal error":        {apierrors.NewInternalError(errors.New("webhook")), InDoubt},
		"timeout of the server": {apierrors.NewServerTimeout(gr, "create", 1), InDoubt},
		"gateway timeout":       {apierrors.NewTimeoutError("timeout", 1), InDoubt},
		"deadline":              {context.DeadlineExceeded, InDoubt},
		"connection lost":       {io.ErrUnexpectedEOF, InDoubt},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Judge(tc.err); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}
