// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package gateway routes requests by HTTPRoutes and GRPCRoutes of the Gateway API.
//
// Weights go into the route of the user, beside each reference to the stable Service. Matches go into a route of the Rollout; it has more
// conditions, so it wins.
package gateway

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kruise-operator/kruise-operator/internal/engine/traffic"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/tree"
)

// Group is that of the Gateway API.
const Group = "gateway.networking.k8s.io"

// The kinds of routes.
const (
	HTTPRoute = "HTTPRoute"
	GRPCRoute = "GRPCRoute"
)

const oneService = "a route can share requests only between two Services"

// Provider is for one kind of route.
type Provider struct{ Kind string }

// Check implements traffic.Provider.
func (p Provider) Check(share traffic.Share, names traffic.Names, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if share.Weight != nil && names.Stable == names.Canary {
		errs = append(errs, field.Forbidden(path.Child("traffic"), oneService))
	}
	if share.Headers != nil && len(share.Matches) == 0 {
		errs = append(errs, field.Forbidden(path.Child("requestHeaderModifier"), "a route changes headers only together with matches"))
	}
	for i, match := range share.Matches {
		at := path.Child("matches").Index(i)
		if p.Kind == GRPCRoute && match.Path != nil {
			errs = append(errs, field.Forbidden(at.Child("path"), "a GRPCRoute does not match paths"))
		}
		if p.Kind == GRPCRoute && len(match.QueryParams) > 0 {
			errs = append(errs, field.Forbidden(at.Child("queryParams"), "a GRPCRoute does not match query parameters"))
		}
		if match.Path != nil && kindOf(match.Path.Type, pathPrefix) == regular {
			errs = append(errs, field.Forbidden(at.Child("path", "type"), "gateways differ in the order of regular expressions: use Exact or PathPrefix"))
		}
	}
	return errs
}

// Beside implements traffic.Provider.
func (p Provider) Beside(name string, names traffic.Names) string {
	return traffic.Name(name, names.Rollout)
}

// Want implements traffic.Provider.
func (p Provider) Want(object, own map[string]any, names traffic.Names, share traffic.Share) (traffic.Change, error) {
	var change traffic.Change
	if object == nil {
		change.Own, change.Later = leadBack(own, names)
		return change, nil
	}
	original, noted := recovered(object, names)
	if !share.None() && !sends(original, names.Stable) {
		return change, traffic.Refuse("no rule of %s %s sends requests to the Service %s", p.Kind, tree.Text(object, "metadata", "name"), names.Stable)
	}
	if share.Weight != nil && names.Stable == names.Canary {
		return change, traffic.Refuse(oneService)
	}
	if noted != nil {
		change.Corrected = !tree.Same(object["spec"], weighted(original, names, noted.Percent)["spec"])
	}
	after := original
	if share.Weight != nil {
		after = weighted(original, names, *share.Weight)
	}
	change.Patch = tree.Patch(object, after)
	if len(share.Matches) == 0 {
		change.Own, change.Later = leadBack(own, names)
		return change, nil
	}
	route, err := p.beside(original, names, share)
	if err == nil {
		change.Own = traffic.Differing(own, route)
	}
	return change, err
}

// leadBack lets the route of the Rollout send everything to the stable Service. A gateway says that it has seen that, and would not say that
// it has seen a route go.
func leadBack(own map[string]any, names traffic.Names) (changed map[string]any, later bool) {
	if own == nil {
		return nil, false
	}
	back := tree.Clone(own)
	for _, rule := range tree.Items(back, "spec", "rules") {
		for _, ref := range tree.Items(rule, "backendRefs") {
			if refersTo(ref, back, names.Canary) {
				ref["name"] = names.Stable
			}
		}
	}
	if tree.Same(back, own) {
		return nil, true
	}
	return back, true
}
