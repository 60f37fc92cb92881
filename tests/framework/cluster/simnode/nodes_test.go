// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package simnode_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
)

func (w *fixture) getNode(name string) *corev1.Node {
	w.Helper()
	node, err := w.client.CoreV1().Nodes().Get(w.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.Fatalf("reading node %s: %v", name, err)
	}
	return node
}

func nodeReady(node *corev1.Node) corev1.ConditionStatus {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status
		}
	}
	return ""
}

func testScheduling(t *testing.T, cfg *rest.Config) {
	w := newFixture(t, cfg, simnode.Options{Nodes: 2, NodeLabels: func(i int) map[string]string {
		return map[string]string{"pool": fmt.Sprint("pool-", i)}
	}})
	node := w.getNode(w.namespace + "-1")
	equal(t, "ready", nodeReady(node), corev1.ConditionTrue)
	equal(t, "label", node.Labels["pool"], "pool-1")
	equal(t, "zone", node.Labels[corev1.LabelTopologyZone], "zone-b")
	equal(t, "host name", node.Labels[corev1.LabelHostname], node.Name)
	equal(t, "mark", node.Labels[simnode.NodeLabel], "true")
	equal(t, "room for pods", node.Status.Allocatable.Pods().Value(), 5000)
	equal(t, "version is set", strings.HasPrefix(node.Status.NodeInfo.KubeletVersion, "v1."), true)

	w.create("a", func(pod *corev1.Pod) {
		pod.Spec.NodeName = ""
		pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node.Name}
	})
	pod := w.awaitReady("a")
	equal(t, "node", pod.Spec.NodeName, node.Name)
	equal(t, "host address", pod.Status.HostIP, node.Status.Addresses[0].Address)

	w.create("host", func(pod *corev1.Pod) { pod.Spec.HostNetwork = true })
	pod = w.awaitReady("host")
	equal(t, "address on the host network", pod.Status.PodIP, pod.Status.HostIP)
}

func testDown(t *testing.T, cfg *rest.Config) {
	w := newFixture(t, cfg, simnode.Options{})
	w.create("a")
	w.create("b")
	w.awaitReady("a")
	w.awaitReady("b")
	w.setDown(w.node, true)
	equal(t, "node", nodeReady(w.getNode(w.node)), corev1.ConditionUnknown)
	w.await("a", "is not ready", func(pod *corev1.Pod) bool { return !isReady(pod) })

	// While the node is silent, nothing happens to its pods.
	before := w.nodes.Writes()
	w.setImage("a", "main", "web:2")
	w.delete("b", 30)
	w.create("c")
	other := newFixture(t, cfg, simnode.Options{})
	other.create("later")
	other.awaitReady("later")
	equal(t, "writes of a silent node", w.nodes.Writes()-before, 0)

	w.setDown(w.node, false)
	equal(t, "node", nodeReady(w.getNode(w.node)), corev1.ConditionTrue)
	w.await("a", "has the new image", func(pod *corev1.Pod) bool { return isReady(pod) && status(pod, "main").Image == image2 })
	w.awaitReady("c")
	w.awaitGone("b")
	if err := w.nodes.SetDown(t.Context(), "other", true); err == nil {
		t.Error("setting an unknown node down: got no error")
	}
}

func testAddRemove(t *testing.T, cfg *rest.Config) {
	w := newFixture(t, cfg, simnode.Options{Nodes: -1})
	if err := w.nodes.Add(t.Context(), w.node, map[string]string{"disk": "fast"}, corev1.Taint{Key: "own", Effect: corev1.TaintEffectPreferNoSchedule}); err != nil {
		t.Fatal(err)
	}
	equal(t, "taint", w.getNode(w.node).Spec.Taints[0].Key, "own")
	equal(t, "label", w.getNode(w.node).Labels["disk"], "fast")
	w.create("a")
	w.awaitReady("a")
	equal(t, "names", strings.Join(w.nodes.Names(), ","), w.node)
	if err := w.nodes.Remove(t.Context(), w.node); err != nil {
		t.Fatal(err)
	}
	_, err := w.client.CoreV1().Nodes().Get(t.Context(), w.node, metav1.GetOptions{})
	equal(t, "the node is gone", apierrors.IsNotFound(err), true)
	equal(t, "names", len(w.nodes.Names()), 0)
}

func testHeartbeat(t *testing.T, cfg *rest.Config) {
	w := newFixture(t, cfg, simnode.Options{LeaseDuration: time.Second})
	lease := func() time.Time {
		lease, err := w.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(t.Context(), w.node, metav1.GetOptions{})
		if err != nil {
			t.Fatalf("reading the lease: %v", err)
		}
		return lease.Spec.RenewTime.Time
	}
	first := lease()
	w.until(func() (bool, string) { return lease().After(first), "the lease is renewed" })
	w.setDown(w.node, true)
	last := lease()
	// The other node's heartbeats go on; the silent one's do not.
	other := newFixture(t, cfg, simnode.Options{LeaseDuration: time.Second})
	begin := time.Now()
	other.until(func() (bool, string) { return time.Since(begin) > 600*time.Millisecond, "two more heartbeats are due" })
	equal(t, "the lease stays", lease().Equal(last), true)
}

