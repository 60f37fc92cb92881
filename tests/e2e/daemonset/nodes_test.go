// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package daemonset_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/scenario"
)

// addNode adds a fifth node until the test ends.
func addNode(t *testing.T) (node string, again func()) {
	t.Helper()
	const added = "node-4"
	again = func() {
		t.Helper()
		if err := env.Nodes.Add(t.Context(), added, nil); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		_ = env.Nodes.Remove(context.WithoutCancel(t.Context()), added) // it may be gone
	})
	again()
	return added, again
}

// empty deletes the set and waits for its pods' end: one on a missing node would keep the
// namespace terminating until pods are collected, for a minute or more.
func (d *daemons) empty() {
	d.t.Helper()
	if err := d.Client.Delete(d.t.Context(), d.set()); err != nil {
		d.t.Fatal(err)
	}
	d.EventuallyWithin(2*time.Minute, "no pod is left", func(ctx context.Context) error {
		pods, err := d.ListPods(ctx)
		if err == nil && len(pods) > 0 {
			err = fmt.Errorf("there are %d pods", len(pods))
		}
		return err
	})
}

// TestNodeIsGoneBeforeItsPodIsBound removes a node while its pod waits to be bound: only
// the operator deletes it.
func TestNodeIsGoneBeforeItsPodIsBound(t *testing.T) {
	node, _ := addNode(t)
	d := start(t, func(set *v1beta1.DaemonSet) { set.Spec.Template.Spec.SchedulerName = "nobody" })
	d.await("every node has a pod", "node-0 node-1 node-2 node-3 node-4", everyPod)
	if err := env.Nodes.Remove(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	d.await("the pod of the node that is gone is deleted", "node-0 node-1 node-2 node-3", everyPod)
	d.awaitDesired(nodes)
}

// TestNodeIsRecreatedInMidRollout removes a node with a failing new pod, adds it again
// under its name, and mends the template: the rollout ends on all nodes.
func TestNodeIsRecreatedInMidRollout(t *testing.T) {
	node, again := addNode(t)
	d := start(t)
	d.settled(nodes + 1)
	d.update(image(scenario.V2), sim(simnode.ReadyDelay, "never"))
	d.rests("the rollout stops at the last node", node, withImage(scenario.V2))
	if err := env.Nodes.Remove(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	d.awaitDesired(nodes)
	again()
	d.update(sim(simnode.ReadyDelay, "0s"))
	d.settled(nodes + 1)
	for _, pod := range d.Pods() {
		if !withImage(scenario.V2)(&pod) {
			t.Errorf("pod %s on %s has image %s", pod.Name, pod.Spec.NodeName, pod.Spec.Containers[0].Image)
		}
	}
	d.empty()
}
