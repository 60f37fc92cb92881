// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package resourcedistribution

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/resourcedistribution/plan"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/quantity"
)

// storedTargets reads the targets of a stored distribution. Unreadable ones choose nothing: the pass reports it.
func storedTargets(stored *unstructured.Unstructured) plan.Targets {
	written := &appsv1beta1.ResourceDistributionTargets{}
	if field, _, _ := unstructured.NestedMap(stored.Object, "spec", "targets"); quantity.FromUnstructured(field, written) != nil {
		written = &appsv1beta1.ResourceDistributionTargets{}
	}
	targets, _ := plan.ParseTargets(written)
	return targets
}

// byNamespace names the distributions that choose a namespace. For a change it is asked about the namespace before and after.
func (r *Reconciler) byNamespace(ctx context.Context, namespace client.Object) []types.NamespacedName {
	return r.Concerned(ctx, "", func(stored *unstructured.Unstructured) bool {
		return r.targets.Of(stored).Chooses(namespace.GetName(), namespace.GetLabels())
	})
}

// copies adds up the statuses of all distributions.
func (r *Reconciler) copies(set func(value float64, labels ...string)) {
	stored := r.Counted()
	for _, state := range []string{"desired", "succeeded", "failed"} {
		set(workload.Sum(stored, state), state)
	}
}
