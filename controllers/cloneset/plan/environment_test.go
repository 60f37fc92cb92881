// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

// A label that a container reads through its environment changes in place where a node daemon restarts that container. Without one, and for
// a pod that has no readiness gate by which the daemon sees the update, the pod is replaced.
func TestVariablesFromLabels(t *testing.T) {
	reads := func(w *simulation) {
		w.set.Spec.Template.Labels["release"] = "r1"
		w.set.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{
			Name: "RELEASE", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['release']"}},
		}}
	}
	for what, tc := range map[string]struct {
		daemon, gate bool
		want         string
	}{
		"with a node daemon":       {daemon: true, gate: true, want: string(podset.StepEdit)},
		"without a node daemon":    {gate: true, want: string(podset.StepDelete)},
		"without a readiness gate": {daemon: true, want: string(podset.StepDelete)},
	} {
		t.Run(what, func(t *testing.T) {
			w := newSimulation(t, 3, inPlace, maxUnavailable(1), reads)
			w.o.InPlace.EnvFromMetadata = tc.daemon
			s := w.snapshot()
			old := s.Update
			old.Name, old.Template = "web-old", s.Update.Template.DeepCopy()
			s.Current, s.Revisions[old.Name] = old, old
			s.Update.Template = s.Update.Template.DeepCopy()
			s.Update.Template.Labels["release"] = "r2"
			for i := range s.Pods {
				s.Pods[i].Revision = old.Name
				if !tc.gate {
					pod := s.Pods[i].Object.DeepCopy()
					pod.Spec.ReadinessGates = slices.DeleteFunc(pod.Spec.ReadinessGates, func(corev1.PodReadinessGate) bool { return true })
					s.Pods[i].Object = pod
				}
			}
			var steps []string
			for _, action := range Plan(Parse(w.set, w.o), s).Actions {
				steps = append(steps, string(action.Step))
			}
			if !slices.Contains(steps, tc.want) || len(steps) != 1 {
				t.Errorf("the steps are %s, want one %s", strings.Join(steps, ", "), tc.want)
			}
		})
	}
}
