// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package uniteddeployment

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/controllers/uniteddeployment/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

// openKruise are OpenKruise's field managers for workloads: the names of its program.
func openKruise() []string { return []string{"manager", "kruise-manager"} }

// moveFields takes our applied fields of a workload from OpenKruise; nil when it has none.
// Otherwise a field removed from the template would stay with its other owner. Fields outside of
// the template stay OpenKruise's: nobody takes away its defaults. The workload is read past the
// cache, without managed fields there. This is asked once, after the first apply.
func (r *Reconciler) moveFields(ctx context.Context, child *plan.Child) ([]byte, error) {
	live := workload.Object(child.Adapter.Kind)
	if err := r.Writer.Read(ctx, client.ObjectKeyFromObject(child.Object), live); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil, nil
		}
		return nil, fmt.Errorf("reading who wrote %s %s: %w", child.Adapter.Kind.Kind, child.Object.GetName(), err)
	}
	if live.GetUID() != child.Object.GetUID() {
		return nil, nil
	}
	entries, changed, err := withoutShared(live.GetManagedFields())
	if err != nil {
		return nil, fmt.Errorf("reading who wrote %s %s: %w", child.Adapter.Kind.Kind, child.Object.GetName(), err)
	}
	if !changed {
		return nil, nil
	}
	return json.Marshal([]edit.Operation{
		{Op: "replace", Path: "/metadata/managedFields", Value: entries},
		{Op: "replace", Path: "/metadata/resourceVersion", Value: live.GetResourceVersion()},
	})
}

// around are the fields around others of a set. Their owner keeps them, as null, when the last
// field in them goes.
func around(fields *fieldpath.Set) *fieldpath.Set {
	all := fieldpath.NewSet()
	fields.Iterate(func(path fieldpath.Path) {
		for i := 1; i < len(path); i++ {
			all.Insert(path[:i])
		}
	})
	return all
}

// withoutShared takes our applied fields, and those around them, out of OpenKruise's entries.
func withoutShared(entries []metav1.ManagedFieldsEntry) (left []metav1.ManagedFieldsEntry, changed bool, err error) {
	ours := fieldpath.NewSet()
	for _, entry := range entries {
		if entry.Manager == shared.FieldManagerUnitedDeployment && entry.Operation == metav1.ManagedFieldsOperationApply && entry.FieldsV1 != nil {
			if err := ours.FromJSON(bytes.NewReader(entry.FieldsV1.GetRawBytes())); err != nil {
				return nil, false, err
			}
		}
	}
	ours = ours.Union(around(ours))
	for _, entry := range entries {
		if !slices.Contains(openKruise(), entry.Manager) || entry.Operation != metav1.ManagedFieldsOperationUpdate || entry.Subresource != "" || entry.FieldsV1 == nil {
			left = append(left, entry)
			continue
		}
		theirs := fieldpath.NewSet()
		if err := theirs.FromJSON(bytes.NewReader(entry.FieldsV1.GetRawBytes())); err != nil {
			return nil, false, err
		}
		rest := theirs.Difference(ours)
		changed = changed || !rest.Equals(theirs)
		if rest.Empty() {
			continue
		}
		raw, err := rest.ToJSON()
		if err != nil {
			return nil, false, err
		}
		entry.FieldsV1 = metav1.NewFieldsV1(string(raw))
		left = append(left, entry)
	}
	return left, changed, nil
}
