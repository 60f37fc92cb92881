// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podunavailablebudget

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/controllers/podunavailablebudget/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/disruption"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/kube/listed"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

const (
	// poll is when to look again at workloads nobody watches.
	poll = 30 * time.Second
	// settle is how long API servers take to learn of the registration.
	settle = time.Second
)

// scale is a workload's.
type scale struct {
	// replicas below 0: its kind has none.
	replicas int32
	selector labels.Selector
	gone     bool
}

// observe reads the budget's pods, and how many there should be.
func (r *Reconciler) observe(ctx context.Context, pass *workload.Pass, b *disruption.Budget) (plan.Snapshot, error) {
	s := plan.Snapshot{Observed: disruption.Observed{Now: r.Clock.Now()}}
	var wait time.Duration
	s.Registering, s.NotRegistered, wait = r.hooks.state(b)
	s.LinkedOnly = s.NotRegistered == ""
	if !r.gates.Delete && !r.gates.Update {
		s.Off = "Nothing is protected: the feature gates PodUnavailableBudgetDeleteGate and PodUnavailableBudgetUpdateGate are off."
	}
	if b.Invalid != nil {
		return s, nil
	}
	pass.LookAgain(wait)
	if err := r.watchWorkloads(ctx); err != nil {
		return s, err
	}
	of, err := r.target(ctx, pass, b)
	if err != nil {
		s.Unknown = err.Error()
		pass.LookAgain(poll)
		return s, nil
	}
	s.Total, s.Gone = of.replicas, of.gone
	if of.gone {
		return s, nil
	}
	if err := r.readPods(ctx, b, of.selector, &s); err != nil {
		return s, err
	}
	if _, _, byTarget := b.Target(); !byTarget && b.Total == nil {
		if s.Total, err = r.sum(ctx, pass, b, s.Pods); err != nil {
			s.Unknown = err.Error()
			pass.LookAgain(poll)
		}
	}
	return s, nil
}

// target is the scale of the budget's target, or the selector of a budget without one.
func (r *Reconciler) target(ctx context.Context, pass *workload.Pass, b *disruption.Budget) (scale, error) {
	kind, name, byTarget := b.Target()
	if !byTarget {
		return scale{selector: b.Selector}, nil
	}
	of, err := r.scaleOf(ctx, pass, kind, types.NamespacedName{Namespace: b.Namespace, Name: name})
	switch {
	case err != nil:
		return of, err
	case of.replicas == 0:
		of.gone = true
	case of.selector == nil || of.selector.Empty():
		return of, fmt.Errorf("%s %s does not say which pods are its own, so they cannot be counted: select them by spec.selector", kind.Kind, name)
	}
	return of, nil
}

// readPods reads the pods that the selector matches and the budget covers.
func (r *Reconciler) readPods(ctx context.Context, b *disruption.Budget, selector labels.Selector, s *plan.Snapshot) error {
	list := &corev1.PodList{}
	err := r.Cache.List(ctx, list, client.InNamespace(b.Namespace), client.MatchingLabelsSelector{Selector: selector}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return fmt.Errorf("listing the pods of the budget: %w", err)
	}
	all, err := r.BudgetsOf(ctx, b.Namespace)
	if err != nil {
		return err
	}
	for i := range list.Items {
		pod := &list.Items[i]
		if !b.Covers(pod) {
			continue
		}
		s.Pods = append(s.Pods, pod)
		if first := disruption.Of(all, pod); first != nil && first.Name == b.Name {
			s.Linked = append(s.Linked, pod)
		}
	}
	return nil
}

