// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package traffic_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/testutil/sample"
)

// A release by weights and by a header, to its end and back in the middle of the next one.
func TestARelease(t *testing.T) {
	for name, c := range map[string]struct {
		extra         bool
		replicas      int
		host, routing string
		steps         string
	}{
		"beside": {
			extra: true, replicas: 3, routing: byRoute,
			steps: `[{replicas: 1, traffic: 20%}, {replicas: 1, matches: [{headers: [{name: x-user, value: tester}]}]}, {replicas: 100%, traffic: 50%}, {replicas: 100%, traffic: 100%}]`,
		},
		"in place": {
			replicas: 4, routing: byRoute,
			steps: `[{replicas: 1, traffic: 20%}, {replicas: 1, matches: [{headers: [{name: x-user, value: tester}]}]}, {replicas: 50%, traffic: 50%}, {replicas: 100%}]`,
		},
		"nginx": {
			extra: true, replicas: 3, host: "nginx.", routing: byIngress,
			steps: `[{replicas: 1, traffic: 20%}, {replicas: 1, matches: [{headers: [{name: x-user, value: tester}]}]}, {replicas: 100%, traffic: 50%}, {replicas: 100%, traffic: 100%}]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := open(t, c.replicas, c.host)
			r.rolls(c.extra, c.routing, c.steps)
			began := time.Now()
			r.image("v2")
			r.waits(1)
			r.share("v2", 20)
			r.approve()
			r.waits(2)
			r.all("x-user: tester", "v2")
			r.all("", "v1")
			r.approve()
			r.waits(3)
			r.share("v2", 50)
			r.approve()
			r.rests("v2")
			t.Logf("measured: the release took %s", time.Since(began).Round(time.Second))

			r.image("v3")
			r.waits(1)
			r.share("v3", 20)
			r.image("v2")
			r.rests("v2")
		})
	}
}

// Releases that are given up at any moment, in each way.
func TestAnAbort(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("ABORT_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("ABORT_SEED=%d repeats these moments", seed)
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // moments, not secrets
	const longest = 25 * time.Second
	r := open(t, 3, "")
	old, fresh := "v1", "v2"
	for i := range sample.Number(3, 20) {
		way := []string{"template", "delete", "disable"}[i%3]
		extra, after := random.IntN(2) == 0, time.Duration(random.Int64N(int64(longest)))
		what := fmt.Sprintf("abort %d: by %s, %s after the change; beside: %t", i+1, way, after.Round(time.Millisecond), extra)
		t.Log(what)
		r.rolls(extra, byRoute, `[{replicas: 1, traffic: 20%, pause: {duration: 2}}, {replicas: 1, matches: [{headers: [{name: x-user, value: tester}]}], pause: {duration: 2}}, {replicas: 1, traffic: 50%, pause: {duration: 2}}, {replicas: 100%}]`)
		r.image(fresh)
		time.Sleep(after)
		switch way {
		case "template":
			r.image(old)
			old, fresh = fresh, old
		case "delete":
			r.ends()
		case "disable":
			r.patch(&v1beta1.Rollout{}, `{"spec":{"disabled":true}}`)
		}
		r.rests(fresh)
		old, fresh = fresh, old
		r.ends()
		if t.Failed() {
			t.Fatalf("after %s", what)
		}
	}
}
