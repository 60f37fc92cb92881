// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
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

	// The rest follows as the limit allows.
	r.rest.SetLimit(rate.Inf)
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- r.Start(ctx) }()
	got := map[string]int{}
	for range 3*burst + 2 {
		select {
		case e := <-next.Events:
			got[strings.Fields(e)[0]]++
		case <-time.After(20 * time.Second):
			t.Fatalf("only %v events", got)
		}
	}
	if got["Normal"] != 3*burst+1 || got["Warning"] != 1 {
		t.Errorf("events %v", got)
	}
	cancel()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}
