// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package uniteddeployment

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/controllers/uniteddeployment/plan"
)

// openKruise are the field managers under which OpenKruise has written workloads: the name of its program, and of its deployment.
func openKruise() sets.Set[string] { return sets.New("manager", "kruise-manager") }

// moveFields is the patch that makes the fields ours which OpenKruise wrote in a workload, nil when there are none. Without it, a field that is
// taken out of the template would stay: an apply removes only what its field manager has applied. The workload is read past the cache,
// which does not keep who wrote what. This is asked of a workload only until it is applied for the first time.
func (r *Reconciler) moveFields(ctx context.Context, child *plan.Child) ([]byte, error) {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(child.Adapter.Kind)
	if err := r.Writer.Read(ctx, client.ObjectKeyFromObject(child.Object), live); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil, nil
		}
		return nil, fmt.Errorf("reading who wrote %s %s: %w", child.Adapter.Kind.Kind, child.Object.GetName(), err)
	}
	if live.GetUID() != child.Object.GetUID() {
		return nil, nil
	}
	wrote := slices.ContainsFunc(live.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return openKruise().Has(entry.Manager) && entry.Operation == metav1.ManagedFieldsOperationUpdate && entry.Subresource == ""
	})
	if !wrote {
		return nil, nil
	}
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(live, openKruise(), shared.FieldManagerUnitedDeployment)
	if err != nil {
		return nil, fmt.Errorf("moving the fields of %s %s: %w", child.Adapter.Kind.Kind, child.Object.GetName(), err)
	}
	return patch, nil
}
