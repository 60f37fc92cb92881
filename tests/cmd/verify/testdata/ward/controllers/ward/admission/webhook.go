// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package admission is admission for Wards.
package admission

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// +kubebuilder:webhook:path=/mutate-apps-kruise-io-v1beta1-ward,mutating=true,groups=apps.kruise.io,resources=wards,verbs=create;update,versions=v1beta1,name=default.wards.apps.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system
// +kubebuilder:webhook:path=/validate-apps-kruise-io-v1beta1-ward,mutating=false,groups=apps.kruise.io,resources=wards,verbs=create;update,versions=v1beta1,name=validate.wards.apps.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system

// Kind are the rules for Wards.
func Kind() admit.Kind[appsv1beta1.Ward, *appsv1beta1.Ward] {
	return admit.Kind[appsv1beta1.Ward, *appsv1beta1.Ward]{
		GroupVersionKind: appsv1beta1.GroupVersion().WithKind("Ward"),
		Default:          func(*appsv1beta1.Ward) {},
		Validate:         func(*appsv1beta1.Ward) field.ErrorList { return nil },
	}
}
