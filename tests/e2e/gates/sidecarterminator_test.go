// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package gates_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/engine/restart"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/simdaemon"
)

// worker is a pod on a node: its container main ends after a second, its container side
// runs until stopped.
func worker(node, name, mark string) string {
	return strings.NewReplacer("NODE", node, "NAME", name, "MARK", mark).Replace(`
apiVersion: v1
kind: Pod
metadata:
  name: NAME
  annotations: {sim.kruise.io/complete-after: "main=1s,side=never"}
spec:
  nodeName: NODE
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: example/main}
  - {name: side, image: example/side, env: [MARK]}
`)
}

func podIs(n *environment.Namespace, name, what string, is func(*corev1.Pod) bool) {
	n.Eventually("pod "+name+" "+what, func(ctx context.Context) error {
		pod := &corev1.Pod{}
		err := n.Client.Get(ctx, client.ObjectKey{Namespace: n.Name, Name: name}, pod)
		if err == nil && !is(pod) {
			err = fmt.Errorf("its status is %+v", pod.Status)
		}
		return err
	})
}

func TestSidecarsOfFinishedPodsAreStopped(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	node := env.Nodes.Names()[0]
	simdaemon.Run(t, env, node, 0)
	n.Apply(worker(node, "marked", `{name: KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT, value: "true"}`))
	n.Apply(worker(node, "plain", `{name: OTHER, value: "true"}`))
	podIs(n, "marked", "succeeds", func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodSucceeded })
	pod := n.Pod("marked")
	request := &v1beta1.ContainerRecreateRequest{}
	if err := n.Client.Get(t.Context(), client.ObjectKey{Namespace: n.Name, Name: "sidecar-termination-" + string(pod.UID)}, request); err != nil {
		t.Fatal(err)
	}
	if len(request.Spec.Containers) != 1 || request.Spec.Containers[0].Name != "side" {
		t.Errorf("the request is for %+v", request.Spec.Containers)
	}
	podIs(n, "plain", "has ended its work", func(pod *corev1.Pod) bool {
		main := restart.StatusOf(pod, "main")
		return main != nil && main.State.Terminated != nil
	})
	n.Consistently(half, "a sidecar without a mark runs on", func(context.Context) error {
		if side := restart.StatusOf(n.Pod("plain"), "side"); side.State.Running == nil {
			return fmt.Errorf("its status is %+v", side)
		}
		return nil
	})
}

// The sidecar ends with the code of SIGTERM, and the pod succeeds all the same.
func TestExitCodesOfSidecarsThatAreIgnored(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	node := env.Nodes.Names()[1]
	simdaemon.Run(t, env, node, 143)
	n.Apply(strings.Replace(worker(node, "ignored",
		`{name: KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT, value: "true"}, {name: KRUISE_TERMINATE_SIDECAR_IGNORE_EXIT_CODE, value: "true"}`),
		"annotations: {", "annotations: {"+simnode.ExitCode+`: "143,main=0", `, 1))
	podIs(n, "ignored", "gets its phase by its main container", func(pod *corev1.Pod) bool {
		c, side := podstate.Condition(pod, "SidecarTerminated"), restart.StatusOf(pod, "side")
		return pod.Status.Phase == corev1.PodSucceeded && c != nil && c.Status == corev1.ConditionTrue &&
			side != nil && side.State.Terminated != nil && side.State.Terminated.ExitCode == 143
	})
}

func TestSidecarsOnVirtualNodesGetAnotherImage(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	node := n.OwnNode(n.Name+"-virtual", map[string]string{"type": "virtual-kubelet"})
	n.Apply(worker(node, "exchanged", `{name: KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE, value: "example/exit:v1"}`))
	podIs(n, "exchanged", "has the image that ends at once", func(pod *corev1.Pod) bool { return pod.Spec.Containers[1].Image == "example/exit:v1" })
}
