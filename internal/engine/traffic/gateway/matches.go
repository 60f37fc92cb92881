// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/tree"
)

const (
	exact      = "Exact"
	pathPrefix = "PathPrefix"
	regular    = "RegularExpression"
	// perMatch, perRule and perRoute are limits of the Gateway API: conditions, matches and matches.
	perMatch, perRule, perRoute = 16, 64, 128
)

func kindOf(kind *string, omitted string) string {
	return cmp.Or(ptr.Deref(kind, ""), omitted)
}

// beside is the route of the Rollout: what matches goes to the new version where it went to the stable one.
func (p Provider) beside(original map[string]any, names traffic.Names, share traffic.Share) (map[string]any, error) {
	var rules []map[string]any
	total := 0
	for _, rule := range tree.Items(original, "spec", "rules") {
		if !has(rule, original, names.Stable) {
			continue
		}
		matches, err := p.matches(original, rule, share.Matches)
		if err != nil {
			return nil, err
		}
		if len(matches) > 0 {
			total += len(matches)
			rules = append(rules, p.ruled(original, rule, names, matches, share.Headers))
		}
	}
	switch {
	case total == 0:
		return nil, traffic.Refuse("no request of %s %s to the Service %s can match", p.Kind, tree.Text(original, "metadata", "name"), names.Stable)
	case total > perRoute:
		return nil, traffic.Refuse("%d matches are more than the %d of a route: the matches of %s times those of the step", total, perRoute, p.Kind)
	}
	return p.route(original, names, rules), nil
}

// route has what its user wrote for all of his rules.
func (p Provider) route(original map[string]any, names traffic.Names, rules []map[string]any) map[string]any {
	spec := tree.Clone(tree.Map(original, "spec"))
	spec["rules"] = tree.List(rules)
	metadata := map[string]any{"name": p.Beside(tree.Text(original, "metadata", "name"), names)}
	traffic.CopyMetadata(metadata, original)
	return map[string]any{"apiVersion": original["apiVersion"], "kind": p.Kind, "metadata": metadata, "spec": spec}
}

func (p Provider) ruled(original, rule map[string]any, names traffic.Names, matches []map[string]any, headers *v1beta1.HTTPHeaderFilter) map[string]any {
	rule = tree.Clone(rule)
	delete(rule, "name") // of rules in one route only
	rule["matches"] = tree.List(matches)
	for _, ref := range tree.Items(rule, "backendRefs") {
		if refersTo(ref, original, names.Stable) {
			ref["name"] = names.Canary
		}
	}
	if headers != nil {
		rule["filters"] = tree.List(filtered(tree.Items(rule, "filters"), headers))
	}
	return rule
}

// matches are those of a rule, each together with each of a step.
func (p Provider) matches(original, rule map[string]any, step []v1beta1.HTTPRouteMatch) ([]map[string]any, error) {
	users := tree.Items(rule, "matches")
	if len(users) == 0 {
		users = []map[string]any{{}}
	}
	var all []map[string]any
	for _, user := range users {
		for i := range step {
			match, err := both(user, step[i])
			switch {
			case errors.Is(err, traffic.ErrNever):
				continue
			case err != nil:
				return nil, traffic.Refuse("matches[%d]: %v", i, err)
			case known(original, match):
				return nil, traffic.Refuse("matches[%d] does not differ from a match that %s %s has already", i, p.Kind, tree.Text(original, "metadata", "name"))
			}
			all = append(all, match)
		}
	}
	if len(all) > perRule {
		return nil, traffic.Refuse("%d matches are more than the %d of a rule: those of the rule times those of the step", len(all), perRule)
	}
	return all, nil
}

// known: a route of the user has the same match, and would win.
func known(original, match map[string]any) bool {
	return slices.ContainsFunc(tree.Items(original, "spec", "rules"), func(rule map[string]any) bool {
		return slices.ContainsFunc(tree.Items(rule, "matches"), func(user map[string]any) bool { return tree.Same(user, match) })
	})
}

// both joins two matches: a request has to meet both.
func both(user map[string]any, step v1beta1.HTTPRouteMatch) (map[string]any, error) {
	match := tree.Clone(user)
	narrower, errPath := narrow(match, step.Path)
	headers, errHeaders := conditions(match, "headers", step.Headers, strings.EqualFold)
	params, errParams := conditions(match, "queryParams", step.QueryParams, func(a, b string) bool { return a == b })
	err := cmp.Or(errPath, errHeaders, errParams)
	if err == nil && !narrower && !headers && !params {
		err = traffic.Refuse("it only matches what the route matches already: name a longer or an exact path, or a header")
	}
	return match, err
}

// narrow sets the path to what both match, and says whether it wins over that of the user.
func narrow(match map[string]any, path *v1beta1.HTTPMatch) (narrower bool, err error) {
	if path == nil {
		return false, nil
	}
	kind, value := kindOf(path.Type, pathPrefix), ptr.Deref(path.Value, "/")
	user, has := cmp.Or(tree.Text(match, "path", "type"), pathPrefix), cmp.Or(tree.Text(match, "path", "value"), "/")
	switch {
	case user == kind && has == value:
		return false, nil
	case user == regular || kind == regular:
		return false, traffic.Refuse("the path %s cannot be combined with the path %s of the route", value, has)
	case kind == pathPrefix && within(has, value):
		return false, nil
	case user == pathPrefix && within(value, has):
		match["path"] = map[string]any{"type": kind, "value": value}
		return true, nil
	}
	return false, traffic.ErrNever
}

// within: a prefix covers a path, by whole elements.
func within(path, prefix string) bool {
	prefix = strings.TrimSuffix(prefix, "/")
	return strings.TrimSuffix(path, "/") == prefix || strings.HasPrefix(path, prefix+"/")
}

// conditions adds those of a step to headers or parameters, and says whether there is one more.
func conditions(match map[string]any, key string, step []v1beta1.HTTPNamedMatch, same func(a, b string) bool) (more bool, err error) {
	items := tree.Items(match, key)
	for _, s := range step {
		kind, found := kindOf(s.Type, exact), false
		for _, item := range items {
			if !same(tree.Text(item, "name"), s.Name) {
				continue
			}
			found = true
			user := cmp.Or(tree.Text(item, "type"), exact)
			switch value := tree.Text(item, "value"); {
			case user == kind && value == s.Value:
			case user == exact && kind == exact:
				return false, traffic.ErrNever
			default:
				return false, traffic.Refuse("%s %s has another condition in the route already", key, s.Name)
			}
		}
		if !found {
			more = true
			items = append(items, map[string]any{"type": kind, "name": s.Name, "value": s.Value})
		}
	}
	if len(items) > perMatch {
		return false, traffic.Refuse("%d %s are more than the %d of a match: those of the route and those of the step", len(items), key, perMatch)
	}
	if more {
		match[key] = tree.List(items)
	}
	return more, nil
}
