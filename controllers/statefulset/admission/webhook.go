// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package admission is admission for StatefulSets of apps.kruise.io: it fills in defaults and refuses impossible objects.
//
// Beside what holds for all kinds (package admission): a template that the API server would refuse is let in with a warning, as OpenKruise
// lets it in.
package admission

import (
	"context"

	"k8s.io/apimachinery/pkg/util/validation/field"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/statefulset/plan"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// +kubebuilder:webhook:path=/mutate-apps-kruise-io-v1beta1-statefulset,mutating=true,groups=apps.kruise.io,resources=statefulsets,verbs=create;update,versions=v1beta1,name=default.statefulsets.apps.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system
// +kubebuilder:webhook:path=/validate-apps-kruise-io-v1beta1-statefulset,mutating=false,groups=apps.kruise.io,resources=statefulsets,verbs=create;update,versions=v1beta1,name=validate.statefulsets.apps.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system

// Kind are the rules for StatefulSets.
func Kind(o plan.Options, classes StorageClasses) admit.Kind[appsv1beta1.StatefulSet, *appsv1beta1.StatefulSet] {
	return admit.Kind[appsv1beta1.StatefulSet, *appsv1beta1.StatefulSet]{
		GroupVersionKind: appsv1beta1.GroupVersion().WithKind("StatefulSet"),
		Older:            appsv1alpha1.GroupVersion().Version,
		NewerFields: []string{
			"lifecycle", "ordinals", "persistentVolumeClaimRetentionPolicy", "reserveOrdinals", "scaleStrategy", "volumeClaimUpdateStrategy",
		},
		Default:        func(set *appsv1beta1.StatefulSet) { Default(set, o) },
		Validate:       Validate,
		ValidateCreate: ValidateCreate,
		ValidateUpdate: func(set, old *appsv1beta1.StatefulSet) field.ErrorList { return ValidateUpdate(set, old, o) },
		LookUp: func(ctx context.Context, set, old *appsv1beta1.StatefulSet) (field.ErrorList, []string) {
			if old == nil || !resizes(set, o) {
				return nil, nil
			}
			return classes.check(ctx, set.Spec.VolumeClaimTemplates, old.Spec.VolumeClaimTemplates), nil
		},
		Warnings: func(set, old *appsv1beta1.StatefulSet) []string { return Warnings(set, old, o) },
		Templates: func(set *appsv1beta1.StatefulSet) admit.Templates {
			return admit.Templates{Pod: &set.Spec.Template, Claims: set.Spec.VolumeClaimTemplates}
		},
	}
}
