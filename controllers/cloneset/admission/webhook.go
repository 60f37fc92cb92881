// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package admission is admission for CloneSets: it fills in defaults and refuses impossible objects.
//
// Beside what holds for all kinds (package admission): a template that the API server would refuse is refused, when it is new. Without an
// answer it is let in, and the controller reports.
package admission

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// +kubebuilder:webhook:path=/mutate-apps-kruise-io-v1beta1-cloneset,mutating=true,groups=apps.kruise.io,resources=clonesets,verbs=create;update,versions=v1beta1,name=default.clonesets.apps.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system
// +kubebuilder:webhook:path=/validate-apps-kruise-io-v1beta1-cloneset,mutating=false,groups=apps.kruise.io,resources=clonesets,verbs=create;update,versions=v1beta1,name=validate.clonesets.apps.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system

// Kind are the rules for CloneSets. preDownload is the gate PreDownloadImageForInPlaceUpdate: the fields imagePreDownload* are honored.
func Kind(preDownload bool, pods Pods) admit.Kind[appsv1beta1.CloneSet, *appsv1beta1.CloneSet] {
	return admit.Kind[appsv1beta1.CloneSet, *appsv1beta1.CloneSet]{
		GroupVersionKind: appsv1beta1.GroupVersion().WithKind("CloneSet"),
		Older:            appsv1alpha1.GroupVersion().Version,
		OlderField:       inV1alpha1,
		OlderText:        func(_, text string) string { return strings.ReplaceAll(text, "podUpdatePolicy", "updateStrategy.type") },
		Keep:             Keep,
		Default:          Default,
		Validate:         Validate,
		ValidateUpdate:   ValidateUpdate,
		LookUp: func(ctx context.Context, set, old *appsv1beta1.CloneSet) (field.ErrorList, []string) {
			return pods.check(ctx, set, old), nil
		},
		Warnings: func(set, old *appsv1beta1.CloneSet) []string { return Warnings(set, old, preDownload) },
		Templates: func(set *appsv1beta1.CloneSet) admit.Templates {
			return admit.Templates{Pod: &set.Spec.Template, Claims: set.Spec.VolumeClaimTemplates}
		},
		RefuseTemplates: true,
	}
}
