// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package admission admits PodProbeMarkers: it fills in the kubelet's defaults for probes and refuses faults.
package admission

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/internal/engine/probing"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// +kubebuilder:webhook:path=/mutate-apps-kruise-io-v1alpha1-podprobemarker,mutating=true,groups=apps.kruise.io,resources=podprobemarkers,verbs=create;update,versions=v1alpha1,name=default.podprobemarkers.apps.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system
// +kubebuilder:webhook:path=/validate-apps-kruise-io-v1alpha1-podprobemarker,mutating=false,groups=apps.kruise.io,resources=podprobemarkers,verbs=create;update,versions=v1alpha1,name=validate.podprobemarkers.apps.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system

// Kind are the rules for PodProbeMarkers. gate is PodProbeMarkerGate. KruiseDaemon off turns it off: nobody would run the probes.
func Kind(gate bool, workloads Workloads) admit.Kind[appsv1alpha1.PodProbeMarker, *appsv1alpha1.PodProbeMarker] {
	return admit.Kind[appsv1alpha1.PodProbeMarker, *appsv1alpha1.PodProbeMarker]{
		GroupVersionKind: appsv1alpha1.GroupVersion().WithKind("PodProbeMarker"),
		Default:          Default,
		Off:              gateOff(gate),
		Validate:         Validate,
		ValidateUpdate:   ValidateUpdate,
		Warnings:         Warnings,
		LookUp:           workloads.check,
	}
}

func gateOff(gate bool) field.ErrorList {
	if gate {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec"), "nothing would be probed: the feature gate PodProbeMarkerGate, or KruiseDaemon, is off")}
}

// Warnings names the accepted parts of a marker without effect.
func Warnings(m, _ *appsv1alpha1.PodProbeMarker) []string {
	var warnings []string
	for i := range m.Spec.Probes {
		if m.Spec.Probes[i].Probe.TerminationGracePeriodSeconds != nil {
			path := field.NewPath("spec", "probes").Index(i).Child("probe", "terminationGracePeriodSeconds")
			warnings = append(warnings, path.String()+": has no effect, because a marker stops no container")
		}
	}
	return warnings
}

// Default fills in the user's omissions.
func Default(m *appsv1alpha1.PodProbeMarker) {
	for i := range m.Spec.Probes {
		probing.Default(&m.Spec.Probes[i].Probe)
	}
}
