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

// The right to delete is for clusters with the admission plugin OwnerReferencesPermissionEnforcement, such as OpenShift: there, whoever
// changes the owners of an object must be allowed to delete it. Nothing here deletes.
// +kubebuilder:rbac:groups="",namespace=kruise-system,resources=secrets,resourceNames=kruise-operator-manager-service-cert,verbs=delete;patch
// +kubebuilder:rbac:groups=apps,namespace=kruise-system,resources=deployments,resourceNames=kruise-operator-manager,verbs=get;list;watch

const (
	// deployment is the Deployment of the managers. Under the Operator Lifecycle Manager the name of the Service comes from it.
	deployment = "kruise-operator-manager"
	// ownerLabel names the ClusterServiceVersion that a Deployment was last applied for.
	ownerLabel = "olm.owner"
	// versionKind is the kind of owner that comes and goes with each version.
	versionKind = "ClusterServiceVersion"
)

// keep has the Secret of a mounted certificate belong to the version of the operator that runs.
//
// In an upgrade, the Operator Lifecycle Manager hands everything it made for one version to the next, but not the Secret of the
// certificate: the next version uses it as it is, and it is deleted with the version before. A new authority is made then, and replicas
// that nobody trusts are called until all of them have been replaced once more. A Secret that the version in force owns, too, stays, and
// with it authority and certificate. The managers of the next version do this before they are ready, and nothing is deleted until then;
// those of the version before do it as soon as the Deployment is the next one's.
//
// A Secret that no version owns is left alone: somebody else brings it.
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
