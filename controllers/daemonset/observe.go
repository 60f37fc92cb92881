// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/daemonset/plan"
	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

// observation is the observed state of a set.
type observation struct {
	spec      *plan.Spec
	snapshot  plan.Snapshot
	revisions workload.Revisions
	// failed is a fault with a still useful observation.
	failed error
}

// prepare reads the nodes, pods and revisions of a set. Unless the set is being deleted, it also
// adopts and releases objects and records the template.
func (r *Reconciler) prepare(ctx context.Context, set *appsv1beta1.DaemonSet, mem *workload.Memory) (observation, error) {
	owner := freshness.OwnerOf(set)
	var nodes corev1.NodeList
	if err := r.Client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return observation{}, fmt.Errorf("listing nodes: %w", err)
	}
	var observed observation
	observed.snapshot.Nodes = plan.Nodes(plan.Compile(set), nodes.Items)
	observed.spec = plan.Parse(set, plan.Desired(observed.snapshot.Nodes), r.Options)

	pods, toRelease, err := r.ControlledPods(ctx, owner, observed.spec.Selector)
	if err != nil {
		return observation{}, err
	}
	if !observed.spec.Deleting && observed.spec.Selector != nil {
		all := func(*corev1.Pod) bool { return true }
		if observed.failed, err = r.AdoptAndRelease(ctx, set, observed.spec.Selector, toRelease, all); err != nil {
			return observation{}, err
		}
	}

	recorded := workload.Recorded{
		Template: &set.Spec.Template, Annotations: set.Annotations, CollisionCount: set.Status.CollisionCount,
		HashLabel: shared.LabelControllerRevisionHash, AsWritten: true,
	}
	if observed.revisions, err = r.EnsureRevision(ctx, set, recorded); err != nil {
		return observation{}, err
	}
	observed.failed = errors.Join(observed.failed, observed.revisions.Refused)
	now := r.Clock.Now()
	observed.snapshot.Snapshot = observed.revisions.Snapshot(now, plan.Pods(observed.spec, pods, &mem.Pods, now), observed.revisions.Update.Name)
	r.MarkDeleted(owner, observed.snapshot.Pods)
	mem.SawNodes(seenIn(observed.snapshot))
	observed.snapshot.PodName = podNames(set.Name, observed.snapshot)
	return observed, nil
}

// podNames gives new pods names that no pod of the set has.
func podNames(set string, s plan.Snapshot) func(node string) string {
	used := sets.New[string]()
	for i := range s.Pods {
		used.Insert(s.Pods[i].Object.Name)
	}
	return func(string) string {
		for {
			if name := plan.NamePrefix(set) + rand.String(plan.LengthOfSuffix); !used.Has(name) {
				used.Insert(name)
				return name
			}
		}
	}
}
