// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kruise-operator/kruise-operator/api/rollouts/shared"
	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/rollable"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/routing"
)

// percentLimit is the largest percentage of pods in a step with traffic, where new pods replace old ones.
const percentLimit = 50

// validateTraffic checks how requests get to the new version; path is that of the strategy.
func validateTraffic(r *v1beta1.Rollout, path *field.Path) field.ErrorList {
	canary := r.Spec.Strategy.Canary
	at := path.Child("trafficRoutings")
	switch all := canary.TrafficRoutings; {
	case len(all) == 0:
		return nil
	case r.Spec.WorkloadRef.Kind == "DaemonSet":
		return field.ErrorList{field.Forbidden(at, "requests to the pods of a DaemonSet are not routed: leave it out")}
	}
	routes, errs := routing.CheckAll(canary.TrafficRoutings, at)
	if len(errs) > 0 {
		return errs
	}
	row, _ := rollable.Of(r.Spec.WorkloadRef.APIVersion, r.Spec.WorkloadRef.Kind)
	errs = validateShares(r, routing.Fixed(routes), path)
	if r.Spec.Strategy.BlueGreen != nil || row.Extra && canary.EnableExtraWorkloadForCanary {
		return errs
	}
	for i := range canary.Steps {
		if !traffic.ShareOf(canary.Steps[i].TrafficRoutingStrategy).None() {
			errs = append(errs, validatePercent(canary.Steps[i].Replicas, path.Child("steps").Index(i).Child("replicas"))...)
		}
	}
	return errs
}

// validateShares checks the steps against the routes.
func validateShares(r *v1beta1.Rollout, routes []routing.Route, path *field.Path) (errs field.ErrorList) {
	canary := r.Spec.Strategy.Canary
	names := routing.Names(r.Name, canary)
	for i := range canary.Steps {
		errs = append(errs, routing.CheckShare(routes, traffic.ShareOf(canary.Steps[i].TrafficRoutingStrategy), names, path.Child("steps").Index(i))...)
	}
	return errs
}

// unserved are faults of steps by routes with a key for a script.
func unserved(r *v1beta1.Rollout, scripts map[string]string) field.ErrorList {
	r, path := unified(r, field.NewPath("spec", "strategy"))
	canary := r.Spec.Strategy.Canary
	if canary == nil || len(canary.TrafficRoutings) == 0 {
		return nil
	}
	routes, _ := routing.CheckAll(canary.TrafficRoutings, path.Child("trafficRoutings"))
	return validateShares(r, routing.Open(routes, scripts), path)
}

func validatePercent(replicas *intstr.IntOrString, at *field.Path) field.ErrorList {
	if replicas == nil {
		return nil
	}
	if size, percent, err := rollable.Size(*replicas); err != nil || !percent || size <= percentLimit {
		return nil
	}
	why := fmt.Sprintf("must be at most %d%% in a step with traffic, so that old pods can take the other requests", percentLimit)
	return field.ErrorList{field.Invalid(at, replicas.String(), why)}
}

// longestUser is the longest name in a finalizer.
const longestUser = 63

// sharedField is where a Rollout names its TrafficRouting.
func sharedField(r *v1beta1.Rollout) *field.Path {
	strategy := field.NewPath("spec", "strategy")
	switch {
	case r.Spec.Strategy.BlueGreen != nil && r.Spec.Strategy.BlueGreen.TrafficRoutingRef != "":
		return strategy.Child("blueGreen", "trafficRoutingRef")
	case r.Spec.Strategy.Canary != nil && r.Spec.Strategy.Canary.TrafficRoutingRef != "":
		return strategy.Child("canary", "trafficRoutingRef")
	}
	return field.NewPath("metadata", "annotations").Key(shared.AnnotationTrafficRouting)
}

// validateShared checks the name of a TrafficRouting, and of the Rollout: it is in a finalizer there.
func validateShared(r *v1beta1.Rollout) field.ErrorList {
	name := routing.SharedOf(r)
	if name == "" {
		return nil
	}
	if faults := validation.IsDNS1123Subdomain(name); len(faults) > 0 {
		return field.ErrorList{field.Invalid(sharedField(r), name, faults[0])}
	}
	if len(r.Name) > longestUser {
		return field.ErrorList{field.Invalid(sharedField(r), name, fmt.Sprintf("needs a Rollout whose name has at most %d characters", longestUser))}
	}
	return nil
}
