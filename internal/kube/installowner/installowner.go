// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package installowner finds the installation owner: the cluster-scoped object that is created and deleted with the installation of the
// operator. Whatever must not outlive the operator, such as a webhook configuration on pods that refuses them while no replica answers,
// has it as its only owner. The garbage collector then deletes that object together with its owner, whether the operator runs or not.
// docs/adr/0008-installation-owner.md says why it is this object.
//
// A controller that uses it needs the right to get ClusterRoleBindings of these names.
package installowner

import (
	"context"
	"errors"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ErrNone means that this installation has no such owner. Nothing may then be written that could outlive the operator.
var ErrNone = errors.New("the installation has no object that goes with it")

// names are the ClusterRoleBindings that can be the owner, in order: the one that the Operator Lifecycle Manager makes for an operator with
// webhooks, and the one of an install without it. Under OLM v0 the second does not exist.
func names() []string {
	return []string{"kruise-operator-manager-service-system:auth-delegator", "kruise-operator-manager"}
}

// Find returns the reference to put into the owners of what must go with the operator. The reader must see the API server's present
// state: a reference to an object that is gone has its owner collected at once.
func Find(ctx context.Context, reader client.Reader) (metav1.OwnerReference, error) {
	for _, name := range names() {
		binding := &rbacv1.ClusterRoleBinding{}
		err := reader.Get(ctx, client.ObjectKey{Name: name}, binding)
		if apierrors.IsNotFound(err) || err == nil && binding.DeletionTimestamp != nil {
			continue
		}
		if err != nil {
			return metav1.OwnerReference{}, fmt.Errorf("looking for the installation owner: %w", err)
		}
		return metav1.OwnerReference{
			APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding", Name: binding.Name, UID: binding.UID,
		}, nil
	}
	return metav1.OwnerReference{}, ErrNone
}
