// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/rollable"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/routing"
)

const (
	noBlueGreen = "releases with two full sets of pods are not part of this version of the operator"
	inRelease   = "cannot be changed while a release goes on"
)

// Validate returns the faults visible in the object alone.
func Validate(r *v1beta1.Rollout) field.ErrorList {
	spec := field.NewPath("spec")
	errs := validateWorkload(r.Spec.WorkloadRef, spec.Child("workloadRef"))
	errs = append(errs, validateShared(r)...)
	canary, path := r.Spec.Strategy.Canary, spec.Child("strategy")
	switch {
	case r.Spec.Strategy.BlueGreen != nil:
		return append(errs, field.Forbidden(path.Child("blueGreen"), noBlueGreen))
	case canary == nil:
		return append(errs, field.Required(path.Child("canary"), "the steps of a release"))
	}
	path = path.Child("canary")
	if canary.FailureThreshold != nil && *canary.FailureThreshold != intstr.FromInt32(0) {
		if _, _, err := rollable.Size(*canary.FailureThreshold); err != nil {
			errs = append(errs, field.Invalid(path.Child("failureThreshold"), canary.FailureThreshold.String(), err.Error()))
		}
	}
	if patch := canary.PatchPodTemplateMetadata; patch != nil {
		at := path.Child("patchPodTemplateMetadata")
		errs = append(errs, metav1validation.ValidateLabels(patch.Labels, at.Child("labels"))...)
	}
	errs = append(errs, validateTraffic(r, path)...)
	return append(errs, validateSteps(canary.Steps, path.Child("steps"))...)
}

func validateWorkload(ref v1beta1.ObjectRef, path *field.Path) field.ErrorList {
	if ref.APIVersion == "" || ref.Kind == "" || ref.Name == "" {
		return field.ErrorList{field.Invalid(path, ref, "apiVersion, kind and name must not be empty")}
	}
	if faults := validation.IsDNS1123Subdomain(ref.Name); len(faults) > 0 {
		return field.ErrorList{field.Invalid(path.Child("name"), ref.Name, faults[0])}
	}
	if _, known := rollable.Of(ref.APIVersion, ref.Kind); !known {
		return field.ErrorList{field.Invalid(path, ref, "must be one of "+rollable.Names())}
	}
	return nil
}

func validateSteps(steps []v1beta1.CanaryStep, path *field.Path) field.ErrorList {
	if len(steps) == 0 {
		return field.ErrorList{field.Required(path, "at least one step")}
	}
	var errs field.ErrorList
	for i := range steps {
		at := path.Index(i)
		if steps[i].Replicas == nil {
			errs = append(errs, field.Required(at.Child("replicas"), "how many pods have the new version after the step"))
			continue
		}
		size, percent, err := rollable.Size(*steps[i].Replicas)
		if err != nil {
			errs = append(errs, field.Invalid(at.Child("replicas"), steps[i].Replicas.String(), err.Error()))
			continue
		}
		if i > 0 && steps[i-1].Replicas != nil {
			before, same, err := rollable.Size(*steps[i-1].Replicas)
			if err == nil && same == percent && size < before {
				errs = append(errs, field.Invalid(at.Child("replicas"), steps[i].Replicas.String(), "must not be less than in the step before: "+steps[i-1].Replicas.String()))
			}
		}
		if steps[i].Traffic != nil {
			if share, percent, err := rollable.Size(intstr.FromString(*steps[i].Traffic)); err != nil || !percent || share == 0 {
				errs = append(errs, field.Invalid(at.Child("traffic"), *steps[i].Traffic, "must be from 1% to 100%"))
			}
		}
	}
	return errs
}

// ValidateUpdate returns what may not change while a release goes on.
func ValidateUpdate(r, old *v1beta1.Rollout) field.ErrorList {
	if !slices.Contains([]v1beta1.RolloutPhase{v1beta1.RolloutPhaseProgressing, v1beta1.RolloutPhaseDisabling, v1beta1.RolloutPhaseTerminating}, old.Status.Phase) {
		return nil
	}
	var errs field.ErrorList
	spec := field.NewPath("spec")
	if r.Spec.WorkloadRef != old.Spec.WorkloadRef {
		errs = append(errs, field.Forbidden(spec.Child("workloadRef"), inRelease))
	}
	now, was, path := r.Spec.Strategy.Canary, old.Spec.Strategy.Canary, spec.Child("strategy", "canary")
	if now == nil || was == nil {
		return append(errs, field.Forbidden(spec.Child("strategy"), inRelease))
	}
	if now.EnableExtraWorkloadForCanary != was.EnableExtraWorkloadForCanary {
		errs = append(errs, field.Forbidden(path.Child("enableExtraWorkloadForCanary"), inRelease))
	}
	if !equality.Semantic.DeepEqual(now.TrafficRoutings, was.TrafficRoutings) {
		errs = append(errs, field.Forbidden(path.Child("trafficRoutings"), inRelease))
	}
	if routing.SharedOf(r) != routing.SharedOf(old) {
		errs = append(errs, field.Forbidden(sharedField(r), inRelease))
	}
	if len(now.Steps) != len(was.Steps) {
		errs = append(errs, field.Forbidden(path.Child("steps"), fmt.Sprintf("their number %s: there are %d", inRelease, len(was.Steps))))
	}
	return errs
}
