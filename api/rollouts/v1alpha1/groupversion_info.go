// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the types of rollouts.kruise.io/v1alpha1, the older version that clients may still use.
// +kubebuilder:object:generate=true
// +groupName=rollouts.kruise.io
package v1alpha1

import "k8s.io/apimachinery/pkg/runtime/schema"

// GroupVersion returns the group and version of the types in this package.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: "rollouts.kruise.io", Version: "v1alpha1"}
}
