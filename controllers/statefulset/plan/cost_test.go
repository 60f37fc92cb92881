// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset/podsettest"
)

// All claims of five hundred pods were in one plan: a gigabyte where a set has many.
func TestPodsWithManyClaimsDoNotUseUpTheMemory(t *testing.T) {
	w := newSimulation(t, 500)
	for i := range 400 {
		claim := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("c", i)}}
		w.set.Spec.VolumeClaimTemplates = append(w.set.Spec.VolumeClaimTemplates, claim)
	}
	spec, s := Parse(w.set, w.o), w.snapshot()
	var plan planning.Plan
	podsettest.Cost(t, podsettest.MaxPlan, func() { plan = Plan(spec, s) })
	if len(plan.Actions) != 25 {
		t.Errorf("%d pods are created", len(plan.Actions))
	}
	read := 0
	for range MissingPods(spec, nil) {
		read++
	}
	if read != 25 {
		t.Errorf("the claims of %d pods are read", read)
	}
}
