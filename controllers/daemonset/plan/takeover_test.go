// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset/podsettest"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
	"github.com/kruise-operator/kruise-operator/internal/testutil/fixtures"
)

// TestWhatOpenKruiseLeftNeedsNothing plans for the sets of the fixtures: one that has come up, and one in the middle of an update in place that its
// partition holds. No pod is touched, no revision is made, and the status counts the same.
func TestWhatOpenKruiseLeftNeedsNothing(t *testing.T) {
	var nodes []corev1.Node
	for _, node := range fixtures.All[corev1.Node](t, fixtures.Objects(t, "cluster/state.yaml"), "v1", "Node") {
		nodes = append(nodes, *node)
	}
	for _, state := range []string{"daemonset/state-after-01.yaml", "daemonset/state.yaml"} {
		t.Run(state, func(t *testing.T) {
			objects := fixtures.Objects(t, state)
			set := fixtures.All[appsv1beta1.DaemonSet](t, objects, "apps.kruise.io/v1beta1", "DaemonSet")[0]
			var stored []revision.Revision
			known := map[string]revision.Revision{}
			for _, object := range fixtures.Revisions(t, "daemonset", objects) {
				decoded, err := revision.Decode(object)
				if err != nil {
					t.Fatal(err)
				}
				stored, known[decoded.Name] = append(stored, decoded), decoded
			}
			owner := revision.Owner{Namespace: set.Namespace, Name: set.Name, HashLabel: shared.LabelControllerRevisionHash}
			decision, err := revision.DecideOf(revision.PodTemplates(true), owner, &set.Spec.Template, stored, set.Status.CollisionCount)
			if err != nil || decision.Create != nil || decision.Bump != nil {
				t.Fatalf("revision: %+v, error %v", decision, err)
			}
			all := Nodes(Compile(set), nodes)
			spec := Parse(set, Desired(all), Options{})
			s := Snapshot{
				Snapshot: podset.Snapshot{
					Now: podsettest.Now(), Update: decision.Update, Current: decision.Update, Revisions: known,
					Pods: Pods(spec, fixtures.All[corev1.Pod](t, objects, "v1", "Pod"), nil, podsettest.Now()),
				},
				Nodes:   all,
				PodName: func(node string) string { return "agent-" + node },
			}
			plan := Plan(spec, s)
			for _, action := range plan.Actions {
				t.Errorf("planned: %s", podsettest.ActionLine(action))
			}
			status := Status(spec, s, plan, planning.Outcome{})
			want := set.Status
			want.Conditions, status.Conditions = nil, nil
			want.CollisionCount = ptr.To(ptr.Deref(want.CollisionCount, 0))
			status.CollisionCount = ptr.To(ptr.Deref(status.CollisionCount, 0))
			if diff := cmp.Diff(want, status); diff != "" {
				t.Errorf("status (-OpenKruise +now):\n%s", diff)
			}
		})
	}
}
