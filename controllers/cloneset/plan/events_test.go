// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
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
	lose := change("p01", func(pod *corev1.Pod) { delete(pod.Labels, shared.LabelPodTemplateHash) })
	abandon := func(w *simulation) { w.RemovePod("web-p01") }
	cases := map[string]struct {
		before, change []func(*simulation)
		want           []string
	}{
		"pods are created":                   {change: []func(*simulation){replicas(3)}, want: []string{"Create SuccessfulCreate/FailedCreate"}},
		"pods are created with their claims": {before: []func(*simulation){claimTemplates("data")}, change: []func(*simulation){replicas(3)}, want: []string{"Create SuccessfulCreate/FailedCreate", "CreateClaim SuccessfulCreate/FailedCreate"}},
		"the set is scaled in":               {change: []func(*simulation){replicas(1)}, want: []string{"Delete SuccessfulDelete/FailedDelete"}},
		"a pod is updated in place":          {before: []func(*simulation){inPlace}, change: []func(*simulation){image("2")}, want: []string{"Edit SuccessfulUpdatePodInPlace/FailedUpdatePodInPlace"}},
		"a pod is replaced":                  {change: []func(*simulation){image("2")}, want: []string{"Delete SuccessfulUpdatePodReCreate/FailedUpdatePodReCreate"}},
		"a pod has lost its label":           {change: []func(*simulation){lose}, want: []string{"Edit SuccessfulUpdate/FailedUpdate"}},
		"a claim has lost its pod": {
			before: []func(*simulation){claimTemplates("data")}, change: []func(*simulation){abandon, replicas(1)},
			want: []string{"DeleteClaim SuccessfulDelete/FailedDelete"},
		},
		"a claim is to go with its pod": {
			before: []func(*simulation){claimTemplates("data")}, change: []func(*simulation){replicas(1)},
			want: []string{"EditClaim /FailedUpdate"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newSimulation(t, 2, tc.before...)
			w.do(tc.change...)
			if diff := cmp.Diff(tc.want, eventsOf(t, Plan(Parse(w.set, w.o), w.snapshot()))); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPodsWhoseImageAPolicyRewroteAreReplacedAndTheSetSaysWhy(t *testing.T) {
	mirrored := func(pod *corev1.Pod) { pod.Spec.Containers[0].Image = "mirror/web:1" }
	w := newSimulation(t, 2, inPlace)
	w.do(change("p01", mirrored), change("p02", mirrored), image("2"), maxUnavailable(1))
	plan := Plan(Parse(w.set, w.o), w.snapshot())
	const why = "container main runs image mirror/web:1 and its revision says web:1"
	if note, ok := plan.HeldFor("Replaced"); !ok || !strings.Contains(note.Message, why) {
		t.Errorf("the condition says %q", note.Message)
	}
	if len(plan.Actions) != 1 || plan.Actions[0].Step != "Delete" || !strings.Contains(plan.Actions[0].Success.Message, why) {
		t.Errorf("the plan is %+v", plan.Actions)
	}
}
