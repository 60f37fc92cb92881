// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package admission admits TrafficRoutings: it refuses what their routes cannot do.
package admission

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1alpha1"
	"github.com/kruise-operator/kruise-operator/controllers/trafficrouting/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/routing"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// +kubebuilder:webhook:path=/mutate-rollouts-kruise-io-v1alpha1-trafficrouting,mutating=true,groups=rollouts.kruise.io,resources=trafficroutings,verbs=create;update,versions=v1alpha1,name=default.trafficroutings.rollouts.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system
// +kubebuilder:webhook:path=/validate-rollouts-kruise-io-v1alpha1-trafficrouting,mutating=false,groups=rollouts.kruise.io,resources=trafficroutings,verbs=create;update,versions=v1alpha1,name=validate.trafficroutings.rollouts.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system

// Kind are the rules for TrafficRoutings.
func Kind() admit.Kind[v1alpha1.TrafficRouting, *v1alpha1.TrafficRouting] {
	return admit.Kind[v1alpha1.TrafficRouting, *v1alpha1.TrafficRouting]{
		GroupVersionKind: plan.Kind(),
		Default:          func(*v1alpha1.TrafficRouting) {},
		Validate:         Validate,
		ValidateUpdate:   ValidateUpdate,
	}
}

// Validate returns the faults visible in the object alone.
func Validate(o *v1alpha1.TrafficRouting) field.ErrorList {
	spec := field.NewPath("spec")
	at := spec.Child("objectRef")
	if len(o.Spec.ObjectRef) == 0 {
		return field.ErrorList{field.Required(at, "the Service and its routes")}
	}
	routes, errs := routing.CheckAll(o.Spec.ObjectRef, at)
	share, at := plan.Share(o.Spec.Strategy), spec.Child("strategy")
	if share.None() {
		errs = append(errs, field.Required(at, "weight or matches"))
	}
	if len(errs) > 0 {
		return errs
	}
	errs = routing.CheckShare(routes, share, plan.Names(o), at)
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
