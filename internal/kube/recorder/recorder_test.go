// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"

	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
	"github.com/kruise-operator/kruise-operator/internal/testutil"
)

// noted counts events with and without a related object.
type noted struct{ related, unrelated int }

func (n *noted) Eventf(_, related runtime.Object, _, _, _, _ string, _ ...any) {
	if related != nil {
		n.related++
	} else {
		n.unrelated++
	}
}

func TestRecorder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := &noted{}
		r := New(next)
		emit := func(times int, set, eventtype string) {
			regarding := testutil.StatefulSet(set).UID(types.UID(set)).Obj()
			for i := range times {
				r.Eventf(regarding, testutil.Pod(fmt.Sprintf("%s-%d", set, i)).Obj(), eventtype, "SuccessfulCreate", "Create", "%s", "done")
			}
		}
		for _, step := range []struct {
			name, set, eventtype string
			times                int
			want                 noted
		}{
			{"the first events of a set", "web", "Normal", objectBurst, noted{related: objectBurst}},
			{"more of it", "web", "Normal", 50, noted{related: objectBurst, unrelated: 50}},
			{"warnings", "web", "Warning", 50, noted{related: objectBurst + 50, unrelated: 50}},
			{"another set", "other", "Normal", 10, noted{related: objectBurst + 60, unrelated: 50}},
		} {
			emit(step.times, step.set, step.eventtype)
			if diff := cmp.Diff(step.want, *next, cmp.AllowUnexported(noted{})); diff != "" {
				t.Errorf("after %s (-want +got):\n%s", step.name, diff)
			}
		}
		*next = noted{}
		for i := range 2 * burst {
			emit(1, fmt.Sprintf("set-%d", i), "Normal")
		}
		if next.related >= burst || next.related+next.unrelated != 2*burst {
			t.Errorf("of the events of %d sets %d go out as they are, and %d in series", 2*burst, next.related, next.unrelated)
		}
	})
}

// A rollout of thousands of pods would send an event for each, as costly as its write.
func TestManyEventsAreFewWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		types, err := scheme.New()
		if err != nil {
			t.Fatal(err)
		}
		client := fake.NewClientset()
		broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
		defer broadcaster.Shutdown()
		if err := broadcaster.StartRecordingToSinkWithContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		r := New(broadcaster.NewRecorder(types, "test"))
		set := testutil.StatefulSet("web").UID("web").Obj()
		for i := range 500 {
			r.Eventf(set, testutil.Pod(fmt.Sprintf("web-%d", i)).Obj(), "Normal", "SuccessfulCreate", "Create", "created pod web-%d", i)
			synctest.Wait()
		}
		writes := 0
		for _, action := range client.Actions() {
			if action.GetResource() == eventsv1.SchemeGroupVersion.WithResource("events") {
				writes++
			}
		}
		if want := objectBurst + 2; writes != want {
			t.Errorf("500 events are %d writes, want %d", writes, want)
		}
	})
}

// A webhook's answer can exceed a note's limit; the server refused such an event, and
// nobody learned of the answer.
func TestALongAnswerIsCutOffInItsEvent(t *testing.T) {
	next := events.NewFakeRecorder(1)
	set := testutil.StatefulSet("web").Obj()
	New(next).Eventf(set, nil, "Warning", "FailedCreate", "Create", "refused: %s", strings.Repeat("\u00e4", 1000))
	note := strings.TrimPrefix(<-next.Events, "Warning FailedCreate ")
	if len(note) > longest || len(note) < longest-3 || !utf8.ValidString(note) || !strings.HasPrefix(note, "refused: ") {
		t.Errorf("the note has %d bytes: %q", len(note), note)
	}
}
