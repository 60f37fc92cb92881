// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the types of apps.kruise.io/v1alpha1. It is served for manifests and clients that were written for
// it; the operator itself works with v1beta1.
// +kubebuilder:object:generate=true
// +groupName=apps.kruise.io
package v1alpha1

import "k8s.io/apimachinery/pkg/runtime/schema"

// GroupVersion returns the group and version of the types in this package.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: "apps.kruise.io", Version: "v1alpha1"}
}
