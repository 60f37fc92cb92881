// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package chaos_test

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/chaos"
	"github.com/kruise-operator/kruise-operator/tests/framework/scenario"
)

// placedSet is a StatefulSet on one node, with a generated PersistentPodState.
const placedSet = `
apiVersion: apps.kruise.io/v1beta1
kind: StatefulSet
metadata:
  name: ring
  annotations:
    kruise.io/auto-generate-persistent-pod-state: "GENERATE"
    kruise.io/required-persistent-topology: KEY
spec:
  replicas: REPLICAS
  serviceName: ring
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: ring}}
  template:
    metadata: {labels: {app: ring}}
    spec:
      nodeSelector: {kubernetes.io/hostname: sim-0}
      terminationGracePeriodSeconds: 0
      containers: [{name: main, image: "IMAGE"}]
`

// persistentPodStates are scenarios of a PersistentPodState with a StatefulSet.
func persistentPodStates() []chaos.Scenario {
	set := func(generate string, replicas int, key, image string, steered bool) chaos.Step {
		settled := both(reconciled("StatefulSet", "ring", v1beta1.ReasonComplete), both(pods(replicas, image), remembered(generate == "true", replicas, key, steered)))
		return apply(placedSet, settled, "GENERATE", generate, "REPLICAS", fmt.Sprint(replicas), "KEY", key, "IMAGE", image)
	}
	const host, system = "kubernetes.io/hostname", "kubernetes.io/os"
	all := []chaos.Scenario{
		{Name: "replaced", Steps: []chaos.Step{set("true", 2, host, scenario.V1, false), recreated(set("true", 2, host, scenario.V1, true))}},
		{Name: "scale", Steps: []chaos.Step{set("true", 3, host, scenario.V1, false), set("true", 1, host, scenario.V1, false)}},
		{Name: "other-keys", Steps: []chaos.Step{set("true", 2, host, scenario.V1, false), set("true", 2, system, scenario.V1, false)}},
		{Name: "no-longer-generated", Steps: []chaos.Step{set("true", 1, host, scenario.V1, false), set("false", 1, host, scenario.V1, false)}},
	}
	for i := range all {
		all[i].Kind, all[i].Kinds, all[i].Made = "PersistentPodState", []string{"PersistentPodState", "StatefulSet"}, []string{"statefulsets.apps.kruise.io"}
	}
	return all
}

// recreated deletes all pods in a step.
func recreated(step chaos.Step) chaos.Step {
	return chaos.Step{Settled: step.Settled, Do: func(w *chaos.World) {
		w.T.Helper()
		for _, pod := range w.Pods() {
			if err := w.Client.Delete(w.T.Context(), &pod); err != nil {
				w.T.Fatal(err)
			}
		}
	}}
}

// remembered: the object has a place for each pod, by one key, or there is none. steered: the pods were sent to their places.
func remembered(some bool, replicas int, key string, steered bool) func(context.Context, *chaos.World) error {
	return func(ctx context.Context, w *chaos.World) error {
		object, err := read(ctx, w, "PersistentPodState", "ring")
		if !some {
			if err == nil {
				return fmt.Errorf("it is there")
			}
			return nil
		}
		if err != nil {
			return err
		}
		places, _, _ := unstructured.NestedMap(object.Object, "status", "podStates")
		for name, at := range places {
			labels, _, _ := unstructured.NestedMap(at.(map[string]any), "nodeTopologyLabels")
			if labels[key] == nil || len(labels) != 1 {
				return fmt.Errorf("%s has %v", name, labels)
			}
		}
		if len(places) != replicas {
			return fmt.Errorf("remembered are %v", places)
		}
		all, err := w.ListPods(ctx)
		if err != nil {
			return err
		}
		for i := range all {
			if steered && all[i].Annotations[shared.AnnotationInjectedPersistentPodState] == "" {
				return fmt.Errorf("pod %s was not sent to its place", all[i].Name)
			}
		}
		return nil
	}
}
