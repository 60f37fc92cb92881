// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic"
)

// CheckShare says what is wrong with a share for routes; path is that of the step.
func CheckShare(routes []Route, share traffic.Share, names traffic.Names, path *field.Path) field.ErrorList {
	errs := traffic.Check(share, path)
	for _, route := range routes {
		errs = append(errs, route.Check(share, names, path)...)
	}
	return errs
}

// Check finds the routes of a reference, and its faults.
func Check(ref v1beta1.TrafficRoutingRef, at *field.Path) ([]Route, field.ErrorList) {
	routes := Of(ref, at)
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
	return routes, errs
}
