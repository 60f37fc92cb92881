// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"context"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/rand"
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

// memory is the memory of a set between its passes, for its own sake alone: its loss costs a name.
type memory struct {
	// names are the future pods', by node: an unused one is used again, for a retry under the same
	// name after a lost response.
	names map[string]string
}

// remembered returns the memory of a set.
func remembered(m *workload.Memory) *memory {
	return workload.Own(m, func() *memory { return &memory{names: map[string]string{}} })
}

// prepare reads the nodes, pods and revisions of a set. Unless the set is being deleted, it also
// adopts and releases objects and records the template.
func (r *Reconciler) prepare(ctx context.Context, set *appsv1beta1.DaemonSet, mem *workload.Memory) (observation, error) {
	owner := freshness.OwnerOf(set)
	var nodes corev1.NodeList
	if err := r.Client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return observation{}, fmt.Errorf("listing nodes: %w", err)
	}
	own := remembered(mem)
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
	observed.snapshot.Snapshot = observed.revisions.Snapshot(now, plan.Pods(observed.spec, pods, &mem.Pods, now), "")
	r.MarkDeleted(owner, observed.snapshot.Pods)
	mem.SawNodes(seenIn(observed.snapshot))
	observed.snapshot.PodName = own.podNames(set.Name, observed.snapshot)
	return observed, nil
}

// podNames are names for new pods, one for each node until a pod has it or the node is gone.
func (m *memory) podNames(set string, s plan.Snapshot) func(node string) string {
	used := make(map[string]bool, len(s.Pods))
	for i := range s.Pods {
		used[s.Pods[i].Object.Name] = true
	}
	if len(m.names) > 0 {
		exist := make(map[string]bool, len(s.Nodes))
		for i := range s.Nodes {
			exist[s.Nodes[i].Name] = true
		}
		maps.DeleteFunc(m.names, func(node, name string) bool { return used[name] || !exist[node] })
	}
	for _, name := range m.names {
		used[name] = true
	}
	return func(node string) string {
		if name, ok := m.names[node]; ok {
			return name
		}
		for {
			if name := plan.NamePrefix(set) + rand.String(plan.LengthOfSuffix); !used[name] {
				used[name], m.names[node] = true, name
				return name
			}
		}
	}
}
