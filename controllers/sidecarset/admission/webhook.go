// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package admission admits SidecarSets: it fills in defaults and refuses faults.
//
// Beyond the rules for all kinds (package admission), it dry-runs a pod with the set's
// containers and volumes, and refuses sets adding the same names to the same pods.
package admission

import (
	"context"
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecarspec"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// +kubebuilder:webhook:path=/mutate-apps-kruise-io-v1beta1-sidecarset,mutating=true,groups=apps.kruise.io,resources=sidecarsets,verbs=create;update,versions=v1beta1,name=default.sidecarsets.apps.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system
// +kubebuilder:webhook:path=/validate-apps-kruise-io-v1beta1-sidecarset,mutating=false,groups=apps.kruise.io,resources=sidecarsets,verbs=create;update,versions=v1beta1,name=validate.sidecarsets.apps.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=NoneOnDryRun,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system

// textInV1alpha1 explains a fault to v1alpha1 clients, who may know no namespaceSelector.
func textInV1alpha1(path, text string) string {
	if strings.HasPrefix(path, "spec.namespaceSelector") {
		return text + "; spec.namespace of v1alpha1 is the label kubernetes.io/metadata.name in it"
	}
	return text
}

// Kind returns the rules for SidecarSets. announce injects a new set before it is stored; nil: the controller does.
func Kind(others Others, announce func(context.Context, *unstructured.Unstructured) []string) admit.Kind[appsv1beta1.SidecarSet, *appsv1beta1.SidecarSet] {
	return admit.Kind[appsv1beta1.SidecarSet, *appsv1beta1.SidecarSet]{
		GroupVersionKind: appsv1beta1.GroupVersion().WithKind("SidecarSet"),
		Older:            appsv1alpha1.GroupVersion().Version,
		OlderText:        textInV1alpha1,
		Default:          func(set *appsv1beta1.SidecarSet) { sidecarspec.Default(&set.Spec) },
		Validate:         Validate,
		ValidateUpdate:   ValidateUpdate,
		LookUp:           others.check,
		Announce:         announce,
		Warnings:         Warnings,
		ChecksMetadata:   true,
		Templates:        Templates,
		RefuseTemplates:  true,
	}
}

// placeholder stands for the pod's own containers in dry runs.
const placeholder = "kruise-operator-check"

// Templates is a pod with only the set's additions, for a dry run.
func Templates(set *appsv1beta1.SidecarSet) admit.Templates {
	spec := corev1.PodSpec{Volumes: set.Spec.Volumes}
	for i := range set.Spec.InitContainers {
		spec.InitContainers = append(spec.InitContainers, set.Spec.InitContainers[i].Container)
	}
	for i := range set.Spec.Containers {
		spec.Containers = append(spec.Containers, set.Spec.Containers[i].Container)
	}
	spec.Containers = append(spec.Containers, corev1.Container{Name: placeholder, Image: placeholder})
	return admit.Templates{
		Pod:   &corev1.PodTemplateSpec{Spec: spec},
		Field: func(path string) string { return "spec." + strings.TrimPrefix(path, "spec.template.spec.") },
	}
}

func isObject(text string) bool {
	var object map[string]json.RawMessage
	return json.Unmarshal([]byte(text), &object) == nil && object != nil
}
