// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/united"
)

// maxSubsets is how many subsets the schema allows.
const maxSubsets = 500

// largest is a simulation with as many subsets as there may be, with names as long as they may be.
func largest(tb testing.TB, changes ...string) *simulation {
	tb.Helper()
	w := newSimulation(tb, append([]string{"replicas: 500"}, changes...)...)
	w.set.Spec.Topology.Subsets = nil
	for i := range maxSubsets {
		w.set.Spec.Topology.Subsets = append(w.set.Spec.Topology.Subsets, appsv1beta1.Subset{Name: fmt.Sprintf("s%03d-%s", i, strings.Repeat("n", 58))})
	}
	return w
}

// TestTheLargestStatusIsBounded: a status that says all that it can about 500 subsets leaves the spec most of the 1.5 MiB that an object may
// have, and its messages name a few subsets and count the others.
func TestTheLargestStatusIsBounded(t *testing.T) {
	w := largest(t, "topology: {scheduleStrategy: {type: Adaptive, adaptive: {reserveUnschedulablePods: true}}}")
	w.pass()
	w.work()
	for i := range w.set.Status.SubsetStatuses {
		w.set.Status.SubsetStatuses[i].Conditions = []appsv1beta1.UnitedDeploymentSubsetCondition{{
			Type: appsv1beta1.SubsetSchedulable, Status: corev1.ConditionFalse, Reason: appsv1beta1.ReasonReschedule, LastTransitionTime: metav1.NewTime(w.now),
		}}
	}
	w.set.Spec.Replicas = ptr.To[int32](2_000_000_000)
	w.change("updateStrategy: {manualUpdate: {partitions: {}}}")
	spec := united.Parse(w.set)
	s := w.snapshot(spec)
	todo := Plan(spec, s)
	var outcome planning.Outcome
	for _, a := range todo.Actions {
		outcome.Failures = append(outcome.Failures, planning.Failure{Step: a.Step, Slot: a.Slot, Message: "exceeded quota", Refused: true})
	}
	if len(outcome.Failures) < maxSubsets {
		t.Fatalf("%d actions", len(outcome.Failures))
	}
	status := Status(spec, s, todo, outcome)
	text, err := json.Marshal(status)
	if err != nil {
		t.Fatal(err)
	}
	if len(status.SubsetStatuses) != maxSubsets || len(text) > 320<<10 {
		t.Errorf("the status of %d subsets has %d bytes", len(status.SubsetStatuses), len(text))
	}
	for _, c := range status.Conditions {
		if len(c.Message) > 1024 {
			t.Errorf("the message of %s has %d bytes: %s", c.Type, len(c.Message), c.Message)
		}
	}
	if c := few(make([]string, maxSubsets)); !strings.HasSuffix(c, "and 495 more") {
		t.Errorf("many sentences are %q", c)
	}
}

// BenchmarkPlanOf500 is a pass over 500 workloads that are what they should be, as it is the first time and every other time.
func BenchmarkPlanOf500(b *testing.B) {
	w := largest(b)
	w.pass()
	w.pass()
	spec := united.Parse(w.set)
	s := w.snapshot(spec)
	for _, remembers := range []bool{false, true} {
		b.Run(map[bool]string{false: "first", true: "again"}[remembers], func(b *testing.B) {
			for b.Loop() {
				for i := range s.Children {
					s.Children[i].InSync = nil
					if remembers {
						w.memory.Recall(w.set.Generation, &s.Children[i])
					}
				}
				if d := Plan(spec, s); len(d.Actions) > 0 {
					b.Fatalf("%d actions", len(d.Actions))
				}
			}
		})
	}
}
