// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package crash_test

import (
	"context"
	"fmt"
	"math/rand"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	rolloutsv1beta1 "github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/testutil/sample"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/scenario"
)

// releasedPods is the size of each workload.
const releasedPods = 20

// released is a workload at v1.
const released = `
apiVersion: VERSION
kind: KIND
metadata: {name: NAME}
spec:
  replicas: 20
  EXTRA
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: main, image: "` + scenario.V1 + `"}]
`

// batchRelease is its release.
const batchRelease = `
apiVersion: rollouts.kruise.io/v1beta1
kind: BatchRelease
metadata: {name: NAME}
spec:
  workloadRef: {apiVersion: VERSION, kind: KIND, name: NAME}
  releasePlan:
    batches: [{canaryReplicas: 50%}, {canaryReplicas: 100%}]
    batchPartition: 0
    rolloutID: r1
`

// held is a workload whose controller keeps its pods: as the brake of a Rollout leaves it.
type held struct {
	name, kind, extra, hold string
	version                 schema.GroupVersion
}

func (h held) fill(manifest string) string {
	return strings.NewReplacer("VERSION", h.version.String(), "KIND", h.kind, "NAME", h.name, "EXTRA", h.extra).Replace(manifest)
}

// TestBatchReleasesKilledAnywhere kills the operator while batches of three workloads move. No batch gets more pods than it has, and each ends.
func TestBatchReleasesKilledAnywhere(t *testing.T) {
	random := rand.New(rand.NewSource(int64(sample.Day())))
	t.Logf("%s=%d", sample.DayVariable, sample.Day())
	n := env.Namespace(t)
	all := []held{
		{"native", "Deployment", "strategy: {rollingUpdate: {maxSurge: 2, maxUnavailable: 1}}", `"paused":true`, appsv1.SchemeGroupVersion},
		{"ordered", "StatefulSet", "serviceName: web", `"updateStrategy":{"rollingUpdate":{"partition":32767}}`, appsv1.SchemeGroupVersion},
		{"clones", "CloneSet", "minReadySeconds: 0", `"updateStrategy":{"rollingUpdate":{"partition":"100%"}}`, v1beta1.GroupVersion()},
	}
	for _, h := range all {
		n.Apply(h.fill(released))
	}
	for _, h := range all {
		have(n, h.name, 0)
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(h.version.WithKind(h.kind))
		object.SetNamespace(n.Name)
		object.SetName(h.name)
		patch := `{"spec":{` + h.hold + `,"template":{"spec":{"containers":[{"name":"main","image":"` + scenario.V2 + `"}]}}}}`
		if err := n.Client.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			t.Fatal(err)
		}
		n.Apply(h.fill(batchRelease))
	}
	down := killAt(t, n, random, []int{3, 12, 20, 27}, func(ctx context.Context) (int, error) {
		pods, err := n.ListPods(ctx)
		return moved(pods), err
	})
	for _, h := range all {
		ready(n, h.name, 0)
		have(n, h.name, releasedPods/2)
	}
	n.Consistently(3*time.Second, "no batch gets more pods", func(ctx context.Context) error {
		pods, err := n.ListPods(ctx)
		if err == nil && moved(pods) != len(all)*releasedPods/2 {
			err = fmt.Errorf("%d pods are moved", moved(pods))
		}
		return err
	})
	for _, h := range all {
		n.Apply(strings.Replace(h.fill(batchRelease), "batchPartition: 0", "batchPartition: 1", 1))
	}
	down += killAt(t, n, random, []int{35, 45, 55}, func(ctx context.Context) (int, error) {
		pods, err := n.ListPods(ctx)
		return moved(pods), err
	})
	for _, h := range all {
		ready(n, h.name, 1)
		have(n, h.name, releasedPods)
	}
	t.Logf("measured: three workloads of %d pods moved with 7 kills, %.1f s of which the operator was starting", releasedPods, down.Seconds())
}

// ready waits until a batch is ready.
func ready(n *environment.Namespace, name string, batch int32) {
	n.EventuallyWithin(3*time.Minute, fmt.Sprintf("batch %d of %s is ready", batch, name), func(ctx context.Context) error {
		b := &rolloutsv1beta1.BatchRelease{}
		err := n.Client.Get(ctx, types.NamespacedName{Namespace: n.Name, Name: name}, b)
		if s := b.Status.CanaryStatus; err == nil && (s.CurrentBatch != batch || s.CurrentBatchState != rolloutsv1beta1.BatchStateReady) {
			err = fmt.Errorf("the status is %+v", b.Status)
		}
		return err
	})
}

// have waits until so many pods are moved, and all are ready.
func have(n *environment.Namespace, name string, want int) {
	n.EventuallyWithin(3*time.Minute, fmt.Sprintf("%d pods of %s are moved", want, name), func(ctx context.Context) error {
		pods, err := n.ListPods(ctx, "app="+name)
		ready := 0
		for i := range pods {
			if environment.IsReady(&pods[i]) && pods[i].DeletionTimestamp == nil {
				ready++
			}
		}
		if err == nil && (moved(pods) != want || ready != releasedPods || len(pods) != releasedPods) {
			err = fmt.Errorf("%d of %d pods are moved, %d ready", moved(pods), len(pods), ready)
		}
		return err
	})
}
