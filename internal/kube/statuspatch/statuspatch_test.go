// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package statuspatch

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
	"github.com/kruise-operator/kruise-operator/internal/kube/writer"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
	"github.com/kruise-operator/kruise-operator/internal/testutil"
)

type fixture struct {
	*Writer
	server *testutil.Client
	clock  *clocktesting.FakePassiveClock
	last   State
	store  string
}

func (f *fixture) LastStoreSyncResourceVersion() string { return f.store }

func newFixture(t *testing.T) *fixture {
	t.Helper()
	types, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	set := testutil.StatefulSet("web").UID("set").Obj()
	f := &fixture{
		server: testutil.NewClient(types, []client.Object{&appsv1beta1.StatefulSet{}}, set),
		clock:  clocktesting.NewFakePassiveClock(time.Unix(1e9, 0)),
	}
	record := &freshness.Record{}
	tracker := freshness.New((&writer.Writer{Live: f.server}).Look, f.clock, func(freshness.Owner) *freshness.Record { return record })
	tracker.Watch(appsv1beta1.GroupVersion().WithKind("StatefulSet"), f)
	f.Writer = &Writer{Writer: &writer.Writer{Client: f.server, Live: f.server, Tracker: tracker}, Clock: f.clock, Interval: time.Second}
	return f
}

func (f *fixture) stored(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	stored := &unstructured.Unstructured{}
	stored.SetGroupVersionKind(appsv1beta1.GroupVersion().WithKind("StatefulSet"))
	if err := f.server.Get(t.Context(), client.ObjectKey{Namespace: testutil.Namespace, Name: "web"}, stored); err != nil {
		t.Fatal(err)
	}
	return stored
}

func (f *fixture) status(t *testing.T) appsv1beta1.StatefulSetStatus {
	t.Helper()
	set := &appsv1beta1.StatefulSet{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(f.stored(t).Object, set); err != nil {
		t.Fatal(err)
	}
	return set.Status
}

func TestWriteOnlyWhatChanged(t *testing.T) {
	f := newFixture(t)
	want := appsv1beta1.StatefulSetStatus{
		Replicas: 3, ReadyReplicas: 2, CurrentRevision: "web-1",
		VolumeClaims: []appsv1beta1.VolumeClaimStatus{{VolumeClaimName: "data", CompatibleReplicas: 2}},
	}
	for range 2 {
		if wait, err := f.Write(t.Context(), &f.last, f.stored(t), want, true); wait != 0 || err != nil {
			t.Fatalf("wait %v, error %v", wait, err)
		}
	}
	if diff := cmp.Diff(want, f.status(t)); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if got := len(f.server.Writes()); got != 1 {
		t.Errorf("%d writes, want 1", got)
	}

	// A field dropped from the status is dropped from the stored one.
	want.VolumeClaims, want.CurrentRevision = nil, ""
	if _, err := f.Write(t.Context(), &f.last, f.stored(t), want, true); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, f.status(t)); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

func TestWriteCountersAtMostOnceASecond(t *testing.T) {
	f := newFixture(t)
	status := appsv1beta1.StatefulSetStatus{}
	var waits []time.Duration
	for i := range 20 {
		status.ReadyReplicas = int32(i + 1)
		wait, err := f.Write(t.Context(), &f.last, f.stored(t), status, false)
		if err != nil {
			t.Fatal(err)
		}
		waits = append(waits, wait)
		f.clock.SetTime(f.clock.Now().Add(100 * time.Millisecond))
	}
	if got := len(f.server.Writes()); got != 2 {
		t.Errorf("%d writes in two seconds, want 2", got)
	}
	if waits[0] != 0 || waits[1] != 900*time.Millisecond {
		t.Errorf("waits %v", waits)
	}
	// Whoever comes back after the wait writes the final state.
	f.clock.SetTime(f.clock.Now().Add(waits[len(waits)-1]))
	if wait, err := f.Write(t.Context(), &f.last, f.stored(t), status, false); wait != 0 || err != nil {
		t.Errorf("wait %v, error %v", wait, err)
	}
	if got := f.status(t).ReadyReplicas; got != 20 {
		t.Errorf("readyReplicas %d, want 20", got)
	}
}

func TestWriteUrgentChangesAtOnce(t *testing.T) {
	f := newFixture(t)
	for i := range 3 {
		if wait, err := f.Write(t.Context(), &f.last, f.stored(t), appsv1beta1.StatefulSetStatus{ReadyReplicas: int32(i + 1)}, true); wait != 0 || err != nil {
			t.Fatalf("wait %v, error %v", wait, err)
		}
	}
	if got := f.status(t).ReadyReplicas; got != 3 {
		t.Errorf("readyReplicas %d, want 3", got)
	}
}

func TestMoreThanCountersAndMessagesIsWrittenAtOnce(t *testing.T) {
	condition := func(status corev1.ConditionStatus, reason, message string) appsv1.StatefulSetCondition {
		return appsv1.StatefulSetCondition{Type: "Stalled", Status: status, Reason: reason, Message: message}
	}
	before := appsv1beta1.StatefulSetStatus{
		ObservedGeneration: 1, ReadyReplicas: 1, UpdateRevision: "web-1", Conditions: []appsv1.StatefulSetCondition{condition("True", "Refused", "once")},
	}
	for name, tc := range map[string]struct {
		change func(*appsv1beta1.StatefulSetStatus)
		atOnce bool
	}{
		"a counter": {change: func(s *appsv1beta1.StatefulSetStatus) { s.ReadyReplicas = 2 }},
		"a list": {change: func(s *appsv1beta1.StatefulSetStatus) {
			s.VolumeClaims = []appsv1beta1.VolumeClaimStatus{{VolumeClaimName: "data"}}
		}},
		"a message":              {change: func(s *appsv1beta1.StatefulSetStatus) { s.Conditions[0] = condition("True", "Refused", "twice") }},
		"the generation":         {change: func(s *appsv1beta1.StatefulSetStatus) { s.ObservedGeneration = 2 }, atOnce: true},
		"a revision":             {change: func(s *appsv1beta1.StatefulSetStatus) { s.UpdateRevision = "web-2" }, atOnce: true},
		"a word that goes":       {change: func(s *appsv1beta1.StatefulSetStatus) { s.UpdateRevision = "" }, atOnce: true},
		"a word that comes":      {change: func(s *appsv1beta1.StatefulSetStatus) { s.CurrentRevision = "web-1" }, atOnce: true},
		"a reason":               {change: func(s *appsv1beta1.StatefulSetStatus) { s.Conditions[0] = condition("True", "Denied", "once") }, atOnce: true},
		"a condition's status":   {change: func(s *appsv1beta1.StatefulSetStatus) { s.Conditions[0] = condition("False", "Refused", "once") }, atOnce: true},
		"the conditions that go": {change: func(s *appsv1beta1.StatefulSetStatus) { s.Conditions = nil }, atOnce: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			if _, err := f.Write(t.Context(), &f.last, f.stored(t), before, false); err != nil {
				t.Fatal(err)
			}
			after := *before.DeepCopy()
			tc.change(&after)
			wait, err := f.Write(t.Context(), &f.last, f.stored(t), after, false)
			if err != nil || (wait == 0) != tc.atOnce {
				t.Errorf("wait %v, error %v", wait, err)
			}
		})
	}
}

