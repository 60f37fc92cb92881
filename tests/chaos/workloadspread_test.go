// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package chaos_test

import (
	"context"
	"fmt"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/spread"
	"github.com/kruise-operator/kruise-operator/tests/framework/chaos"
	"github.com/kruise-operator/kruise-operator/tests/framework/scenario"
)

// spreadClones is a CloneSet over two subsets.
const spreadClones = `
apiVersion: apps.kruise.io/v1beta1
kind: WorkloadSpread
metadata: {name: shop}
spec:
  targetRef: {apiVersion: apps.kruise.io/v1beta1, kind: CloneSet, name: shop}
  subsets: [{name: a, maxReplicas: FIRST, patch: {metadata: {labels: {subset: a}}}}, {name: b}]
---
apiVersion: apps.kruise.io/v1beta1
kind: CloneSet
metadata: {name: shop}
spec:
  replicas: REPLICAS
  selector: {matchLabels: {app: shop}}
  updateStrategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: main, image: "IMAGE"}]
`

// workloadSpreads are scenarios of a WorkloadSpread with a CloneSet.
func workloadSpreads() []chaos.Scenario {
	set := func(replicas, first, wanted int, image string) chaos.Step {
		settled := both(reconciled("CloneSet", "shop", v1beta1.ReasonComplete), both(pods(replicas, image), firstHas(wanted)))
		return apply(spreadClones, both(reconciled("WorkloadSpread", "shop", v1beta1.ReasonSpread), settled),
			"REPLICAS", fmt.Sprint(replicas), "FIRST", fmt.Sprint(first), "IMAGE", image)
	}
	all := []chaos.Scenario{
		{Name: "scale", Steps: []chaos.Step{set(3, 2, 2, scenario.V1), set(5, 2, 2, scenario.V1), set(2, 2, 2, scenario.V1)}},
		{Name: "surge", Steps: []chaos.Step{set(4, 2, 2, scenario.V1), set(4, 2, 2, scenario.V2)}},
		{Name: "lower-limit", Steps: []chaos.Step{set(4, 3, 3, scenario.V1), set(4, 1, 3, scenario.V1), set(2, 1, 1, scenario.V1)}},
	}
	for i := range all {
		all[i].Kind, all[i].Kinds, all[i].Made = "WorkloadSpread", []string{"WorkloadSpread", "CloneSet"}, []string{"clonesets.apps.kruise.io"}
		all[i].RandomNames = true
	}
	return all
}

// firstHas waits until the first subset has so many pods, and none is without a subset.
func firstHas(want int) func(context.Context, *chaos.World) error {
	return func(ctx context.Context, w *chaos.World) error {
		all, err := w.ListPods(ctx)
		if err != nil {
			return err
		}
		first := 0
		for i := range all {
			switch mark, _ := spread.MarkOf(all[i].Annotations); mark.Subset {
			case "a":
				first++
			case "":
				return fmt.Errorf("pod %s is in no subset", all[i].Name)
			}
		}
		if first != want {
			return fmt.Errorf("the first subset has %d pods", first)
		}
		return nil
	}
}
