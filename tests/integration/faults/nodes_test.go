// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package faults_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/faultproxy"
)

// TestNodesUnderFaults lets a DaemonSet start and be updated in place, and a BroadcastJob
// run, on 12 nodes with many faults at once: every node gets one pod of each, no more are
// out of service than allowed, and no node is served twice. tests/chaos covers single
// faults.
func TestNodesUnderFaults(t *testing.T) {
	const nodes, limit = 12, 3
	lane := env.Namespace(t).Name
	for i := range nodes {
		name := fmt.Sprintf("%s-%d", lane, i)
		if err := env.Nodes.Add(t.Context(), name, map[string]string{"faults": lane}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := env.Nodes.Remove(context.WithoutCancel(t.Context()), name); err != nil {
				t.Log(err)
			}
		})
	}
	faults := faultproxy.Faults{
		Refuse: 0.2, Lose: 0.1, Codes: []int{http.StatusConflict, http.StatusTooManyRequests, http.StatusInternalServerError}, WatchDelay: 300 * time.Millisecond,
	}
	daemons, jobs := env.Namespace(t), env.Namespace(t)
	pods, tasks := observe(t, daemons), observe(t, jobs)
	faulty(t, faults)
	daemons.Apply(strings.ReplaceAll(`
apiVersion: apps.kruise.io/v1beta1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      nodeSelector: {faults: LANE}
      containers: [{name: main, image: "example/web:v1"}]
  updateStrategy: {rollingUpdate: {rollingUpdateType: InPlaceIfPossible, maxUnavailable: 25%}}
`, "LANE", lane))
	jobs.Apply(strings.NewReplacer("LANE", lane, "AFTER", simnode.CompleteAfter).Replace(`
apiVersion: apps.kruise.io/v1beta1
kind: BroadcastJob
metadata: {name: scan}
spec:
  parallelism: 5
  template:
    metadata: {annotations: {AFTER: 20ms}}
    spec:
      restartPolicy: Never
      nodeSelector: {faults: LANE}
      containers: [{name: main, image: "example/web:v1"}]
`))
	settledOnNodes(daemons, nodes)
	pods.startCounting()
	set := &v1beta1.DaemonSet{}
	set.Namespace, set.Name = daemons.Name, "agent"
	image := client.RawPatch(types.JSONPatchType, []byte(`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"example/web:v2"}]`))
	if err := daemons.Client.Patch(t.Context(), set, image); err != nil {
		t.Fatal(err)
	}
	settledOnNodes(daemons, nodes)
	jobs.EventuallyWithin(2*time.Minute, "the job has completed", func(ctx context.Context) error {
		job := &v1beta1.BroadcastJob{}
		if err := jobs.Client.Get(ctx, client.ObjectKey{Namespace: jobs.Name, Name: "scan"}, job); err != nil {
			return err
		}
		if job.Status.Phase != v1beta1.BroadcastJobCompleted || job.Status.Succeeded != nodes {
			return fmt.Errorf("the status is %+v", job.Status)
		}
		return nil
	})
	pods.verify(t, nodes, limit)
	tasks.verify(t, nodes, nodes)
	counts := proxy.Counts()
	if counts.Refused == 0 || counts.Lost == 0 {
		t.Errorf("a fault did not happen: %+v", counts)
	}
}

// settledOnNodes waits until the DaemonSet has an available pod of the newest revision on as many nodes.
func settledOnNodes(n *environment.Namespace, nodes int32) {
	n.EventuallyWithin(2*time.Minute, "the daemons are available", func(ctx context.Context) error {
		set := &v1beta1.DaemonSet{}
		if err := n.Client.Get(ctx, client.ObjectKey{Namespace: n.Name, Name: "agent"}, set); err != nil {
			return err
		}
		if s := set.Status; s.ObservedGeneration != set.Generation || s.UpdatedNumberScheduled != nodes || s.NumberAvailable != nodes {
			return fmt.Errorf("the status is %+v", s)
		}
		return nil
	})
}
