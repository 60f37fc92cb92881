// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package admission is admission for Abaci.
package admission

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// +kubebuilder:webhook:path=/mutate-apps-kruise-io-v1beta1-abacus,mutating=true,groups=apps.kruise.io,resources=abaci,verbs=create;update,versions=v1beta1,name=default.abaci.apps.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system
// +kubebuilder:webhook:path=/validate-apps-kruise-io-v1beta1-abacus,mutating=false,groups=apps.kruise.io,resources=abaci,verbs=create;update,versions=v1beta1,name=validate.abaci.apps.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system

// Kind are the rules for Abaci.
func Kind() admit.Kind[appsv1beta1.Abacus, *appsv1beta1.Abacus] {
	return admit.Kind[appsv1beta1.Abacus, *appsv1beta1.Abacus]{
		GroupVersionKind: appsv1beta1.GroupVersion().WithKind("Abacus"),
		Default:          func(*appsv1beta1.Abacus) {},
		Validate:         func(*appsv1beta1.Abacus) field.ErrorList { return nil },
	}
}
