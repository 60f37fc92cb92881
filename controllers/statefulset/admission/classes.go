// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/kube/pages"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses,verbs=get;list

// annotationDefaultClass marks the storage class of claims without one.
const annotationDefaultClass = "storageclass.kubernetes.io/is-default-class"

// StorageClasses knows the storage classes against growth.
type StorageClasses struct {
	// Reader reads StorageClasses. It should not be cached: it is asked rarely.
	Reader client.Reader
}

const (
	// maxClasses is how many storage classes are looked up for one request.
	maxClasses = 20
	// maxObjects and maxBytes are how many of them are looked at to find the default one, and how many bytes the API server may send of them.
	maxObjects = 1000
	maxBytes   = 6 << 20
)

// check refuses a growing claim template if its storage class does not allow it. An unknown class
// is let in; the controller reports about the claims.
func (s StorageClasses) check(ctx context.Context, claims, old []corev1.PersistentVolumeClaim) field.ErrorList {
	ctx, cancel := context.WithTimeout(ctx, admit.LookupTimeout)
	defer cancel()
	before := byName(old)
	classes := map[string]*storagev1.StorageClass{}
	var errs field.ErrorList
	for i := range claims {
		stored, found := before[claims[i].Name]
		if !found {
			continue
		}
		is, was := claims[i].Spec.Resources.Requests[corev1.ResourceStorage], stored.Spec.Resources.Requests[corev1.ResourceStorage]
		if is.Cmp(was) <= 0 {
			continue
		}
		name := claims[i].Spec.StorageClassName
		key := "named " + ptr.Deref(name, "")
		if name == nil {
			key = "default"
		}
		class, known := classes[key]
		if !known && len(classes) < maxClasses && ctx.Err() == nil {
			class = s.find(ctx, name)
			classes[key] = class
		}
		if class != nil && (class.AllowVolumeExpansion == nil || !*class.AllowVolumeExpansion) {
			errs = append(errs, field.Forbidden(
				field.NewPath("spec", "volumeClaimTemplates").Index(i).Child("spec", "resources", "requests", "storage"),
				fmt.Sprintf("cannot grow from %s to %s: %s does not allow volume expansion", was.String(), is.String(), classInWords(name))))
		}
	}
	return errs
}

// classInWords names a class as the request does: anybody can ask.
func classInWords(name *string) string {
	if name == nil {
		return "the default storage class"
	}
	return "storage class " + *name
}

// byName are claim templates by their names.
func byName(claims []corev1.PersistentVolumeClaim) map[string]*corev1.PersistentVolumeClaim {
	named := make(map[string]*corev1.PersistentVolumeClaim, len(claims))
	for i := range claims {
		if _, found := named[claims[i].Name]; !found {
			named[claims[i].Name] = &claims[i]
		}
	}
	return named
}

// find returns the class by its name, the newest default class for a claim without one, or nil.
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
	var newest *storagev1.StorageClass
	more, err := pages.Read(ctx, s.Reader, &storagev1.StorageClassList{}, pages.Limits{Objects: maxObjects, Bytes: maxBytes}, func(list *storagev1.StorageClassList) bool {
		for i := range list.Items {
			class := &list.Items[i]
			if class.Annotations[annotationDefaultClass] == "true" &&
				(newest == nil || newest.CreationTimestamp.Before(&class.CreationTimestamp)) {
				newest = class.DeepCopy()
			}
		}
		return true
	})
	if err != nil || more {
		ctrl.LoggerFrom(ctx).Info("Letting a claim template grow without a look at all storage classes", "reason", err)
		return nil
	}
	return newest
}
