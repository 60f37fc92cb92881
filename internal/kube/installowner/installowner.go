// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package installowner finds the installation owner: a cluster-scoped object created and
// deleted with the operator's installation. Objects that must not outlive the operator,
// such as a webhook configuration refusing pods while no replica answers, have it as their
// only owner: the garbage collector deletes them with it, even while the operator is down.
// docs/adr/0008-installation-owner.md explains the choice.
//
// Its controllers need the right to get ClusterRoleBindings of these names.
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

// ErrNone means this installation has no such owner. Write nothing then that could outlive the
// operator.
var ErrNone = errors.New("the installation has no object that goes with it")

// names are the possible ClusterRoleBindings, in order: the Operator Lifecycle Manager's
// for an operator with webhooks, and a plain install's. Under OLM v0 the second does not
// exist.
func names() []string {
	return []string{"kruise-operator-manager-service-system:auth-delegator", "kruise-operator-manager"}
}

// Find returns the owner reference for objects to go with the operator. The reader must be
// live: a reference to a missing object has its holder collected at once.
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
