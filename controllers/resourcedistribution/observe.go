// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package resourcedistribution

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/controllers/resourcedistribution/plan"
	"github.com/kruise-operator/kruise-operator/internal/kube/cache"
	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

// observe reads the namespaces and the copies of a distribution.
func (r *Reconciler) observe(ctx context.Context, pass *workload.Pass, spec *plan.Spec) (plan.Snapshot, error) {
	s := plan.Snapshot{Now: r.Clock.Now(), Copies: map[string]plan.Copy{}}
	if spec.Deleting || spec.Invalid != nil {
		return s, nil
	}
	if err := r.readNamespaces(ctx, &s); err != nil {
		return s, err
	}
	if spec.Kind == plan.KindSecret() {
		return s, r.lookUp(ctx, pass, spec, &s)
	}
	return s, r.readCopies(ctx, spec, &s)
}

func (r *Reconciler) readNamespaces(ctx context.Context, s *plan.Snapshot) error {
	kind := corev1.SchemeGroupVersion.WithKind("Namespace")
	if err := r.WatchLate(ctx, workload.Metadata(kind), r.byNamespace); err != nil {
		return err
	}
	list := listOf(kind)
	if err := r.Cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing namespaces: %w", err)
	}
	s.Namespaces = make(map[string]plan.Namespace, len(list.Items))
	for i := range list.Items {
		namespace := &list.Items[i]
		s.Namespaces[namespace.Name] = plan.Namespace{Labels: namespace.Labels, Terminating: namespace.DeletionTimestamp != nil}
	}
	return nil
}

// readCopies reads the watched copies: of these the cache has the metadata, and never the data.
func (r *Reconciler) readCopies(ctx context.Context, spec *plan.Spec, s *plan.Snapshot) error {
	object := workload.Metadata(spec.Kind)
	err := r.WatchLate(ctx, object, r.Controller, cache.IndexByController)
	if errors.Is(err, workload.ErrDenied) {
		err = fmt.Errorf("bind the ClusterRole %s to the operator's account: %w", plan.ConfigMapsRole, err)
	}
	if err != nil {
		return err
	}
	list, owner := listOf(spec.Kind), freshness.OwnerOf(spec.Object)
	if err := cache.Controlled(ctx, r.Cache, list, "", owner.UID); err != nil {
		return fmt.Errorf("listing copies: %w", err)
	}
	deleted := r.Tracker.Deleted(owner, spec.Kind, func(yield func(metav1.Object) bool) {
		for i := range list.Items {
			if !yield(&list.Items[i]) {
				return
			}
		}
	})
	for i := range list.Items {
		if object := &list.Items[i]; object.Name == spec.Name {
			c := plan.Observe(spec, object)
			c.Terminating = c.Terminating || deleted.Has(object.UID)
			s.Copies[object.Namespace] = c
		}
	}
	return nil
}

func listOf(kind schema.GroupVersionKind) *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	return list
}
