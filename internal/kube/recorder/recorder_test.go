// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	"github.com/kruise-operator/kruise-operator/internal/platform/metrics"
	"github.com/kruise-operator/kruise-operator/internal/testutil"
)

func TestRecorder(t *testing.T) {
	m, err := metrics.New(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	const burst = objectBurst
	next := events.NewFakeRecorder(10 * burst)
	r := New(next, m)
	set := testutil.StatefulSet("web").Obj()
	for range 3 * burst {
		r.Eventf(set, nil, "Normal", "SuccessfulCreate", "Create", "%s", "done")
	}
	if got := len(next.Events); got < burst || got >= 2*burst {
		t.Errorf("%d events at once, want about %d", got, burst)
	}
	other := testutil.StatefulSet("other").UID("other").Obj()
	before := len(next.Events)
	r.Eventf(other, nil, "Normal", "SuccessfulCreate", "Create", "%s", "done")
	if len(next.Events) != before+1 {
		t.Error("the event of another set waits")
	}
	before = len(next.Events)
	r.Eventf(set, nil, "Warning", "FailedCreate", "Create", "%s", "refused")
	if len(next.Events) != before+1 {
		t.Error("a warning waits")
	}

	// The rest follows as one, which names what it stands for.
	r.Eventf(set, testutil.Pod("web-7").Obj(), "Normal", "SuccessfulCreate", "Create", "%s", "done")
	r.Eventf(set, testutil.Pod("web-8").Obj(), "Normal", "SuccessfulDelete", "Delete", "%s", "deleted")
	r.gathering = 0
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- r.Start(ctx) }()
	var last []string
	for len(last) < 2 {
		select {
		case e := <-next.Events:
			if strings.Contains(e, "more") || strings.Contains(e, "deleted") {
				last = append(last, e)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("only %v", last)
		}
	}
	want := []string{"Normal SuccessfulCreate done; the same for 50 more: web-7, ...", "Normal SuccessfulDelete deleted"}
	if diff := cmp.Diff(want, last); diff != "" {
		t.Errorf("gathered events (-want +got):\n%s", diff)
	}
	cancel()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if len(r.gathered)+len(r.order) > 0 {
		t.Errorf("left over: %v", r.order)
	}
}

func TestGroupFitsIntoANote(t *testing.T) {
	for name, tc := range map[string]struct {
		related []runtime.Object
		want    string
	}{
		"one alone":         {nil, "done"},
		"about nothing":     {[]runtime.Object{nil, nil}, "done; and 2 more like it"},
		"about pods":        {[]runtime.Object{testutil.Pod("a").Obj(), testutil.Pod("b").Obj()}, "done; the same for 2 more: a, b"},
		"about pods partly": {[]runtime.Object{testutil.Pod("a").Obj(), nil}, "done; the same for 2 more: a, ..."},
	} {
		g := &group{note: "done"}
		for _, object := range tc.related {
			g.add(object)
		}
		if got := g.text(); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	g := &group{note: strings.Repeat("n", 300)}
	for i := range 1000 {
		g.add(testutil.Pod(fmt.Sprintf("web-%d", i)).Obj())
	}
	if got := g.text(); len(got) > longest || len(got) < longest-100 || !strings.Contains(got, "the same for 1000 more: web-0, web-1, ") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
}

// The answer of a webhook can be longer than a note may be; the server refused such an event, so that nobody learned of the answer.
func TestALongAnswerIsCutOffInItsEvent(t *testing.T) {
	m, err := metrics.New(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	next := events.NewFakeRecorder(1)
	set := testutil.StatefulSet("web").Obj()
	New(next, m).Eventf(set, nil, "Warning", "FailedCreate", "Create", "refused: %s", strings.Repeat("\u00e4", 1000))
	note := strings.TrimPrefix(<-next.Events, "Warning FailedCreate ")
	if len(note) > longest || len(note) < longest-3 || !utf8.ValidString(note) || !strings.HasPrefix(note, "refused: ") {
		t.Errorf("the note has %d bytes: %q", len(note), note)
	}
}

// Each look at all objects takes as long as there are objects: it must not come with each new one while hundreds of sets start.
func TestObjectsAreForgottenInTurns(t *testing.T) {
	m, err := metrics.New(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	r := New(events.NewFakeRecorder(100*burst), m)
	emit := func(uid int) {
		set := testutil.StatefulSet("web").UID(types.UID(fmt.Sprint(uid))).Obj()
		r.Eventf(set, nil, "Normal", "SuccessfulCreate", "Create", "%s", "done")
	}
	next := 0
	for ; next <= remembered; next++ {
		emit(next)
	}
	if len(r.objects) != next || r.sweepAt < 2*remembered {
		t.Errorf("%d of %d objects are remembered, and all are looked at again when there are %d", len(r.objects), next, r.sweepAt)
	}
	for uid := range r.objects {
		r.objects[uid] = rate.NewLimiter(objectPerSecond, objectBurst) // none had an event for long
	}
	for end := r.sweepAt + 1; next < end; next++ {
		emit(next)
	}
	if len(r.objects) > remembered+1 || r.sweepAt > 2*(remembered+1) {
		t.Errorf("%d objects are remembered, and all are looked at again when there are %d", len(r.objects), r.sweepAt)
	}
}

// When a leader stops, or restarts for another configuration, nobody else sends what it has gathered.
func TestWhatIsGatheredIsSentAtTheEnd(t *testing.T) {
	m, err := metrics.New(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	next := events.NewFakeRecorder(10 * burst)
	r := New(next, m)
	for i := range 2*burst + objectBurst {
		set := testutil.StatefulSet(fmt.Sprintf("web-%d", i)).UID(types.UID(fmt.Sprint(i))).Obj()
		r.Eventf(set, nil, "Normal", "SuccessfulCreate", "Create", "%s", "done")
	}
	at, waiting := len(next.Events), len(r.gathered)
	if waiting < burst {
		t.Fatalf("%d groups wait", waiting)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if sent := len(next.Events) - at; sent != burst {
		t.Errorf("%d of %d groups are sent at the end, want %d", sent, waiting, burst)
	}
	counted := &dto.Metric{}
	if err := m.DroppedEvents.Write(counted); err != nil || counted.GetCounter().GetValue() != float64(waiting-burst) {
		t.Errorf("counted as dropped: %v, %v; want %d", counted, err, waiting-burst)
	}
}
