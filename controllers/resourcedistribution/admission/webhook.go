// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package admission is admission for ResourceDistributions: it refuses resources and targets that could never be carried out.
//
// The resource is checked here, as the API server checks ConfigMaps and Secrets. OpenKruise tries to create it in its own namespace.
package admission

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/resourcedistribution/plan"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// +kubebuilder:webhook:path=/mutate-apps-kruise-io-v1beta1-resourcedistribution,mutating=true,groups=apps.kruise.io,resources=resourcedistributions,verbs=create;update,versions=v1beta1,name=default.resourcedistributions.apps.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system
// +kubebuilder:webhook:path=/validate-apps-kruise-io-v1beta1-resourcedistribution,mutating=false,groups=apps.kruise.io,resources=resourcedistributions,verbs=create;update,versions=v1beta1,name=validate.resourcedistributions.apps.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system

// Kind are the rules for ResourceDistributions.
func Kind() admit.Kind[appsv1beta1.ResourceDistribution, *appsv1beta1.ResourceDistribution] {
	return admit.Kind[appsv1beta1.ResourceDistribution, *appsv1beta1.ResourceDistribution]{
		GroupVersionKind: appsv1beta1.GroupVersion().WithKind("ResourceDistribution"),
		Older:            appsv1alpha1.GroupVersion().Version,
		OlderField: func(path string) string {
			return strings.Replace(path, "targets.namespaceSelector", "targets.namespaceLabelSelector", 1)
		},
		Opaque:         []string{"resource"},
		Default:        func(*appsv1beta1.ResourceDistribution) {},
		Validate:       Validate,
		ValidateUpdate: ValidateUpdate,
		Warnings:       Warnings,
	}
}

// Warnings are about permitted parts with a surprising effect. old is nil for a creation.
func Warnings(object, _ *appsv1beta1.ResourceDistribution) []string {
	targets := &object.Spec.Targets
	parsed, err := plan.ParseTargets(targets)
	if err != nil {
		return nil
	}
	var warnings []string
	for _, name := range parsed.Skipped() {
		warnings = append(warnings, fmt.Sprintf("spec.targets.includedNamespaces: %s is a system namespace and gets no copy", name))
	}
	selects := len(targets.NamespaceSelector.MatchLabels)+len(targets.NamespaceSelector.MatchExpressions) > 0
	if targets.AllNamespaces && (selects || len(targets.IncludedNamespaces.List) > 0) {
		warnings = append(warnings, "spec.targets.allNamespaces: chooses every namespace, so includedNamespaces and the selector have no effect")
	}
	if of, _ := identity(object.Spec.Resource.Raw); of.Type == corev1.SecretTypeServiceAccountToken {
		warnings = append(warnings, "spec.resource.type: a Secret of this type needs a service account of the same name in each namespace")
	}
	return warnings
}
