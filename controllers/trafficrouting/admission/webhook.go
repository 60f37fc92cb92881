// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package admission admits TrafficRoutings: it refuses what their routes cannot do.
package admission

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1alpha1"
	"github.com/kruise-operator/kruise-operator/controllers/trafficrouting/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/routing"
	"github.com/kruise-operator/kruise-operator/internal/kube/routes"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// +kubebuilder:webhook:path=/mutate-rollouts-kruise-io-v1alpha1-trafficrouting,mutating=true,groups=rollouts.kruise.io,resources=trafficroutings,verbs=create;update,versions=v1alpha1,name=default.trafficroutings.rollouts.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system
// +kubebuilder:webhook:path=/validate-rollouts-kruise-io-v1alpha1-trafficrouting,mutating=false,groups=rollouts.kruise.io,resources=trafficroutings,verbs=create;update,versions=v1alpha1,name=validate.trafficroutings.rollouts.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system

// Kind are the rules for TrafficRoutings. judge knows the scripts for routes.
func Kind(judge routes.Judge) admit.Kind[v1alpha1.TrafficRouting, *v1alpha1.TrafficRouting] {
	return admit.Kind[v1alpha1.TrafficRouting, *v1alpha1.TrafficRouting]{
		GroupVersionKind: plan.Kind(),
		Default:          func(*v1alpha1.TrafficRouting) {},
		Validate:         Validate,
		ValidateUpdate:   ValidateUpdate,
		LookUp: func(ctx context.Context, o, old *v1alpha1.TrafficRouting) (field.ErrorList, []string) {
			ctx, cancel := context.WithTimeout(ctx, admit.LookupTimeout)
			defer cancel()
			return judge.Faults(ctx, func(scripts map[string]string) field.ErrorList {
				return admit.IntroducedBy(func(o *v1alpha1.TrafficRouting) field.ErrorList { return unserved(o, scripts) }, o, old)
			}), nil
		},
	}
}

// Validate returns the faults visible in the object alone.
func Validate(o *v1alpha1.TrafficRouting) field.ErrorList {
	spec := field.NewPath("spec")
	at := spec.Child("objectRef")
	if len(o.Spec.ObjectRef) == 0 {
		return field.ErrorList{field.Required(at, "the Service and its routes")}
	}
	all, errs := routing.CheckAll(o.Spec.ObjectRef, at)
	if at = spec.Child("strategy"); plan.Share(o.Spec.Strategy).None() {
		errs = append(errs, field.Required(at, "weight or matches"))
	}
	if len(errs) > 0 {
		return errs
	}
	return validateShare(o, routing.Fixed(all))
}

// unserved are faults of routes with a key for a script.
func unserved(o *v1alpha1.TrafficRouting, scripts map[string]string) field.ErrorList {
	all, _ := routing.CheckAll(o.Spec.ObjectRef, field.NewPath("spec", "objectRef"))
	if len(all) == 0 {
		return nil
	}
	return validateShare(o, routing.Open(all, scripts))
}

// validateShare checks the strategy against the routes.
func validateShare(o *v1alpha1.TrafficRouting, all []routing.Route) field.ErrorList {
	errs := routing.CheckShare(all, plan.Share(o.Spec.Strategy), plan.Names(o), field.NewPath("spec", "strategy"))
	for _, err := range errs { // providers know a weight by its name in a Rollout
		if path, found := strings.CutSuffix(err.Field, ".traffic"); found {
			err.Field = path + ".weight"
		}
	}
	return errs
}

// ValidateUpdate returns what may not change while a Rollout uses it.
func ValidateUpdate(o, old *v1alpha1.TrafficRouting) field.ErrorList {
	switch old.Status.Phase {
	case "", v1alpha1.TrafficRoutingPhaseInitial, v1alpha1.TrafficRoutingPhaseHealthy:
		return nil
	}
	if equality.Semantic.DeepEqual(o.Spec.ObjectRef, old.Spec.ObjectRef) {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec", "objectRef"), "cannot be changed while a Rollout uses it")}
}
