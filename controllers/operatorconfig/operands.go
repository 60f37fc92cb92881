// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package operatorconfig

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/platform/operands"
)

// lookAgain is the wait between looks for others' kinds, such as the Prometheus operator's, and for others' changes.
const lookAgain = 10 * time.Minute

// +kubebuilder:rbac:groups=apps,namespace=kruise-system,resources=deployments,resourceNames=kruise-operator-manager,verbs=get
// +kubebuilder:rbac:groups=networking.k8s.io,namespace=kruise-system,resources=networkpolicies,resourceNames=kruise-operator-metrics,verbs=create;patch;delete
// +kubebuilder:rbac:groups="",namespace=kruise-system,resources=services,resourceNames=kruise-operator-metrics,verbs=create;patch;delete
// +kubebuilder:rbac:groups=monitoring.coreos.com,namespace=kruise-system,resources=servicemonitors,resourceNames=kruise-operator-metrics,verbs=create;patch;delete
// +kubebuilder:rbac:groups=monitoring.coreos.com,namespace=kruise-system,resources=podmonitors,resourceNames=kruise-daemon-metrics,verbs=create;patch;delete
// +kubebuilder:rbac:groups=monitoring.coreos.com,namespace=kruise-system,resources=prometheusrules,resourceNames=kruise-operator-alerts,verbs=create;patch;delete

// Operands keeps the operator's own deployments inside of a cluster.
type Operands struct {
	// Client reads past the cache and writes.
	Client client.Client
	// Deployment is the operator's own; everything applied goes with it.
	Deployment client.ObjectKey
	// MetricsAddress is where this process serves metrics, over https if they are secure.
	MetricsAddress string
	MetricsSecure  bool
}

// Apply applies the wanted objects and deletes the others. Unserved kinds are left out.
func (o *Operands) Apply(ctx context.Context) error {
	deployment := &appsv1.Deployment{}
	if err := o.Client.Get(ctx, o.Deployment, deployment); err != nil {
		return fmt.Errorf("reading the operator's own Deployment: %w", err)
	}
	port, err := operands.PortOf(o.MetricsAddress)
	if err != nil {
		return err
	}
	var failed []error
	for _, base := range operands.Bases() {
		objects, err := operands.Render(base, operands.Values{Namespace: o.Deployment.Namespace, MetricsPort: port, MetricsSecure: o.MetricsSecure})
		if err != nil {
			return err
		}
		if !o.served(objects) {
			continue
		}
		for _, object := range objects {
			if err := o.applyOne(ctx, object, deployment, port > 0); err != nil {
				failed = append(failed, err)
			}
		}
	}
	return errors.Join(failed...)
}

// served: the API server knows the kinds of all objects. A Service without its ServiceMonitor is of no use.
func (o *Operands) served(objects []*unstructured.Unstructured) bool {
	for _, object := range objects {
		kind := object.GroupVersionKind()
		if _, err := o.Client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version); meta.IsNoMatchError(err) {
			return false
		}
	}
	return true
}

func (o *Operands) applyOne(ctx context.Context, object *unstructured.Unstructured, deployment *appsv1.Deployment, wanted bool) error {
	if !wanted {
		if err := o.Client.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting %s %s: %w", object.GetKind(), object.GetName(), err)
		}
		return nil
	}
	// Not blocking: nobody has to wait for these when the operator is removed.
	object.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment", Name: deployment.Name, UID: deployment.UID,
	}})
	err := o.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(shared.FieldManager), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("applying %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}
