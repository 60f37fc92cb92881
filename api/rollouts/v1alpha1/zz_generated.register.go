// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Code generated from the kinds in controllers by `make generate`. DO NOT EDIT.

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// AddToScheme registers the types of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion(),
		&BatchRelease{}, &BatchReleaseList{},
		&Rollout{}, &RolloutList{},
		&TrafficRouting{}, &TrafficRoutingList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion())
	return nil
}
