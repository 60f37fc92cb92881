// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package admission admits WorkloadSpreads: it refuses faults, also of a patch that does not fit the workload.
package admission

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/spread"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// +kubebuilder:webhook:path=/mutate-apps-kruise-io-v1beta1-workloadspread,mutating=true,groups=apps.kruise.io,resources=workloadspreads,verbs=create;update,versions=v1beta1,name=default.workloadspreads.apps.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system
// +kubebuilder:webhook:path=/validate-apps-kruise-io-v1beta1-workloadspread,mutating=false,groups=apps.kruise.io,resources=workloadspreads,verbs=create;update,versions=v1beta1,name=validate.workloadspreads.apps.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=NoneOnDryRun,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system

// Kind are the rules for WorkloadSpreads. announce registers the hook of a new one; nil: the controller does.
func Kind(gates features.Set, others Others, announce func(context.Context, *unstructured.Unstructured) []string) admit.Kind[appsv1beta1.WorkloadSpread, *appsv1beta1.WorkloadSpread] {
	return admit.Kind[appsv1beta1.WorkloadSpread, *appsv1beta1.WorkloadSpread]{
		GroupVersionKind: spread.Kind(),
		Older:            appsv1alpha1.GroupVersion().Version,
		OlderField:       fieldInV1alpha1,
		Default:          func(*appsv1beta1.WorkloadSpread) {},
		Off:              gateOff(gates),
		Validate:         Validate,
		ValidateUpdate:   ValidateUpdate,
		ChecksMetadata:   true,
		LookUp:           others.check,
		Announce:         announce,
	}
}

func gateOff(gates features.Set) field.ErrorList {
	if gates.Enabled(features.WorkloadSpread) {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec"), "no pod would get a subset: the feature gate WorkloadSpread is off")}
}

// fieldInV1alpha1 is v1alpha1's name of a field.
func fieldInV1alpha1(path string) string {
	return strings.NewReplacer(
		"].requiredNodeSelector", "].requiredNodeSelectorTerm", "].preferredNodeSelector", "].preferredNodeSelectorTerms",
	).Replace(path)
}
