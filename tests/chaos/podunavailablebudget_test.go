// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package chaos_test

import (
	"fmt"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	policyv1beta1 "github.com/kruise-operator/kruise-operator/api/policy/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/chaos"
	"github.com/kruise-operator/kruise-operator/tests/framework/scenario"
)

// budgetedClones is a CloneSet that would replace all pods at once, with a budget for one.
const budgetedClones = `
apiVersion: policy.kruise.io/v1beta1
kind: PodUnavailableBudget
metadata: {name: shop}
spec:
  targetRef: {apiVersion: apps.kruise.io/v1beta1, kind: CloneSet, name: shop}
  maxUnavailable: 1
---
apiVersion: apps.kruise.io/v1beta1
kind: CloneSet
metadata: {name: shop}
spec:
  replicas: REPLICAS
  selector: {matchLabels: {app: shop}}
  updateStrategy: {rollingUpdate: {podUpdatePolicy: ReCreate, maxUnavailable: 100%}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: main, image: "IMAGE"}]
`

// podUnavailableBudgets are scenarios of a CloneSet with a budget. The API server does not call operators of lanes: the set asks by itself.
func podUnavailableBudgets() []chaos.Scenario {
	set := func(replicas int, image string) chaos.Step {
		settled := both(reconciled("CloneSet", "shop", v1beta1.ReasonComplete), pods(replicas, image))
		return apply(budgetedClones, both(reconciled("PodUnavailableBudget", "shop", policyv1beta1.ReasonBudgetNotRegistered), settled),
			"REPLICAS", fmt.Sprint(replicas), "IMAGE", image)
	}
	all := []chaos.Scenario{
		{Name: "update", Steps: []chaos.Step{set(3, scenario.V1), set(3, scenario.V2)}},
		{Name: "scale", Steps: []chaos.Step{set(2, scenario.V1), set(4, scenario.V1), set(2, scenario.V1)}},
	}
	for i := range all {
		all[i].Kind, all[i].Kinds = "PodUnavailableBudget", []string{"PodUnavailableBudget", "CloneSet"}
		all[i].Made = []string{"clonesets.apps.kruise.io", "podunavailablebudgets.policy.kruise.io"}
		all[i].RandomNames = true
	}
	return all
}