// A node with heartbeats late by more than its lease reports its status again, and the
// others' go on meanwhile.
func testLateHeartbeat(t *testing.T, cfg *rest.Config) {
	var hold atomic.Bool
	held := rest.CopyConfig(cfg)
	held.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if hold.Load() && strings.HasSuffix(r.URL.Path, "-late") && strings.Contains(r.URL.Path, "/leases/") {
				return nil, errors.New("held up")
			}
			return next.RoundTrip(r)
		})
	})
	w := newFixture(t, held, simnode.Options{LeaseDuration: time.Second})
	late := w.node + "-late"
	if err := w.nodes.Add(t.Context(), late, nil); err != nil {
		t.Fatal(err)
	}
	renewed := func(node string) time.Time {
		lease, err := w.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(t.Context(), node, metav1.GetOptions{})
		if err != nil {
			t.Fatalf("reading the lease: %v", err)
		}
		return lease.Spec.RenewTime.Time
	}
	hold.Store(true)
	patch := []byte(`{"status":{"conditions":[{"type":"Ready","status":"Unknown"}]}}`)
	if _, err := w.client.CoreV1().Nodes().Patch(t.Context(), late, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	before := renewed(w.node)
	w.until(func() (bool, string) { return renewed(w.node).After(before), "the lease of the other node is renewed" })
	began := time.Now()
	w.until(func() (bool, string) { return time.Since(began) > 1500*time.Millisecond, "the lease has run out" })
	equal(t, "node", nodeReady(w.getNode(late)), corev1.ConditionUnknown)
	hold.Store(false)
	w.until(func() (bool, string) {
		return nodeReady(w.getNode(late)) == corev1.ConditionTrue, "the node is ready again"
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func testBadAnnotation(t *testing.T, cfg *rest.Config) {
	w := newFixture(t, cfg, simnode.Options{})
	w.create("a", annotated(simnode.ReadyDelay, "soon", simnode.CrashLoop, "nobody"))
	pod := w.await("a", "complains", func(pod *corev1.Pod) bool { return waitsFor(pod, "main", "CreateContainerConfigError") })
	message := status(pod, "main").State.Waiting.Message
	contains(t, "message", message, simnode.ReadyDelay)
	contains(t, "message", message, `no container "nobody"`)
	w.patch("a", object{"metadata": object{"annotations": object{simnode.ReadyDelay: nil, simnode.CrashLoop: nil}}})
	w.awaitReady("a")

	// A running pod goes on as before.
	w.annotate("a", simnode.NotReady, "nobody")
	w.setImage("a", "main", "web:2")
	w.await("a", "has the new image", func(pod *corev1.Pod) bool { return isReady(pod) && status(pod, "main").Image == image2 })
}

func testRestart(t *testing.T, cfg *rest.Config) {
	w := newFixture(t, cfg, simnode.Options{})
	w.create("a", gated("Some"))
	w.create("changing", annotated(simnode.RestartDelay, "never"))
	w.create("job", restartPolicy(corev1.RestartPolicyNever))
	w.setCondition("a", "Some", corev1.ConditionTrue)
	old := w.awaitReady("a")
	w.awaitReady("changing")
	w.setImage("changing", "main", "web:2")
	w.await("changing", "is observed", func(pod *corev1.Pod) bool { return pod.Status.ObservedGeneration == pod.Generation })
	w.await("job", "succeeds", func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodSucceeded })
	w.nodes.Stop()

	w.annotate("changing", simnode.RestartDelay, "")
	again := simnode.StartForTest(t, cfg, simnode.Options{Nodes: 1, NodeName: func(int) string { return w.node }})
	w.await("changing", "has the new image", func(pod *corev1.Pod) bool { return isReady(pod) && status(pod, "main").Image == image2 })
	w.create("b")
	pod := w.awaitReady("b")
	equal(t, "writes: one for the new image, one for the new pod", again.Writes(), 2)
	equal(t, "the container goes on", status(w.get("a"), "main").ContainerID, status(old, "main").ContainerID)
	if pod.Status.PodIP == old.Status.PodIP {
		t.Errorf("two pods have the address %s", pod.Status.PodIP)
	}
}

func testEndedStart(t *testing.T, cfg *rest.Config) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := simnode.Start(ctx, cfg, simnode.Options{NodeName: func(i int) string { return fmt.Sprint("never-", i) }})
	equal(t, "the start ends with its context", errors.Is(err, context.Canceled), true)
}

// nothingRuns checks the end of all the nodes' goroutines.
func nothingRuns(t *testing.T) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(waitTimeout)
	for {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		if !strings.Contains(string(stacks), "simnode.(*") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("goroutines are left:\n%s", stacks)
		}
		<-tick.C
	}
}
