// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"testing"

	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset/podsettest"
)

// The pods of all nodes were in one plan where burstReplicas lets them, each with a copy of the template: gigabytes for a large one.
func TestALargeTemplateForManyNodesDoesNotUseUpTheMemory(t *testing.T) {
	w := newSimulation(t, nil, burst("100%"))
	podsettest.Largest(&w.set.Spec.Template)
	for i := range 5000 {
		w.Nodes = append(w.Nodes, podsettest.NewNode(fmt.Sprint("n", i)))
	}
	spec, s := w.spec(), w.seen()
	var plan planning.Plan
	podsettest.Cost(t, podsettest.MaxPlan, func() { plan = Plan(spec, s) })
	w.expect("pods that are created", len(plan.Actions), podset.MaxCreations)
	w.expect("there is another look", plan.RecheckAfter > 0, true)
	w.expect("nothing waits for a limit of the user", len(plan.Held), 0)
}

// Nodes whose pods the server refuses yield, and take no place from others, however many there are.
func TestManyNodesWhosePodsAreRefusedKeepNoOthersWaiting(t *testing.T) {
	w := newSimulation(t, nil, burst("100%"))
	var refused []string
	for i := range 700 {
		name := fmt.Sprintf("n%03d", i)
		w.Nodes = append(w.Nodes, podsettest.NewNode(name))
		if i < 600 {
			refused = append(refused, name)
		}
	}
	s := w.seen()
	s.Retries = refusedAt(refused...)
	plan := Plan(w.spec(), s)
	w.expect("pods that are planned", len(plan.Actions), 700)
	w.expect("of these yield", len(plan.Aside), 600)
}
