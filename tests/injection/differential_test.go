// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package injection_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
	"github.com/kruise-operator/kruise-operator/internal/testutil/sample"
	"github.com/kruise-operator/kruise-operator/tests/framework/sidecars"
)

var (
	rounds = flag.Int("rounds", sample.Number(500, 1500), "how many pods are compared")
	seed   = flag.Uint64("seed", uint64(sample.Day()), "where the generated pods and SidecarSets begin")
)

// The policy and the injector give the same pod, for one set after the other, in any order, and when the other way has been there before.
func TestPolicyInjectsAsTheReference(t *testing.T) {
	e := compile(t)
	injections := 0
	features, tried, quick := map[string]int{}, map[string]int{}, map[string]int{}
	for round := range *rounds {
		g := rand.New(rand.NewPCG(*seed, uint64(round)))
		sets, pod, namespace := sidecars.World(t, g, "")
		byPolicy, byWebhook := pod, pod
		typed := g.IntN(2) == 0
		for _, at := range append(g.Perm(len(sets)), g.Perm(len(sets))...) {
			if !sets[at].Match.Selects(pod.Labels, namespace.Labels) {
				continue
			}
			compiled, err := sidecar.Compile(sets[at], sets)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range compiled.Variants {
				tried[fmt.Sprintf("pods that an update selects: %t, a share: %t", len(v.When) > 0, v.Percent != nil)]++
				quick[fmt.Sprintf("the same containers in every pod: %t, no other set: %t, no annotations: %t", v.Static, len(compiled.Others) == 0, len(byPolicy.Annotations) == 0)]++
			}
			revision := revisionOf(t, compiled)
			if gaps := compiled.Webhooked(); len(gaps) > 0 {
				features[fmt.Sprint(gaps)]++
				continue
			}
			injected, err := byReference(t, byWebhook, namespace, revision)
			if err != nil {
				t.Fatalf("seed %d, round %d: %v", *seed, round, err)
			}
			byWebhook = injected
			before := byPolicy
			if byPolicy, err = e.apply(t.Context(), byPolicy, namespace, revision, typed); err != nil {
				t.Fatalf("seed %d, round %d: %v\npod %s\nrevision %s", *seed, round, err, text(before), revision.Data.Raw)
			}
			injections++
			compare(t, round, byWebhook, byPolicy, before, revision)
		}
		if t.Failed() {
			return
		}
	}
	if injections < *rounds {
		t.Errorf("only %d injections in %d rounds were compared", injections, *rounds)
	}
	if len(tried) != 4 {
		t.Errorf("of revisions, these were tried: %v", tried)
	}
	if len(quick) != 8 {
		t.Errorf("of what makes an evaluation quick, these were tried: %v", quick)
	}
	t.Logf("%d injections compared in %d rounds; sets left to the webhook: %v", injections, *rounds, features)
}

func compare(t *testing.T, round int, want, got, before *corev1.Pod, revision *appsv1.ControllerRevision) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(corev1.Pod{}, "TypeMeta"), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("seed %d, round %d (-webhook +policy):\n%s\npod %s\nrevision %s", *seed, round, diff, text(before), revision.Data.Raw)
	}
}

func text(value any) string {
	data, _ := json.Marshal(value)
	return string(data)
}
