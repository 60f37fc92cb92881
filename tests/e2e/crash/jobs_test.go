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

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
)

// TestBroadcastJobKilledAnywhere kills the operator while a job runs over 30 nodes, 3 at a time. Every node is served exactly once.
func TestBroadcastJobKilledAnywhere(t *testing.T) {
	const nodes, killed = 30, 8
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewSource(seed))
	n := env.Namespace(t)
	ownNodes(t, n, nodes)
	n.Apply(strings.NewReplacer("NODES", n.Name, "AFTER", simnode.CompleteAfter).Replace(`
apiVersion: apps.kruise.io/v1beta1
kind: BroadcastJob
metadata: {name: scan}
spec:
  parallelism: 3
  template:
    metadata: {annotations: {AFTER: 100ms}}
    spec:
      restartPolicy: Never
      nodeSelector: {crash: NODES}
      containers: [{name: main, image: "example/web:v1"}]
`))
	served := map[string]map[types.UID]bool{} // by node
	look := func(ctx context.Context) (int, error) {
		pods, err := n.ListPods(ctx)
		if err != nil {
			return 0, err
		}
		active := 0
		for i := range pods {
			pod := &pods[i]
			if pod.Status.Phase == corev1.PodPending || pod.Status.Phase == corev1.PodRunning {
				active++
			}
			if pod.Spec.NodeName == "" {
				continue
			}
			if served[pod.Spec.NodeName] == nil {
				served[pod.Spec.NodeName] = map[types.UID]bool{}
			}
			served[pod.Spec.NodeName][pod.UID] = true
		}
		if active > 3 {
			t.Errorf("%d pods are at work, allowed are 3", active)
		}
		return len(served), nil
	}
	killAt(t, n, random, random.Perm(nodes - 2)[:killed], look)
	n.EventuallyWithin(2*time.Minute, "the job has completed", func(ctx context.Context) error {
		if _, err := look(ctx); err != nil {
			return err
		}
		job := &v1beta1.BroadcastJob{}
		if err := n.Client.Get(ctx, client.ObjectKey{Namespace: n.Name, Name: "scan"}, job); err != nil {
			return err
		}
		if job.Status.Phase != v1beta1.BroadcastJobCompleted || job.Status.Succeeded != nodes {
			return fmt.Errorf("the status is %+v", job.Status)
		}
		return nil
	})
	if len(served) != nodes {
		t.Errorf("%d nodes were served, want %d", len(served), nodes)
	}
	for node, pods := range served {
		if len(pods) != 1 {
			t.Errorf("node %s was served %d times", node, len(pods))
		}
	}
}

// TestCronJobKilledAnywhere kills the operator again and again while an AdvancedCronJob starts a run each second, whose history is cut at
// once. No instant is started twice, and the schedule goes on.
func TestCronJobKilledAnywhere(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewSource(seed))
	n := env.Namespace(t)
	n.Apply(strings.NewReplacer("AFTER", simnode.CompleteAfter).Replace(`
apiVersion: apps.kruise.io/v1beta1
kind: AdvancedCronJob
metadata: {name: tick}
spec:
  schedule: "@every 1s"
  successfulJobsHistoryLimit: 0
  template:
    jobTemplate:
      spec:
        template:
          metadata: {annotations: {AFTER: "0s"}}
          spec:
            restartPolicy: Never
            containers: [{name: main, image: "example/web:v1"}]
`))
	runs := map[string]map[types.UID]bool{} // by the time for which they were started
	look := func(ctx context.Context) (int, error) {
		jobs := &batchv1.JobList{}
		if err := n.Client.List(ctx, jobs, client.InNamespace(n.Name)); err != nil {
			return 0, err
		}
		for i := range jobs.Items {
			at := jobs.Items[i].Annotations["apps.kruise.io/scheduled-at"]
			if runs[at] == nil {
				runs[at] = map[types.UID]bool{}
			}
			runs[at][jobs.Items[i].UID] = true
		}
		return len(runs), nil
	}
	killAt(t, n, random, []int{1, 3, 5, 7, 9}, look)
	n.EventuallyWithin(time.Minute, "the schedule goes on", func(ctx context.Context) error {
		count, err := look(ctx)
		if err == nil && count < 12 {
			err = fmt.Errorf("%d runs were seen", count)
		}
		return err
	})
	for at, uids := range runs {
		if len(uids) != 1 {
			t.Errorf("the run of %s was started %d times", at, len(uids))
		}
	}
}
