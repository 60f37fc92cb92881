// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/testutil/fixtures"
)

// TestWhatOpenKruiseLeftNeedsNothing: the fixtures' nodes and jobs exist, so neither tags nor labels are written.
func TestWhatOpenKruiseLeftNeedsNothing(t *testing.T) {
	nodes := fixtures.All[corev1.Node](t, fixtures.Objects(t, "cluster/state.yaml"), "v1", "Node")
	for _, name := range []string{"imagepulljob", "imagepulljob-done"} {
		objects := fixtures.Objects(t, name+"/state.yaml")
		working := map[types.UID]bool{}
		for _, job := range fixtures.All[appsv1beta1.ImagePullJob](t, objects, "apps.kruise.io/v1beta1", "ImagePullJob") {
			working[job.UID] = job.Status.CompletionTime == nil
		}
		for _, list := range fixtures.All[appsv1beta1.NodeImage](t, objects, "apps.kruise.io/v1beta1", "NodeImage") {
			s := Snapshot{
				// Node fx-n1 is not in the state of the cluster.
				Node: list.Name == "fx-n1", Labels: list.Labels,
				Gone:    func(o corev1.ObjectReference) bool { _, found := working[o.UID]; return !found },
				Working: func(o corev1.ObjectReference) bool { return working[o.UID] },
			}
			for _, node := range nodes {
				if node.Name == list.Name {
					s.Node, s.Labels = true, node.Labels
				}
			}
			tags := 0
			for _, entry := range list.Spec.Images {
				for _, tag := range entry.Tags {
					s.Now = tag.CreatedAt.Add(5 * time.Minute)
					tags++
				}
			}
			if !s.Node || tags == 0 {
				t.Fatalf("%s has %d tags; its node is there: %t", list.Name, tags, s.Node)
			}
			d := Plan(list, s)
			for _, action := range d.Actions {
				t.Errorf("%s: %s", list.Name, action.Step)
			}
			if len(d.GivenUp) > 0 || d.NeedsDaemon {
				t.Errorf("%s: given up are %v; without a job it needs a daemon: %t", list.Name, d.GivenUp, d.NeedsDaemon)
			}
		}
	}
}
