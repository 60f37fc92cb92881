// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package scheme knows every type the operator reads or writes.
package scheme

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	operatorv1alpha1 "github.com/kruise-operator/kruise-operator/api/operator/v1alpha1"
	policyv1alpha1 "github.com/kruise-operator/kruise-operator/api/policy/v1alpha1"
	policyv1beta1 "github.com/kruise-operator/kruise-operator/api/policy/v1beta1"
	rolloutsv1alpha1 "github.com/kruise-operator/kruise-operator/api/rollouts/v1alpha1"
	rolloutsv1beta1 "github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
)

// New returns a scheme with the types of Kubernetes and of the operator.
func New() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme,
		appsv1beta1.AddToScheme,
		appsv1alpha1.AddToScheme,
		operatorv1alpha1.AddToScheme,
		policyv1beta1.AddToScheme,
		policyv1alpha1.AddToScheme,
		rolloutsv1beta1.AddToScheme,
		rolloutsv1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("registering types: %w", err)
		}
	}
	return scheme, nil
}
