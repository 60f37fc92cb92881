// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package node_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/daemon"
	"github.com/kruise-operator/kruise-operator/internal/daemon/cri"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

// runDaemon runs the node daemon in this process, on the socket of the node's containerd, until the test ends.
func runDaemon(t *testing.T) {
	t.Helper()
	enter := theNode().Command(t.Context(), "true").Args
	at := slices.Index(enter, "--target")
	if at < 0 {
		t.Fatalf("the node is entered by %v", enter)
	}
	runtime, err := cri.New(cri.Sockets("/proc/"+enter[at+1]+"/root/run"), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	options := daemon.Options{Node: theNode().Name(), Namespace: "default", Address: "0", MaxPulls: 1}
	mgr, err := daemon.New(env.Cluster.Config(), options, runtime)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the daemon: %v", err)
		}
		runtime.Close()
	})
}

// recreated creates a request for containers of pod web-0 and waits until it has succeeded.
func recreated(t *testing.T, n *environment.Namespace, name string, how *v1beta1.ContainerRecreateRequestStrategy, containers ...string) *v1beta1.ContainerRecreateRequest {
	t.Helper()
	request := &v1beta1.ContainerRecreateRequest{ObjectMeta: metav1.ObjectMeta{Name: name}}
	request.Spec.PodName, request.Spec.Strategy, request.Spec.ActiveDeadlineSeconds = "web-0", how, ptr.To[int64](60)
	for _, container := range containers {
		request.Spec.Containers = append(request.Spec.Containers, v1beta1.ContainerRecreateRequestContainer{Name: container})
	}
	create(t, n, request)
	n.Eventually("request "+name+" succeeds", func(ctx context.Context) error {
		if err := n.Client.Get(ctx, client.ObjectKeyFromObject(request), request); err != nil {
			return err
		}
		for _, c := range request.Status.Conditions {
			if c.Type == v1beta1.RecreateConditionSucceeded && c.Status == metav1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("the status is %+v", request.Status)
	})
	return request
}

// TestRestartOfOneContainer: a request restarts one container of a pod on containerd and leaves the other one running; the kubelet starts it
// again, and agrees when the pod is taken out of service before.
func TestRestartOfOneContainer(t *testing.T) {
	n := onNode(t)
	was := start(t, n, guestbook(1))[0]
	runDaemon(t)

	request := recreated(t, n, "once", nil, "web")
	is := n.Pod("web-0")
	assertSamePod(t, &was, is)
	assertReplacedOnce(t, &was, is, "web")
	state := request.Status.ContainerRecreateStates[0]
	if !state.IsKilled || state.ContainerID != status(&was, "web").ContainerID {
		t.Errorf("the state is %+v", state)
	}

	seen := follow(t, n)
	recreated(t, n, "drained", &v1beta1.ContainerRecreateRequestStrategy{UnreadyGracePeriodSeconds: ptr.To[int64](2)}, "web")
	var after *corev1.Pod
	n.Eventually("the pod serves again", func(context.Context) error {
		after = n.Pod("web-0")
		if holders := podstate.Holders(after); len(holders) > 0 || !environment.IsReady(after) {
			return fmt.Errorf("held by %v, the conditions are %+v", holders, after.Status.Conditions)
		}
		return nil
	})
	assertSamePod(t, &was, after)
	assertReplacedOnce(t, is, after, "web")
	states := seen.of(n, after)
	held, rest := first(t, states, "the request holds the pod", func(pod *corev1.Pod) bool { return len(podstate.Holders(pod)) > 0 })
	replaced, _ := first(t, rest, "the container is replaced", func(pod *corev1.Pod) bool {
		return status(pod, "web").ContainerID != status(is, "web").ContainerID
	})
	if environment.IsReady(held.pod) || replaced.at.Sub(held.at) < 1e9 {
		t.Errorf("ready %v while it is held, and replaced %s later", environment.IsReady(held.pod), replaced.at.Sub(held.at))
	}
}
