// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package crash_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/internal/testutil/sample"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/limits"
	"github.com/kruise-operator/kruise-operator/tests/framework/scenario"
)

// TestKilledAnywhere kills the operator again and again while 50 pods are updated in place, 2 at a time. The limits hold, every pod keeps its
// identity and restarts exactly once, and the end is the same as without.
func TestKilledAnywhere(t *testing.T) {
	const replicas = 50
	kills := sample.Number(4, 20)
	seed := int64(sample.Day())
	t.Logf("%s=%d", sample.DayVariable, seed)
	random := rand.New(rand.NewSource(seed))

	// Kills are spread over the rollout by counting pods, not by the clock: with a slow machine they would all come early.
	s := scenario.Start(t, env, replicas, limits.Rules{}, scenario.MaxUnavailable("2"), scenario.Sim(simnode.RestartDelay, "20ms"))
	s.Done()
	before := s.Identities()
	began := time.Now()
	s.Update(scenario.Image(scenario.V2))
	down := killAt(t, s.Namespace, random, random.Perm(replicas - 1)[:kills], func(ctx context.Context) (int, error) {
		pods, err := s.ListPods(ctx)
		return moved(pods), err
	})
	set := s.Done()
	s.Kept(before, 1)
	t.Logf("measured: 50 pods updated with %d kills in %.1f s, %.1f s of which the operator was starting", kills, time.Since(began).Seconds(), down.Seconds())
	s.Eventually("the revisions are one", func(context.Context) error {
		if set = s.Set(); set.Status.CurrentRevision != set.Status.UpdateRevision || set.Status.CurrentReplicas != replicas {
			return fmt.Errorf("the status is %+v", set.Status)
		}
		return nil
	})
	for o, p := range s.ByOrdinal() {
		checkRested(t, o, &p, set.Status.UpdateRevision)
	}
	if verdict := s.Limits.Verify(); verdict.Taken != replicas || verdict.Peak > 2 {
		t.Errorf("%d pods were taken out of service, at most %d at once; want %d and at most 2", verdict.Taken, verdict.Peak, replicas)
	}
}

// checkRested fails the test when something of the update is left on a pod.
func checkRested(t *testing.T, ordinal int, p *corev1.Pod, revision string) {
	t.Helper()
	if !scenario.GateOpen(p) || !environment.IsReady(p) || p.Labels["controller-revision-hash"] != revision || p.Labels["lifecycle.apps.kruise.io/state"] != "Normal" {
		t.Errorf("pod %d has labels %v and conditions %+v", ordinal, p.Labels, p.Status.Conditions)
	}
	if _, pending := p.Annotations["apps.kruise.io/inplace-update-grace"]; pending {
		t.Errorf("pod %d has annotations %v", ordinal, slices.Sorted(maps.Keys(p.Annotations)))
	}
}
