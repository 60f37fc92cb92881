// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package chaos_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/internal/daemon/cri"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/tests/framework/chaos"
	"github.com/kruise-operator/kruise-operator/tests/framework/simdaemon"
)

// server is a pod on the node of the lane.
const server = `
apiVersion: v1
kind: Pod
metadata: {name: NAME, labels: {app: game}}
spec:
  terminationGracePeriodSeconds: 0
  nodeSelector: {chaos: NODES}
  tolerations: [{key: chaos, operator: Exists}]
  containers: [{name: main, image: "example/game:v1"}]
`

// probeMarker marks idle servers: COMMAND succeeds in them.
const probeMarker = `
apiVersion: apps.kruise.io/v1alpha1
kind: PodProbeMarker
metadata: {name: idle}
spec:
  selector: {matchLabels: {app: game}}
  probes:
  - name: idle
    containerName: main
    podConditionType: game.example/idle
    probe: {exec: {command: [COMMAND]}, periodSeconds: 1, failureThreshold: 1}
    markerPolicy:
    - {state: Succeeded, labels: {idle: "true"}, annotations: {` + deletionCost + `: "-10"}}
    - {state: Failed, annotations: {` + deletionCost + `: "10"}}
`

const (
	deletionCost = "controller.kubernetes.io/pod-deletion-cost"
	// idle and busy are commands, and a pod's report after them; bare is the report without
	// a marker, but its condition.
	idle, busy, bare = "True idle=true cost=-10", "False idle= cost=10", "idle= cost="
)

// podProbeMarkers are scenarios of a PodProbeMarker. The same operator makes the node's
// list, its NodePodProbe, and copies it to the pods.
func podProbeMarkers() []chaos.Scenario {
	mark := func(command string, tell func(context.Context, *chaos.World) error) chaos.Step {
		return apply(probeMarker, both(probing, tell), "COMMAND", command)
	}
	deploy := withServers("p1", "p2")
	leave := chaos.Step{Settled: both(noMarker, pods2(bare)), Do: func(w *chaos.World) {
		w.T.Helper()
		marker := &v1alpha1.PodProbeMarker{ObjectMeta: metav1.ObjectMeta{Namespace: w.Name, Name: "idle"}}
		if err := w.Client.Delete(w.T.Context(), marker); err != nil {
			w.T.Fatal(err)
		}
	}}
	all := []chaos.Scenario{
		{Name: "idle-and-busy", Steps: []chaos.Step{deploy, mark("/true", pods2(idle)), mark("/false", pods2(busy))}},
		{Name: "withdrawn", Steps: []chaos.Step{deploy, mark("/true", pods2(idle)), leave}},
	}
	for i := range all {
		all[i].Kind, all[i].Kinds, all[i].OwnNodes = "PodProbeMarker", []string{"PodProbeMarker", "NodePodProbe"}, true
		all[i].Made, all[i].Observe = []string{"pods"}, marksAgree
	}
	return all
}

// withServers adds a node with a daemon, and pods to it.
func withServers(names ...string) chaos.Step {
	return chaos.Step{Settled: ready(len(names)), Do: func(w *chaos.World) {
		w.T.Helper()
		nodes(w, true, "a")
		runtime := &simdaemon.Runtime{Pods: env.Client, Nodes: env.Nodes}
		runtime.Answer = func(_ string, command []string) (cri.ExecResult, error) {
			if command[0] == "/true" {
				return cri.ExecResult{}, nil
			}
			return cri.ExecResult{ExitCode: 1}, nil
		}
		simdaemon.RunWith(w.T, env, w.Name+"-a", runtime)
		for _, name := range names {
			apply(server, nil, "NAME", name).Do(w)
		}
	}}
}

// ready: so many pods are.
func ready(count int) func(context.Context, *chaos.World) error {
	return func(ctx context.Context, w *chaos.World) error {
		all, err := w.ListPods(ctx)
		if err != nil {
			return err
		}
		if len(all) != count {
			return fmt.Errorf("there are %d pods", len(all))
		}
		for i := range all {
			if !podstate.Ready(&all[i]) {
				return fmt.Errorf("pod %s is not ready", all[i].Name)
			}
		}
		return nil
	}
}

// pods2 compares both pods' report of the probe. Without a marker the condition stays, and
// is left out then.
func pods2(want string) func(context.Context, *chaos.World) error {
	return func(ctx context.Context, w *chaos.World) error {
		all, err := w.ListPods(ctx)
		if err != nil {
			return err
		}
		for i := range all {
			pod := &all[i]
			got := fmt.Sprintf("idle=%s cost=%s", pod.Labels["idle"], pod.Annotations[deletionCost])
			if c := podstate.Condition(pod, "game.example/idle"); c != nil && want != bare {
				got = string(c.Status) + " " + got
			}
			if got != want {
				return fmt.Errorf("pod %s tells %q, want %q", pod.Name, got, want)
			}
		}
		return nil
	}
}

// probing: every chosen pod is probed as the marker now demands.
func probing(ctx context.Context, w *chaos.World) error {
	marker := &v1alpha1.PodProbeMarker{}
	if err := w.Client.Get(ctx, client.ObjectKey{Namespace: w.Name, Name: "idle"}, marker); err != nil {
		return err
	}
	c := meta.FindStatusCondition(marker.Status.Conditions, v1alpha1.PodProbeMarkerReconciling)
	if c == nil || c.Reason != v1alpha1.ReasonProbing || marker.Status.ObservedGeneration != marker.Generation {
		return fmt.Errorf("its status is %+v", marker.Status)
	}
	return nil
}

// noMarker: the marker is gone, and asks nothing of the node any more.
func noMarker(ctx context.Context, w *chaos.World) error {
	err := w.Client.Get(ctx, client.ObjectKey{Namespace: w.Name, Name: "idle"}, &v1alpha1.PodProbeMarker{})
	if err := isGone(err); err != nil {
		return err
	}
	list := &v1alpha1.NodePodProbe{}
	if err := w.Client.Get(ctx, client.ObjectKey{Name: w.Name + "-a"}, list); err != nil {
		return client.IgnoreNotFound(err)
	}
	if len(list.Spec.PodProbes) > 0 {
		return fmt.Errorf("the node is asked for %+v", list.Spec.PodProbes)
	}
	return nil
}

// marksAgree judges that no pod has marks of both results, or of a deleted marker.
func marksAgree(w *chaos.World) {
	chaos.Follow(w, &corev1.PodList{}, func(object client.Object, _ bool) error {
		label, cost := object.GetLabels()["idle"], object.GetAnnotations()[deletionCost]
		if (label == "true") != (cost == "-10") {
			return fmt.Errorf("pod %s has the label %q and costs %q", object.GetName(), label, cost)
		}
		return nil
	})
	chaos.Follow(w, &v1alpha1.PodProbeMarkerList{}, func(object client.Object, deleted bool) error {
		if !deleted {
			return nil
		}
		ctx := context.WithoutCancel(w.T.Context())
		return pods2(bare)(ctx, w)
	})
}
