// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/rollout/routing"
	"github.com/kruise-operator/kruise-operator/internal/engine/rollable"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic"
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
	case len(all) > 1:
		return field.ErrorList{field.TooMany(at, len(all), 1)}
	case r.Spec.WorkloadRef.Kind == "DaemonSet":
		return field.ErrorList{field.Forbidden(at, "requests to the pods of a DaemonSet are not routed: leave it out")}
	}
	routes := routing.Of(canary.TrafficRoutings[0], at.Index(0))
	errs := validateRouting(canary.TrafficRoutings[0], routes, at.Index(0))
	if len(errs) > 0 {
		return errs
	}
	row, _ := rollable.Of(r.Spec.WorkloadRef.APIVersion, r.Spec.WorkloadRef.Kind)
	names, extra := routing.Names(r.Name, canary), row.Extra && canary.EnableExtraWorkloadForCanary
	for i := range canary.Steps {
		step := path.Child("steps").Index(i)
		share := traffic.ShareOf(canary.Steps[i].TrafficRoutingStrategy)
		errs = append(errs, traffic.Check(share, step)...)
		for _, route := range routes {
			errs = append(errs, route.Check(share, names, step)...)
		}
		if !extra && !share.None() {
			errs = append(errs, validatePercent(canary.Steps[i].Replicas, step.Child("replicas"))...)
		}
	}
	return errs
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

// validateRouting checks one of the trafficRoutings by itself.
func validateRouting(ref v1beta1.TrafficRoutingRef, routes []routing.Route, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if ref.Service == "" {
		errs = append(errs, field.Required(at.Child("service"), "the Service of the workload"))
	} else if faults := validation.IsDNS1123Label(ref.Service); len(faults) > 0 {
		errs = append(errs, field.Invalid(at.Child("service"), ref.Service, faults[0]))
	}
	if ref.GracePeriodSeconds < 0 {
		errs = append(errs, field.Invalid(at.Child("gracePeriodSeconds"), ref.GracePeriodSeconds, "must not be negative"))
	}
	if len(routes) == 0 {
		errs = append(errs, field.Required(at, "one of ingress, gateway.httpRouteName and customNetworkRefs"))
	}
	seen := map[string]bool{}
	for _, route := range routes {
		key := route.Kind.GroupKind().String() + "/" + route.Name
		faults := validation.IsDNS1123Subdomain(route.Name)
		switch {
		case route.Kind.Kind == "" || route.Kind.Version == "":
			errs = append(errs, field.Invalid(route.Field, route.Kind.String(), "apiVersion and kind must not be empty"))
		case route.Name == "":
			errs = append(errs, field.Required(route.Field, "the name of the "+route.Kind.Kind))
		case len(faults) > 0:
			errs = append(errs, field.Invalid(route.Field, route.Name, faults[0]))
		case seen[key]:
			errs = append(errs, field.Duplicate(route.Field, route.Name))
		}
		seen[key] = true
	}
	return errs
}
