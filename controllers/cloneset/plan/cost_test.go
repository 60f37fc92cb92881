// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset/podsettest"
)

// A plan that is not carried out in its time slice is discarded, and planned again. So it begins a part of the updates, and later ones the rest.
func TestAPlanBeginsAPartOfTheUpdates(t *testing.T) {
	for name, tc := range map[string]struct{ pods, want int }{
		"few":  {60, 60},
		"some": {300, podset.LeastUpdates},
		"many": {2200, 110},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSimulation(t, tc.pods, inPlace, maxUnavailable("100%"))
			w.do(image("2"))
			begun := 0
			for _, action := range Plan(Parse(w.set, w.o), w.snapshot()).Actions {
				if action.Reason == podset.ReasonInPlaceUpdate {
					begun++
				}
			}
			w.expect("updates begun", begun, tc.want)
			if tc.pods < 1000 { // many take long
				w.rest()
				w.expect("updated", w.at("2"), tc.pods)
			}
		})
	}
}

// manyClaims gives the set claim templates.
func manyClaims(w *simulation) {
	var names []string
	for i := range 400 {
		names = append(names, fmt.Sprint("c", i))
	}
	claimTemplates(names...)(w)
}

// All claims of five hundred pods were in one plan: a gigabyte where a set has many.
func TestPodsWithManyClaimsDoNotUseUpTheMemory(t *testing.T) {
	w := newSimulation(t, 0)
	w.do(replicas(500), manyClaims)
	spec, s := Parse(w.set, w.o), w.snapshot()
	var plan planning.Plan
	podsettest.Cost(t, podsettest.MaxPlan, func() { plan = Plan(spec, s) })
	w.expect("pods that are created", len(plan.Actions), 25)
}

// Claim templates that are added to a set whose pods wait for something else made a copy of each for each pod, in each pass.
func TestClaimTemplatesThatAreAddedCostPendingPodsLittle(t *testing.T) {
	w := newSimulation(t, 500)
	for _, pod := range w.Pods {
		pod.Status.Phase = corev1.PodPending
	}
	w.do(manyClaims)
	spec, s := Parse(w.set, w.o), w.snapshot()
	podsettest.Cost(t, podsettest.MaxPlan/10, func() { Plan(spec, s) })
}

func TestALargeTemplateDoesNotUseUpTheMemory(t *testing.T) {
	w := newSimulation(t, 0)
	podsettest.Largest(&w.set.Spec.Template)
	w.do(replicas(5000))
	spec, s := Parse(w.set, w.o), w.snapshot()
	podsettest.Cost(t, podsettest.MaxPlan, func() { Plan(spec, s) })
}
