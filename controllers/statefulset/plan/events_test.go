// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
)

// eventsOf are what the actions of a plan would say when they succeed and when they are refused, each once, sorted.
func eventsOf(t *testing.T, plan planning.Plan) []string {
	t.Helper()
	var all []string
	for _, action := range plan.Actions {
		for _, a := range append(slices.Clone(action.Before), action) {
			if a.Success.Warning || !a.Failure.Warning || a.Failure.Message == "" || (a.Success.Reason == "") != (a.Success.Message == "") {
				t.Errorf("%s says %+v or %+v", a.Step, a.Success, a.Failure)
			}
			all = append(all, string(a.Step)+" "+a.Success.Reason+"/"+a.Failure.Reason)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func TestEventsOfActions(t *testing.T) {
	grows := func(w *simulation) {
		w.o.AutoResizePVC = true
		w.set.Spec.VolumeClaimUpdateStrategy.Type = appsv1beta1.OnPodRollingUpdateVolumeClaimUpdateStrategyType
	}
	lose := func(w *simulation) { delete(w.pod(1).Labels, shared.LabelPodName) }
	cases := map[string]struct {
		steps []func(*simulation)
		want  []string
	}{
		"pods and their claims are created":    {steps: []func(*simulation){storage("1Gi")}, want: []string{"Create SuccessfulCreate/FailedCreate", "CreateClaim SuccessfulCreate/FailedCreate"}},
		"the set is scaled in":                 {steps: []func(*simulation){running, replicas(1)}, want: []string{"Delete SuccessfulDelete/FailedDelete"}},
		"a pod is updated in place":            {steps: []func(*simulation){inPlace, running, image("2")}, want: []string{"Edit SuccessfulUpdatePodInPlace/FailedUpdatePodInPlace"}},
		"a pod is replaced":                    {steps: []func(*simulation){running, image("2")}, want: []string{"Delete SuccessfulDelete/FailedDelete"}},
		"a pod has lost its label":             {steps: []func(*simulation){running, lose}, want: []string{"Edit SuccessfulUpdate/FailedUpdate"}},
		"a pod is put at its hook, in silence": {steps: []func(*simulation){inPlace, hooks(shared.Lifecycle{InPlaceUpdate: finalizerHook("hold")}), running, func(w *simulation) { w.pod(1).Finalizers = []string{"hold"} }, image("2")}, want: []string{"Edit /FailedUpdate"}},
		"claims are to go with their pods": {
			steps: []func(*simulation){storage("1Gi"), running, retention(appsv1.DeletePersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType)},
			want:  []string{"EditClaim SuccessfulUpdate/FailedUpdate"},
		},
		"claims are to grow": {steps: []func(*simulation){storage("1Gi"), grows, running, storage("2Gi")}, want: []string{"EditClaim SuccessfulResize/FailedResize"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newSimulation(t, 2, tc.steps...)
			if diff := cmp.Diff(tc.want, eventsOf(t, Plan(Parse(w.set, w.o), w.snapshot()))); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}
