// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package cloneset

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/webhook/workload"
)

// +kubebuilder:rbac:groups="",resources=pods,verbs=get

// Pods knows which pods an update may ask to delete.
type Pods struct {
	// Reader reads Pods. It should not be cached: what it is asked about was just read by a user.
	Reader client.Reader
}

// check refuses names that an update adds to podsToDelete and that are not pods of the set which are there to stay. What cannot be
// found out is let in; the controller deletes no pod but its own.
func (p Pods) check(ctx context.Context, set, old *appsv1beta1.CloneSet) field.ErrorList {
	ctx, cancel := context.WithTimeout(ctx, workload.LookupTimeout)
	defer cancel()
	path := field.NewPath("spec", "scaleStrategy", "podsToDelete")
	var errs field.ErrorList
	for _, name := range set.Spec.ScaleStrategy.PodsToDelete {
		if slices.Contains(old.Spec.ScaleStrategy.PodsToDelete, name) {
			continue
		}
		pod := &corev1.Pod{}
		err := p.Reader.Get(ctx, client.ObjectKey{Namespace: set.Namespace, Name: name}, pod)
		switch {
		case apierrors.IsNotFound(err):
			errs = append(errs, field.Invalid(path, name, "there is no such pod"))
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
