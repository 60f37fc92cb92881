// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package simnode_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
)

// benchmarkPods is how many pods one run of the benchmark takes through their life.
const benchmarkPods = 2000

// BenchmarkLife measures the nodes' writes of pods per second, with the API server on the
// same machine: starting pods that wait on a silent node, and then changing images and
// deleting, in competition with the benchmark's own writes (one for each pod). Run it with
// -benchtime=1x.
func BenchmarkLife(b *testing.B) {
	w := newBareFixture(b, cluster.StartForTest(b, cluster.Options{ControlPlane: cluster.APIServerOnly}).Config(), simnode.Options{})
	for i := range b.N {
		w.live(b, i)
	}
}

func (w *fixture) live(b *testing.B, run int) {
	names := make([]string, benchmarkPods)
	for i := range names {
		names[i] = fmt.Sprintf("pod-%d-%d", run, i)
	}
	pods := w.client.CoreV1().Pods(w.namespace)

	w.setDown(w.node, true)
	w.each(names, func(_ context.Context, name string) error {
		w.create(name, gated("Some"))
		return nil
	})
	w.measure(b, "starts/s", 1, func() { w.setDown(w.node, false) })
	w.measure(b, "image-changes/s", 2, func() {
		w.each(names, func(ctx context.Context, name string) error {
			_, err := pods.Patch(ctx, name, types.StrategicMergePatchType,
				[]byte(`{"spec":{"containers":[{"name":"main","image":"web:2"}]}}`), metav1.PatchOptions{})
			return err
		})
	})
	w.measure(b, "deletions/s", 2, func() {
		w.each(names, func(ctx context.Context, name string) error {
			return pods.Delete(ctx, name, metav1.DeleteOptions{})
		})
	})
	w.until(func() (bool, string) {
		left, err := pods.List(w.Context(), metav1.ListOptions{Limit: 1})
		if err != nil {
			w.Fatalf("listing pods: %v", err)
		}
		return len(left.Items) == 0, "all pods are gone"
	})
}

// measure reports how many writes a second the nodes do from now on until every pod has had its share.
func (w *fixture) measure(b *testing.B, unit string, writesPerPod int64, act func()) {
	target := w.nodes.Writes() + writesPerPod*benchmarkPods
	begin := time.Now()
	act()
	w.until(func() (bool, string) {
		return w.nodes.Writes() >= target, fmt.Sprintf("%s: %d writes missing", unit, target-w.nodes.Writes())
	})
	b.ReportMetric(float64(writesPerPod*benchmarkPods)/time.Since(begin).Seconds(), "write-"+unit)
}

func (w *fixture) each(names []string, do func(context.Context, string) error) {
	w.Helper()
	group, ctx := errgroup.WithContext(w.Context())
	group.SetLimit(32)
	for _, name := range names {
		group.Go(func() error { return do(ctx, name) })
	}
	if err := group.Wait(); err != nil {
		w.Fatalf("%v", err)
	}
}

func (w *fixture) setDown(node string, down bool) {
	w.Helper()
	if err := w.nodes.SetDown(w.Context(), node, down); err != nil {
		w.Fatalf("%v", err)
	}
}
