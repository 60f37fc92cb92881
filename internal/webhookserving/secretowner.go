// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package webhookserving

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Clusters with the admission plugin OwnerReferencesPermissionEnforcement, such as OpenShift, demand the right
// to delete of anybody changing an object's owners. Nothing here deletes.
// +kubebuilder:rbac:groups="",namespace=kruise-system,resources=secrets,resourceNames=kruise-operator-manager-service-cert,verbs=delete;patch
// +kubebuilder:rbac:groups=apps,namespace=kruise-system,resources=deployments,resourceNames=kruise-operator-manager,verbs=get;list;watch

const (
	// deployment is the Deployment of the managers. Under the Operator Lifecycle Manager the name of the Service comes from it.
	deployment = "kruise-operator-manager"
	// ownerLabel names the ClusterServiceVersion a Deployment was last applied for.
	ownerLabel = "olm.owner"
	// versionKind owners come and go with each version.
	versionKind = "ClusterServiceVersion"
)

// keep makes the running version of the operator own a mounted certificate's Secret.
//
// In an upgrade, the Operator Lifecycle Manager hands everything to the next version but this Secret: the next
// version uses it, and loses it with the version before. A new authority is then made, and the API server calls
// replicas it does not trust until all are replaced again. A second owner, the version in force, keeps the
// Secret, its certificate and authority. The next version's managers add it before they are ready, and nothing
// is deleted until then; the old ones do as soon as the Deployment is the next version's.
//
// A Secret without an owning version is somebody else's, and left alone.
func (s *Serving) keep(ctx context.Context) error {
	if !s.mounted {
		return nil
	}
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error { return s.keepOnce(ctx) })
	if err != nil {
		return fmt.Errorf("keeping the webhook certificate beyond the version it was made for: %w", err)
	}
	return nil
}

func (s *Serving) keepOnce(ctx context.Context) error {
	secret, err := s.metadataOf(ctx, corev1.SchemeGroupVersion.WithKind("Secret"), MountedSecret)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(secret.OwnerReferences, isVersion) {
		return nil
	}
	managers, err := s.metadataOf(ctx, appsv1.SchemeGroupVersion.WithKind("Deployment"), deployment)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(managers.OwnerReferences, func(r metav1.OwnerReference) bool {
		return isVersion(r) && r.Name == managers.Labels[ownerLabel]
	})
	if i < 0 {
		return nil
	}
	owner := managers.OwnerReferences[i]
	if slices.ContainsFunc(secret.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == owner.UID }) {
		return nil
	}
	before := secret.DeepCopy()
	secret.OwnerReferences = append(secret.OwnerReferences, owner)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := s.options.Client.Patch(ctx, secret, patch); err != nil {
		return fmt.Errorf("adding %s to its owners: %w", owner.Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("Kept the webhook certificate beyond the version it was made for", "owner", owner.Name)
	return nil
}

func isVersion(r metav1.OwnerReference) bool { return r.Kind == versionKind }

// metadataOf reads the metadata of an object in the operator's namespace.
func (s *Serving) metadataOf(ctx context.Context, kind schema.GroupVersionKind, name string) (*metav1.PartialObjectMetadata, error) {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind)
	if err := s.options.Client.Get(ctx, s.name(name), object); err != nil {
		return nil, fmt.Errorf("reading who owns %s %s: %w", kind.Kind, name, err)
	}
	return object, nil
}