// sum adds up the replicas of the workloads of active pods.
func (r *Reconciler) sum(ctx context.Context, pass *workload.Pass, b *disruption.Budget, pods []*corev1.Pod) (total int32, err error) {
	counted := sets.New[string]()
	for _, pod := range pods {
		of := metav1.GetControllerOfNoCopy(pod)
		if of == nil || pod.DeletionTimestamp != nil || podstate.Finished(pod) {
			continue
		}
		kind, name := disruption.Workload(pod, of)
		key := kind.String() + "/" + name
		if counted.Has(key) {
			continue
		}
		counted.Insert(key)
		is, err := r.scaleOf(ctx, pass, kind, types.NamespacedName{Namespace: b.Namespace, Name: name})
		if err == nil && is.gone && kind.Kind == "Deployment" { // orphaned ReplicaSets count by themselves
			replicaSet := schema.FromAPIVersionAndKind(of.APIVersion, of.Kind).GroupKind()
			is, err = r.scaleOf(ctx, pass, replicaSet, types.NamespacedName{Namespace: b.Namespace, Name: of.Name})
		}
		if err != nil {
			return 0, err
		}
		if !is.gone {
			total += max(is.replicas, 0)
		}
	}
	return total, nil
}

// scaleOf is the scale of a workload: of ours and of watched ones as the cache has them, else the server is asked.
func (r *Reconciler) scaleOf(ctx context.Context, pass *workload.Pass, kind schema.GroupKind, name types.NamespacedName) (scale, error) {
	isWatched := slices.Contains(watched(), kind)
	if !isWatched {
		pass.LookAgain(poll)
	}
	if kind.Group == "apps.kruise.io" && r.enabled(kind.Kind) {
		return r.ownScale(ctx, kind, name)
	}
	if isWatched {
		stored := workload.Metadata(kind.WithVersion("v1"))
		err := r.Cache.Get(ctx, name, stored, client.UnsafeDisableDeepCopy)
		if apierrors.IsNotFound(err) || err == nil && stored.DeletionTimestamp != nil {
			return scale{gone: true}, nil
		}
	}
	return r.askScale(ctx, kind, name)
}

// ownScale reads a workload of ours.
func (r *Reconciler) ownScale(ctx context.Context, kind schema.GroupKind, name types.NamespacedName) (scale, error) {
	stored := workload.Object(kind.WithVersion("v1beta1"))
	err := r.Cache.Get(ctx, name, stored, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) || err == nil && stored.GetDeletionTimestamp() != nil {
		return scale{gone: true}, nil
	}
	if err != nil {
		return scale{}, fmt.Errorf("reading %s %s: %w", kind.Kind, name.Name, err)
	}
	of := scale{replicas: -1, selector: workload.SelectorOf(stored)}
	if kind.Kind != "DaemonSet" && kind.Kind != "BroadcastJob" {
		replicas, found, _ := unstructured.NestedInt64(stored.Object, "spec", "replicas")
		if !found {
			replicas = 1
		}
		of.replicas = int32(min(replicas, math.MaxInt32)) //nolint:gosec // it is cut
	}
	return of, nil
}

// askScale asks for the subresource scale. A kind that is not served has no objects.
func (r *Reconciler) askScale(ctx context.Context, kind schema.GroupKind, name types.NamespacedName) (scale, error) {
	mapping, err := r.Client.RESTMapper().RESTMapping(kind)
	if meta.IsNoMatchError(err) {
		return scale{gone: true}, nil
	}
	if err != nil {
		return scale{}, fmt.Errorf("asking whether %s is served: %w", kind, err)
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(mapping.GroupVersionKind)
	object.SetNamespace(name.Namespace)
	object.SetName(name.Name)
	replicas, selector, err := listed.Scale(ctx, r.Client, object)
	var status apierrors.APIStatus
	switch {
	case apierrors.IsNotFound(err) && errors.As(err, &status) && (status.Status().Details == nil || status.Status().Details.Name == ""):
		return scale{replicas: -1}, nil // The kind has no such subresource.
	case apierrors.IsNotFound(err):
		return scale{gone: true}, nil
	case apierrors.IsForbidden(err):
		return scale{}, fmt.Errorf("the scale of %s %s cannot be read: an administrator gives the operator the right to get %s/scale, or spec.selector and "+
			"spec.protectTotalReplicas do without it: %w", kind.Kind, name.Name, mapping.Resource.GroupResource(), err)
	case err != nil:
		return scale{}, fmt.Errorf("reading the scale of %s %s: %w", kind.Kind, name.Name, err)
	}
	return scale{replicas: replicas, selector: selector}, nil
}
