// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package gates_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/internal/engine/launch"
	"github.com/kruise-operator/kruise-operator/internal/engine/restart"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

// meshed is nobody's pod. Its main container starts when its mesh, later in the spec, is
// ready.
const meshed = `
apiVersion: v1
kind: Pod
metadata:
  name: meshed
  annotations: {sim.kruise.io/not-ready: mesh}
spec:
  nodeName: NODE
  containers:
  - {name: main, image: example/main}
  - {name: mesh, image: example/mesh, env: [{name: KRUISE_CONTAINER_PRIORITY, value: "1"}]}
`

// ordered waits until the API server orders pods.
func ordered(n *environment.Namespace, manifest string) {
	n.Eventually("pods are ordered when they are created", func(ctx context.Context) error {
		pod := &corev1.Pod{}
		if err := yaml.Unmarshal([]byte(manifest), pod); err != nil {
			return err
		}
		pod.Namespace = n.Name
		if err := n.Client.Create(ctx, pod, client.DryRunAll); err != nil {
			return err
		}
		if !launch.Waits(pod) {
			return errors.New("its containers start together")
		}
		return nil
	})
}

func TestContainersOfABarePodStartInOrder(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	manifest := strings.ReplaceAll(meshed, "NODE", env.Nodes.Names()[2])
	ordered(n, manifest)
	n.Apply(manifest)
	runs := func(name string) func(*corev1.Pod) bool {
		return func(pod *corev1.Pod) bool {
			s := restart.StatusOf(pod, name)
			return s != nil && s.State.Running != nil
		}
	}
	podIs(n, "meshed", "runs its mesh", runs("mesh"))
	n.Consistently(half, "its main container waits", func(context.Context) error {
		if pod := n.Pod("meshed"); runs("main")(pod) {
			return fmt.Errorf("the status is %+v", pod.Status)
		}
		return nil
	})
	n.PatchPod("meshed", `{"metadata":{"annotations":{"sim.kruise.io/not-ready":null}}}`)
	podIs(n, "meshed", "runs its main container", runs("main"))
	podIs(n, "meshed", "is marked", launch.Completed)
}
