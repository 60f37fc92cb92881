// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package admission is admission for Batons.
package admission

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// +kubebuilder:webhook:path=/mutate-apps-kruise-io-v1beta1-baton,mutating=true,groups=apps.kruise.io,resources=batons,verbs=create;update,versions=v1beta1,name=default.batons.apps.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system
// +kubebuilder:webhook:path=/validate-apps-kruise-io-v1beta1-baton,mutating=false,groups=apps.kruise.io,resources=batons,verbs=create;update,versions=v1beta1,name=validate.batons.apps.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system

// Kind are the rules for Batons.
func Kind() admit.Kind[appsv1beta1.Baton, *appsv1beta1.Baton] {
	return admit.Kind[appsv1beta1.Baton, *appsv1beta1.Baton]{
		GroupVersionKind: appsv1beta1.GroupVersion().WithKind("Baton"),
		Default:          func(*appsv1beta1.Baton) {},
		Validate:         func(*appsv1beta1.Baton) field.ErrorList { return nil },
	}
}
