// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic"
)

// Fixed are routes without a key for a script.
func Fixed(all []Route) []Route {
	return slices.DeleteFunc(slices.Clone(all), func(r Route) bool { return r.Key != "" })
}

// Open are the others, without those that have a script: only that knows what it can do.
func Open(all []Route, scripts map[string]string) []Route {
	return slices.DeleteFunc(slices.Clone(all), func(r Route) bool {
		_, scripted := scripts[r.Key]
		return r.Key == "" || scripted
	})
}

// CheckShare says what is wrong with a share for routes; path is that of the step.
func CheckShare(routes []Route, share traffic.Share, names traffic.Names, path *field.Path) field.ErrorList {
	errs := traffic.Check(share, path)
	for _, route := range routes {
		errs = append(errs, route.Check(share, names, path)...)
	}
	return errs
}

// mostRoutes is what a release may change: each of them is read while it goes on.
const mostRoutes = 20

// CheckAll finds the routes of the references of one workload, and their faults.
func CheckAll(refs []v1beta1.TrafficRoutingRef, at *field.Path) (all []Route, errs field.ErrorList) {
	for i, ref := range refs {
		routes, faults := check(ref, at.Index(i))
		errs = append(errs, faults...)
		if i > 0 && ref.Service != refs[0].Service {
			errs = append(errs, field.Invalid(at.Index(i).Child("service"), ref.Service, "must be "+refs[0].Service+", as in the first one: a workload has one Service in a release"))
		}
		for _, route := range routes {
			if slices.ContainsFunc(all, func(r Route) bool { return r.Kind.GroupKind() == route.Kind.GroupKind() && r.Name == route.Name }) {
				errs = append(errs, field.Duplicate(route.Field, route.Name))
			}
			all = append(all, route)
		}
	}
	if len(all) > mostRoutes {
		errs = append(errs, field.TooMany(at, len(all), mostRoutes))
	}
	return all, errs
}

// check finds the routes of a reference, and its faults.
func check(ref v1beta1.TrafficRoutingRef, at *field.Path) ([]Route, field.ErrorList) {
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
		errs = append(errs, field.Required(at, "one of ingress, gateway.httpRouteName, gateway.grpcRouteName and customNetworkRefs"))
	}
	for _, route := range routes {
		faults := validation.IsDNS1123Subdomain(route.Name)
		switch {
		case route.Kind.Kind == "" || route.Kind.Version == "":
			errs = append(errs, field.Invalid(route.Field, route.Kind.String(), "apiVersion and kind must not be empty"))
		case route.Name == "":
			errs = append(errs, field.Required(route.Field, "the name of the "+route.Kind.Kind))
		case len(faults) > 0:
			errs = append(errs, field.Invalid(route.Field, route.Name, faults[0]))
		}
	}
	return routes, errs
}
