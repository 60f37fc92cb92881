// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podunavailablebudget

import (
	"context"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/policy/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/disruption"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

// gather collects changes of workloads.
const gather = 200 * time.Millisecond

// changed reports whether a pod's change matters to a budget: whether it counts, is about to leave, or is linked.
func changed(before, after *corev1.Pod) bool {
	now := time.Now() // both are judged at one time, whichever
	return disruption.Available(before, now) != disruption.Available(after, now) || before.Status.Phase != after.Status.Phase ||
		(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
		!maps.Equal(before.Labels, after.Labels) || disruption.Linked(before) != disruption.Linked(after) ||
		before.Annotations[v1beta1.AnnotationBudgetFailurePolicy] != after.Annotations[v1beta1.AnnotationBudgetFailurePolicy]
}

// budgetsOf names the budgets that cover a pod.
func (r *Reconciler) budgetsOf(ctx context.Context, object client.Object) []types.NamespacedName {
	pod, is := object.(*corev1.Pod)
	if !is {
		return nil
	}
	return r.named(ctx, pod.Namespace, func(b *disruption.Budget) bool { return b.Covers(pod) })
}

// workloadChanged names the budgets a workload's replicas may decide about.
func (r *Reconciler) workloadChanged(ctx context.Context, object client.Object) []types.NamespacedName {
	return r.named(ctx, object.GetNamespace(), func(b *disruption.Budget) bool {
		_, name, byTarget := b.Target()
		return byTarget && name == object.GetName() || !byTarget && b.Total == nil
	})
}

func (r *Reconciler) named(ctx context.Context, namespace string, concerned func(*disruption.Budget) bool) []types.NamespacedName {
	budgets, err := r.BudgetsOf(ctx, namespace)
	if err != nil {
		return nil // Passes over all budgets come.
	}
	var names []types.NamespacedName
	for _, b := range budgets {
		if concerned(b) {
			names = append(names, client.ObjectKeyFromObject(b))
		}
	}
	return names
}

// watched are kinds of workloads; their changes trigger passes.
func watched() []schema.GroupKind {
	return []schema.GroupKind{
		{Group: "apps", Kind: "Deployment"}, {Group: "apps", Kind: "StatefulSet"},
		{Group: "apps.kruise.io", Kind: "CloneSet"}, {Group: "apps.kruise.io", Kind: "StatefulSet"},
	}
}

// watchWorkloads watches workloads from the first budget on.
func (r *Reconciler) watchWorkloads(ctx context.Context) error {
	for _, kind := range watched() {
		var err error
		switch {
		case kind.Group == "apps":
			err = r.WatchLateGathering(ctx, workload.Metadata(kind.WithVersion("v1")), r.workloadChanged, gather)
		case r.enabled(kind.Kind):
			err = r.WatchLateSpecs(ctx, workload.Object(kind.WithVersion("v1beta1")), r.workloadChanged)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
