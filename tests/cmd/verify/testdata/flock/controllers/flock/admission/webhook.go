// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package admission is admission for Flocks.
package admission

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// +kubebuilder:webhook:path=/mutate-apps-kruise-io-v1beta1-flock,mutating=true,groups=apps.kruise.io,resources=flocks,verbs=create;update,versions=v1beta1,name=default.flocks.apps.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system
// +kubebuilder:webhook:path=/validate-apps-kruise-io-v1beta1-flock,mutating=false,groups=apps.kruise.io,resources=flocks,verbs=create;update,versions=v1beta1,name=validate.flocks.apps.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system

// Kind are the rules for Flocks.
func Kind() admit.Kind[appsv1beta1.Flock, *appsv1beta1.Flock] {
	return admit.Kind[appsv1beta1.Flock, *appsv1beta1.Flock]{
		GroupVersionKind: appsv1beta1.GroupVersion().WithKind("Flock"),
		Default:          func(*appsv1beta1.Flock) {},
		Validate:         func(*appsv1beta1.Flock) field.ErrorList { return nil },
	}
}
