// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the types of operator.kruise.io/v1alpha1: how the operator itself is configured.
// +kubebuilder:object:generate=true
// +groupName=operator.kruise.io
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion returns the group and version of the types in this package.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: "operator.kruise.io", Version: "v1alpha1"}
}

// AddToScheme registers the types of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion(), &Kruise{}, &KruiseList{})
	metav1.AddToGroupVersion(scheme, GroupVersion())
	return nil
}
