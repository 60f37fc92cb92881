// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package admission is admission for DaemonSets of apps.kruise.io: it fills in defaults and refuses impossible objects.
//
// Beside what holds for all kinds (package admission): a template that the API server would refuse is refused, when it is new. Without an
// answer it is let in, and the controller reports.
package admission

import (
	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// +kubebuilder:webhook:path=/mutate-apps-kruise-io-v1beta1-daemonset,mutating=true,groups=apps.kruise.io,resources=daemonsets,verbs=create;update,versions=v1beta1,name=default.daemonsets.apps.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system
// +kubebuilder:webhook:path=/validate-apps-kruise-io-v1beta1-daemonset,mutating=false,groups=apps.kruise.io,resources=daemonsets,verbs=create;update,versions=v1beta1,name=validate.daemonsets.apps.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system

// Kind are the rules for DaemonSets.
func Kind() admit.Kind[appsv1beta1.DaemonSet, *appsv1beta1.DaemonSet] {
	return admit.Kind[appsv1beta1.DaemonSet, *appsv1beta1.DaemonSet]{
		GroupVersionKind: appsv1beta1.GroupVersion().WithKind("DaemonSet"),
		Older:            appsv1alpha1.GroupVersion().Version,
		OlderField:       inV1alpha1,
		OlderText:        textInV1alpha1,
		Default:          Default,
		Validate:         Validate,
		Warnings:         Warnings,
		Templates: func(set *appsv1beta1.DaemonSet) admit.Templates {
			return admit.Templates{Pod: &set.Spec.Template}
		},
		RefuseTemplates: true,
	}
}
