// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package ownership adopts a workload's objects, and releases others.
//
// Nothing is taken from another controller. Before a pass's first adoption the workload is
// read live: a deleted or re-created one adopts nothing. Every write is tied to the UID and
// resourceVersion it was decided on; changed objects wait for the next pass.
package ownership

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
	"github.com/kruise-operator/kruise-operator/internal/kube/writer"
)

// Adopter adopts and releases on behalf of workloads of one kind.
type Adopter struct {
	// Writer writes, and reads past the cache.
	Writer *writer.Writer
}

// Changes are for objects of one kind.
type Changes struct {
	// Kind is the objects' kind.
	Kind schema.GroupVersionKind
	// Adopt are objects without a controller, Release objects the workload controls.
	Adopt, Release []client.Object
}

// IsZero is true if there is nothing to do.
func (c Changes) IsZero() bool { return len(c.Adopt) == 0 && len(c.Release) == 0 }

// Apply carries out changes for the workload with the controller reference. It returns the
// number of adopted and released objects; look at the workload again before planning it.
// One failure does not hold back the others; conflicts and missing objects are no errors.
func (a *Adopter) Apply(ctx context.Context, owner freshness.Owner, reference metav1.OwnerReference, changes Changes) (int, error) {
	var failed []error
	changed := 0
	note := func(done bool, err error) {
		if done {
			changed++
		}
		if err != nil {
			failed = append(failed, err)
		}
	}
	for _, object := range changes.Release {
		note(a.patch(ctx, owner, changes.Kind, object, "releasing", map[string]any{"$patch": "delete", "uid": owner.UID}))
	}
	if len(changes.Adopt) == 0 {
		return changed, errors.Join(failed...)
	}
	may, err := a.mayAdopt(ctx, owner, reference)
	if err != nil {
		return changed, errors.Join(append(failed, err)...)
	}
	if may {
		for _, object := range changes.Adopt {
			note(a.patch(ctx, owner, changes.Kind, object, "adopting", reference))
		}
	}
	return changed, errors.Join(failed...)
}

// mayAdopt looks at the workload live.
func (a *Adopter) mayAdopt(ctx context.Context, owner freshness.Owner, reference metav1.OwnerReference) (bool, error) {
	live, err := a.Writer.Look(ctx, schema.FromAPIVersionAndKind(reference.APIVersion, reference.Kind), owner.NamespacedName)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %s %s before adopting: %w", reference.Kind, owner.Name, err)
	}
	return live.UID == owner.UID && live.DeletionTimestamp == nil, nil
}

// patch changes the ownerReferences of object by one entry; they merge by UID.
func (a *Adopter) patch(ctx context.Context, owner freshness.Owner, kind schema.GroupVersionKind, object client.Object, doing string,
	entry any,
) (done bool, err error) {
	patch := writer.Patch{Type: types.StrategicMergePatchType, Content: map[string]any{"metadata": map[string]any{
		"uid":             object.GetUID(),
		"resourceVersion": object.GetResourceVersion(),
		"ownerReferences": []any{entry},
	}}}
	_, err = a.Writer.Patch(ctx, owner, freshness.RefOf(kind, object), patch)
	switch {
	case err == nil:
		return true, nil
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return false, nil
	default:
		return false, fmt.Errorf("%s %s %s: %w", doing, kind.Kind, object.GetName(), err)
	}
}