func TestWriteYieldsToOthers(t *testing.T) {
	f := newFixture(t)
	stale := f.stored(t)
	changed := stale.DeepCopy()
	changed.SetAnnotations(map[string]string{"note": "by somebody else"})
	if err := f.server.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	wait, err := f.Write(t.Context(), &f.last, stale, appsv1beta1.StatefulSetStatus{Replicas: 7}, true)
	if err != nil || wait != time.Second {
		t.Errorf("wait %v, error %v; want another try and no error", wait, err)
	}
	if got := f.status(t).Replicas; got != 0 {
		t.Errorf("replicas %d: an older view won", got)
	}
}

func TestWriteTellsTheTracker(t *testing.T) {
	cases := map[string]struct {
		after     error
		wantError bool
	}{
		"written":  {nil, false},
		"in doubt": {io.ErrUnexpectedEOF, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.store = f.stored(t).GetResourceVersion()
			f.server.SetFault(func(_ context.Context, _ testutil.Write, forward func() error) error {
				return errors.Join(forward(), tc.after)
			})
			_, err := f.Write(t.Context(), &f.last, f.stored(t), appsv1beta1.StatefulSetStatus{Replicas: 1}, true)
			if (err != nil) != tc.wantError {
				t.Errorf("error %v", err)
			}
			owner := freshness.OwnerOf(f.stored(t))
			if wait, err := f.Writer.Writer.Tracker.Ready(t.Context(), owner); wait == 0 || err != nil {
				t.Errorf("wait %v, error %v; want to wait for the own status", wait, err)
			}
			f.store = f.stored(t).GetResourceVersion()
			if wait, err := f.Writer.Writer.Tracker.Ready(t.Context(), owner); wait != 0 || err != nil {
				t.Errorf("wait %v, error %v; want to go on", wait, err)
			}
		})
	}
}

func TestADeletedObjectThatTheCacheStillShowsCountsAsGoneForAWhile(t *testing.T) {
	f := newFixture(t)
	shown := f.stored(t)
	if err := f.server.Delete(t.Context(), f.stored(t)); err != nil {
		t.Fatal(err)
	}
	if gone := f.last.Gone(f.clock.Now()); gone != 0 {
		t.Errorf("before anything is known it counts as gone for %s", gone)
	}
	wait, err := f.Write(t.Context(), &f.last, shown, appsv1beta1.StatefulSetStatus{Replicas: 1}, true)
	if err != nil || wait != goneFor {
		t.Errorf("wait %s, error %v", wait, err)
	}
	if gone := f.last.Gone(f.clock.Now()); gone != goneFor {
		t.Errorf("it counts as gone for %s, want %s", gone, goneFor)
	}
	f.clock.SetTime(f.clock.Now().Add(goneFor))
	if gone := f.last.Gone(f.clock.Now()); gone != 0 {
		t.Errorf("after that it counts as gone for %s: a server that was wrong is never asked again", gone)
	}
}
