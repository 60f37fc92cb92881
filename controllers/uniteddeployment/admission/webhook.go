// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package admission is admission for UnitedDeployments: it fills in defaults and refuses impossible objects.
//
// It does not validate the spec of a template. A dry run asks the API server whether it would create the workloads, so the schema and the
// admission of their own kind decide. Without an answer the object is admitted, and the controller reports faults.
package admission

import (
	"context"

	"k8s.io/apimachinery/pkg/util/validation/field"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/united"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// +kubebuilder:webhook:path=/mutate-apps-kruise-io-v1beta1-uniteddeployment,mutating=true,groups=apps.kruise.io,resources=uniteddeployments,verbs=create;update,versions=v1beta1,name=default.uniteddeployments.apps.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system
// +kubebuilder:webhook:path=/validate-apps-kruise-io-v1beta1-uniteddeployment,mutating=false,groups=apps.kruise.io,resources=uniteddeployments,verbs=create;update,versions=v1beta1,name=validate.uniteddeployments.apps.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system

// Kind are the rules for UnitedDeployments.
func Kind(workloads Workloads) admit.Kind[appsv1beta1.UnitedDeployment, *appsv1beta1.UnitedDeployment] {
	return admit.Kind[appsv1beta1.UnitedDeployment, *appsv1beta1.UnitedDeployment]{
		GroupVersionKind: united.Kind(),
		Default:          Default,
		Validate:         Validate,
		ValidateUpdate:   ValidateUpdate,
		LookUp: func(ctx context.Context, set, old *appsv1beta1.UnitedDeployment) (field.ErrorList, []string) {
			if errs := ValidateSum(set, old); len(errs) > 0 {
				return errs, nil
			}
			return workloads.check(ctx, set, old), nil
		},
		Warnings: Warnings,
	}
}
