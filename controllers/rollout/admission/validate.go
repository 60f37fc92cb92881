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
	"github.com/kruise-operator/kruise-operator/controllers/rollout/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/rollable"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/routing"
)

const (
	noBeside  = "is for a Deployment of apps and a CloneSet of apps.kruise.io"
	noBoth    = "cannot stand beside canary"
	inRelease = "cannot be changed while a release goes on"
)

// Validate returns the faults visible in the object alone.
func Validate(r *v1beta1.Rollout) field.ErrorList {
	spec := field.NewPath("spec")
	errs := validateWorkload(r.Spec.WorkloadRef, spec.Child("workloadRef"))
	errs = append(errs, validateShared(r)...)
	path := spec.Child("strategy")
	if r.Spec.Strategy.Canary == nil && r.Spec.Strategy.BlueGreen == nil {
		return append(errs, field.Required(path.Child("canary"), "the steps of a release"))
	}
	if r.Spec.Strategy.BlueGreen != nil {
		row, known := rollable.Of(r.Spec.WorkloadRef.APIVersion, r.Spec.WorkloadRef.Kind)
		switch {
		case r.Spec.Strategy.Canary != nil:
			return append(errs, field.Forbidden(path.Child("blueGreen"), noBoth))
		case known && !row.Beside:
			return append(errs, field.Forbidden(path.Child("blueGreen"), noBeside))
		}
	}
	r, path = unified(r, path)
	canary := r.Spec.Strategy.Canary
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
	return append(errs, validateSteps(canary.Steps, r.Spec.Strategy.BlueGreen != nil, path.Child("steps"))...)
}

// unified is a Rollout in the form of the strategy canary, with the path of its own strategy.
func unified(r *v1beta1.Rollout, path *field.Path) (*v1beta1.Rollout, *field.Path) {
	if r.Spec.Strategy.BlueGreen == nil {
		return r, path.Child("canary")
	}
	r = r.DeepCopy()
	plan.Unify(r)
	r.Spec.Strategy.Canary.FailureThreshold = r.Spec.Strategy.BlueGreen.FailureThreshold
	return r, path.Child("blueGreen")
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

// validateSteps checks the steps. zero: traffic may be 0%, as all old pods are there.
func validateSteps(steps []v1beta1.CanaryStep, zero bool, path *field.Path) field.ErrorList {
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
		if traffic := steps[i].Traffic; traffic != nil && (!zero || *traffic != "0%") {
			if _, percent, err := rollable.Size(intstr.FromString(*traffic)); err != nil || !percent {
				from := "must be from 1% to 100%"
				if zero {
					from = "must be from 0% to 100%"
				}
				errs = append(errs, field.Invalid(at.Child("traffic"), *traffic, from))
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
	keep := func(same bool, at *field.Path, why string) {
		if !same {
			errs = append(errs, field.Forbidden(at, why))
		}
	}
	keep(r.Spec.WorkloadRef == old.Spec.WorkloadRef, spec.Child("workloadRef"), inRelease)
	sameStyle := (r.Spec.Strategy.BlueGreen == nil) == (old.Spec.Strategy.BlueGreen == nil)
	old, _ = unified(old, spec)
	r, path := unified(r, spec.Child("strategy"))
	now, was := r.Spec.Strategy.Canary, old.Spec.Strategy.Canary
	if !sameStyle || now == nil || was == nil {
		return append(errs, field.Forbidden(spec.Child("strategy"), inRelease))
	}
	keep(now.EnableExtraWorkloadForCanary == was.EnableExtraWorkloadForCanary, path.Child("enableExtraWorkloadForCanary"), inRelease)
	keep(equality.Semantic.DeepEqual(now.TrafficRoutings, was.TrafficRoutings), path.Child("trafficRoutings"), inRelease)
	keep(routing.SharedOf(r) == routing.SharedOf(old), sharedField(r), inRelease)
	keep(len(now.Steps) == len(was.Steps), path.Child("steps"), fmt.Sprintf("their number %s: there are %d", inRelease, len(was.Steps)))
	return errs
}
