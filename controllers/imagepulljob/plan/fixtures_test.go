// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/testutil/fixtures"
)

// TestWhatOpenKruiseLeftNeedsNothing: of the fixtures' jobs, three wait for nodes' answers, one ended well, one
// failed on a node. No node is asked again, and the statuses count the same.
func TestWhatOpenKruiseLeftNeedsNothing(t *testing.T) {
	for _, name := range []string{"imagepulljob", "imagepulljob-done"} {
		objects := fixtures.Objects(t, name+"/state.yaml")
		lists := fixtures.All[appsv1beta1.NodeImage](t, objects, "apps.kruise.io/v1beta1", "NodeImage")
		for _, job := range fixtures.All[appsv1beta1.ImagePullJob](t, objects, "apps.kruise.io/v1beta1", "ImagePullJob") {
			spec := Parse(job)
			s := Snapshot{Now: job.CreationTimestamp.Add(30 * time.Second), Released: ended(spec)}
			for _, list := range lists {
				if spec.Chooses(list.Name, list.Labels) {
					s.Nodes = append(s.Nodes, Node{Name: list.Name, Labels: list.Labels, Ready: true, Image: &NodeImage{
						Meta: &list.ObjectMeta, Entry: list.Spec.Images[spec.Image.Repository], Status: list.Status.ImageStatuses[spec.Image.Repository],
					}})
				}
			}
			if len(s.Nodes) != int(job.Status.Desired) {
				t.Errorf("%s is about %d nodes, was about %d", job.Name, len(s.Nodes), job.Status.Desired)
			}
			d := Plan(spec, s)
			for _, action := range d.Actions {
				// Nothing of the finalizer is left to do for a job without pull secrets.
				if action.Step != StepRelease {
					t.Errorf("%s: %s %s", job.Name, action.Step, action.Slot)
				}
			}
			status := Status(spec, s, d, planning.Outcome{})
			status.Conditions, status.ObservedGeneration = nil, 0
			if diff := cmp.Diff(job.Status, status); diff != "" {
				t.Errorf("status of %s (-OpenKruise +ours):\n%s", job.Name, diff)
			}
		}
	}
}
