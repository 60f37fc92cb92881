// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package nodedaemon

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/kruise-operator/kruise-operator/api/operator/v1alpha1"
	"github.com/kruise-operator/kruise-operator/internal/kube/installowner"
	"github.com/kruise-operator/kruise-operator/internal/platform/operands"
)

// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get
// +kubebuilder:rbac:groups=operator.kruise.io,resources=kruises,verbs=get
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterrolebindings,resourceNames="kruise-operator-manager-service-system:auth-delegator";kruise-operator-manager,verbs=get

// Namespace is the node daemon's namespace; nil if there is none. One made by somebody else
// is an error: its writers could run anything on every node, and read all pull secrets. The
// Kruise object, out of tenants' reach, can name its UID.
func Namespace(ctx context.Context, live client.Reader) (*corev1.Namespace, error) {
	found := &corev1.Namespace{}
	err := live.Get(ctx, client.ObjectKey{Name: operands.DaemonNamespace}, found)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the namespace of the node daemon: %w", err)
	}
	owner, err := installowner.Find(ctx, live)
	if err != nil && !errors.Is(err, installowner.ErrNone) {
		return nil, err
	}
	if err == nil && slices.ContainsFunc(found.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == owner.UID }) {
		return found, nil
	}
	settings := &operatorv1alpha1.Kruise{}
	err = live.Get(ctx, client.ObjectKey{Name: operatorv1alpha1.KruiseName}, settings)
	switch {
	case client.IgnoreNotFound(err) != nil && !meta.IsNoMatchError(err):
		return nil, fmt.Errorf("reading the Kruise object: %w", err)
	case err == nil && settings.Spec.NodeDaemon != nil && settings.Spec.NodeDaemon.NamespaceUID == string(found.UID):
		return found, nil
	}
	return nil, fmt.Errorf("the namespace %s was not made by this installation and is not used: if only administrators may write in it, set "+
		"spec.nodeDaemon.namespaceUID of the Kruise object to its UID, %s; else delete it", found.Name, found.UID)
}
