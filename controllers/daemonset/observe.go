// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/daemonset/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

// observation is the observed state of a set, with the nodes of the cluster.
type observation struct {
	workload.Observed
	spec  *plan.Spec
	nodes []plan.Node
}

// prepare reads the nodes, pods and revisions of a set. Unless the set is being deleted, it also
// adopts and releases objects and records the template.
func (r *Reconciler) prepare(ctx context.Context, pass *workload.Pass, set *appsv1beta1.DaemonSet) (observed observation, err error) {
	var nodes corev1.NodeList
	if err := r.Client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return observed, fmt.Errorf("listing nodes: %w", err)
	}
	observed.nodes = plan.Nodes(plan.Compile(set), nodes.Items)
	spec := plan.Parse(set, plan.Desired(observed.nodes), r.Options)
	observed.spec = spec
	pods, refused, err := r.OwnPods(ctx, set, &spec.Spec, func(*corev1.Pod) bool { return true })
	if err != nil {
		return observed, err
	}
	recorded := workload.Recorded{
		Template: &set.Spec.Template, Annotations: set.Annotations, CollisionCount: set.Status.CollisionCount,
		HashLabel: shared.LabelControllerRevisionHash, AsWritten: true,
	}
	observed.Observed, err = pass.Observe(ctx, set, recorded, func(now time.Time) []podset.Pod { return plan.Pods(spec, pods, &pass.Memory.Pods, now) })
	if err != nil {
		return observed, err
	}
	observed.Failed = errors.Join(refused, observed.Failed)
	pass.Memory.SawNodes(seenIn(observed))
	return observed, nil
}

// podNames gives new pods names that no pod of the set has.
func podNames(set string, pods []podset.Pod) func(node string) string {
	used := sets.New[string]()
	for i := range pods {
		used.Insert(pods[i].Object.Name)
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
