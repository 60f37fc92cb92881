// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/kube/pages"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// +kubebuilder:rbac:groups="",resources=pods,verbs=get

// Pods knows the pods an update may ask to delete.
type Pods struct {
	// Reader reads Pods. It should not be cached: a user has just read them.
	Reader client.Reader
}

const (
	// maxLookups is how many names are looked up for one request, each by a question to the API server.
	maxLookups = 100
	// maxBytes is how many bytes of metadata the API server may send for them.
	maxBytes = 4 << 20
)

// check refuses new names in podsToDelete, except for living pods of the set. Unknown ones, and
// names after the first maxLookups or maxBytes, are let in; the controller deletes only its own
// pods.
func (p Pods) check(ctx context.Context, set, old *appsv1beta1.CloneSet) field.ErrorList {
	if old == nil {
		return nil // it has no pods yet
	}
	ctx, cancel := context.WithTimeout(ctx, admit.LookupTimeout)
	defer cancel()
	path := field.NewPath("spec", "scaleStrategy", "podsToDelete")
	budget := pages.Budget{Bytes: maxBytes}
	var errs field.ErrorList
	for _, name := range firstAdded(set.Spec.ScaleStrategy.PodsToDelete, old.Spec.ScaleStrategy.PodsToDelete) {
		if ctx.Err() != nil {
			return errs
		}
		pod := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}
		fits, err := budget.Get(ctx, p.Reader, client.ObjectKey{Namespace: set.Namespace, Name: name}, pod)
		switch {
		case !fits:
			return errs
		case apierrors.IsNotFound(err):
			errs = append(errs, field.Invalid(path, name, "there is no such pod"))
		case ctx.Err() != nil:
			return errs
		case err != nil:
			ctrl.LoggerFrom(ctx).Error(err, "Letting a name into podsToDelete without a look at the pod", "pod", name)
		case !metav1.IsControlledBy(pod, old):
			errs = append(errs, field.Invalid(path, name, "is not a pod of this CloneSet"))
		case pod.DeletionTimestamp != nil:
			errs = append(errs, field.Invalid(path, name, "is being deleted already"))
		}
	}
	return errs
}

// firstAdded are the first maxLookups names outside of before.
func firstAdded(names, before []string) []string {
	added := slices.DeleteFunc(slices.Clone(names), sets.New(before...).Has)
	return added[:min(len(added), maxLookups)]
}
