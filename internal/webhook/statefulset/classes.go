// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package statefulset

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/webhook/workload"
)

// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses,verbs=get;list

// annotationDefaultClass marks the storage class of claims that name none.
const annotationDefaultClass = "storageclass.kubernetes.io/is-default-class"

// StorageClasses knows which storage classes forbid to expand volumes.
type StorageClasses struct {
	// Reader reads StorageClasses. It should not be cached: it is asked rarely.
	Reader client.Reader
}

// check refuses a claim template that grows although its storage class says that its volumes cannot. What cannot be found out is
// let in; the controller reports what then happens to the claims.
func (s StorageClasses) check(ctx context.Context, claims, old []corev1.PersistentVolumeClaim) field.ErrorList {
	ctx, cancel := context.WithTimeout(ctx, workload.LookupTimeout)
	defer cancel()
	var errs field.ErrorList
	for i := range claims {
		at := slices.IndexFunc(old, func(c corev1.PersistentVolumeClaim) bool { return c.Name == claims[i].Name })
		if at < 0 {
			continue
		}
		is, was := claims[i].Spec.Resources.Requests[corev1.ResourceStorage], old[at].Spec.Resources.Requests[corev1.ResourceStorage]
		if is.Cmp(was) <= 0 {
			continue
		}
		class := s.find(ctx, claims[i].Spec.StorageClassName)
		if class != nil && (class.AllowVolumeExpansion == nil || !*class.AllowVolumeExpansion) {
			errs = append(errs, field.Forbidden(
				field.NewPath("spec", "volumeClaimTemplates").Index(i).Child("spec", "resources", "requests", "storage"),
				fmt.Sprintf("cannot grow from %s to %s: storage class %s does not allow volume expansion", was.String(), is.String(), class.Name)))
		}
	}
	return errs
}

// find returns the class by its name, the newest default class for a claim that names none, or nil.
func (s StorageClasses) find(ctx context.Context, name *string) *storagev1.StorageClass {
	if name != nil {
		class := &storagev1.StorageClass{}
		if err := s.Reader.Get(ctx, client.ObjectKey{Name: *name}, class); err != nil {
			if !apierrors.IsNotFound(err) {
				ctrl.LoggerFrom(ctx).Error(err, "Letting a claim template grow without a look at its storage class")
			}
			return nil
		}
		return class
	}
	var all storagev1.StorageClassList
	if err := s.Reader.List(ctx, &all); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Letting a claim template grow without a look at the storage classes")
		return nil
	}
	var newest *storagev1.StorageClass
	for i := range all.Items {
		class := &all.Items[i]
		if class.Annotations[annotationDefaultClass] == "true" &&
			(newest == nil || newest.CreationTimestamp.Before(&class.CreationTimestamp)) {
			newest = class
		}
	}
	return newest
}
