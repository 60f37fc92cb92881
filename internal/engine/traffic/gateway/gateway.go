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

// GRPCRoute is one of the two kinds; the other one is HTTPRoute.
const GRPCRoute = "GRPCRoute"

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

// Want implements traffic.Provider.
func (p Provider) Want(object map[string]any, names traffic.Names, share traffic.Share) (traffic.Change, error) {
	original, noted := recovered(object, names)
	if !sends(original, names.Stable) {
		return traffic.Change{}, traffic.Refuse("no rule of %s %s sends requests to the Service %s", p.Kind, tree.Text(object, "metadata", "name"), names.Stable)
	}
	if share.Weight != nil && names.Stable == names.Canary {
		return traffic.Change{}, traffic.Refuse(oneService)
	}
	var change traffic.Change
	if noted != nil {
		change.Corrected = !tree.Same(object["spec"], weighted(original, names, noted.Percent)["spec"])
	}
	after := original
	switch {
	case share.Weight != nil:
		after = weighted(original, names, *share.Weight)
	case names.Keep:
		after = kept(original, names)
	}
	change.Patch = tree.Patch(object, after)
	if len(share.Matches) == 0 {
		change.Gone = p.own(object, names)
		return change, nil
	}
	route, err := p.beside(original, names, share)
	change.Own = []map[string]any{route}
	return change, err
}

// End implements traffic.Provider.
func (p Provider) End(object map[string]any, names traffic.Names) (traffic.Change, error) {
	after, _ := recovered(object, names)
	if names.Keep {
		after = kept(after, names)
	}
	return traffic.Change{Patch: tree.Patch(object, after), Gone: p.own(object, names)}, nil
}

func (p Provider) own(object map[string]any, names traffic.Names) []traffic.Object {
	return []traffic.Object{{APIVersion: tree.Text(object, "apiVersion"), Kind: p.Kind, Name: nameOf(object, names)}}
}
