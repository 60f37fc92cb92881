// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package istio

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/tree"
)

// matched puts rules for the matches of a step before each rule that sends requests to the stable Service. The first rule that fits wins.
func matched(object, original map[string]any, names traffic.Names, share traffic.Share) error {
	if len(share.Matches) == 0 {
		return nil
	}
	var all []map[string]any
	added := 0
	now := tree.Items(object, "spec", "http")
	for i, rule := range tree.Items(original, "spec", "http") {
		if sends(rule, original, names) {
			for j, step := range share.Matches {
				match, err := both(tree.Items(rule, "match"), step)
				if err != nil {
					return traffic.Refuse("matches[%d]: %v", j, err)
				}
				if len(match) > 0 {
					all = append(all, chosen(rule, original, names, match, share.Headers, fmt.Sprint(mark(names), added)))
					added++
				}
			}
		}
		all = append(all, now[i])
	}
	if added == 0 {
		return traffic.Refuse("no request of VirtualService %s to the Service %s can match", tree.Text(object, "metadata", "name"), names.Stable)
	}
	tree.Set(object, tree.List(all), "spec", "http")
	return nil
}

// chosen is a rule of the user for the new version.
func chosen(rule, object map[string]any, names traffic.Names, match []map[string]any, headers *v1beta1.HTTPHeaderFilter, name string) map[string]any {
	rule = tree.Clone(rule)
	var route []map[string]any
	users := tree.Items(rule, "route")
	for _, to := range users {
		if !stable(to, object, names) {
			route = append(route, to)
			continue
		}
		made, w := turned(to, names), weight(to, len(users))
		i := indexOf(route, made)
		switch {
		case i >= 0:
			route[i]["weight"] = weight(route[i], len(users)) + w
			continue
		case len(users) > 1:
			made["weight"] = w
		}
		route = append(route, made)
	}
	rule["name"], rule["match"], rule["route"] = name, tree.List(match), tree.List(route)
	changeHeaders(rule, headers)
	return rule
}

// changeHeaders adds to the headers that a rule or destination changes. What a step says wins.
func changeHeaders(of map[string]any, headers *v1beta1.HTTPHeaderFilter) {
	if headers == nil {
		return
	}
	for _, h := range headers.Set {
		tree.Set(of, h.Value, "headers", "request", "set", h.Name)
	}
	for _, h := range headers.Add {
		tree.Set(of, h.Value, "headers", "request", "add", h.Name)
	}
	if len(headers.Remove) > 0 {
		list, _ := tree.Map(of, "headers", "request")["remove"].([]any)
		all := append([]any{}, list...)
		for _, name := range headers.Remove {
			all = append(all, name)
		}
		tree.Set(of, all, "headers", "request", "remove")
	}
}

// both are matches for requests that match the rule and the step.
func both(users []map[string]any, step v1beta1.HTTPRouteMatch) ([]map[string]any, error) {
	if len(users) == 0 {
		users = []map[string]any{{}}
	}
	var all []map[string]any
	for _, user := range users {
		match := tree.Clone(user)
		errPath, errHeaders := narrow(match, step.Path), conditions(match, "headers", step.Headers, strings.EqualFold)
		errParams := conditions(match, "queryParams", step.QueryParams, func(a, b string) bool { return a == b })
		err := cmp.Or(errPath, errHeaders, errParams)
		if err != nil && !errors.Is(err, traffic.ErrNever) {
			return nil, err
		}
		if err == nil && len(match) > 0 {
			all = append(all, match)
		}
	}
	return all, nil
}

// way is how Istio calls a way to compare.
func way(kind *string, omitted string) string {
	return cmp.Or(map[string]string{"Exact": "exact", "PathPrefix": "prefix", "RegularExpression": "regex"}[ptr.Deref(kind, "")], omitted)
}

// narrow sets the path to the intersection of both.
func narrow(match map[string]any, path *v1beta1.HTTPMatch) error {
	if path == nil {
		return nil
	}
	kind, value := way(path.Type, "prefix"), ptr.Deref(path.Value, "/")
	want := map[string]any{kind: value}
	user := tree.Map(match, "uri")
	if user == nil || tree.Same(user, want) {
		match["uri"] = want
		return nil
	}
	exact, isExact := user["exact"].(string)
	prefix, isPrefix := user["prefix"].(string)
	switch {
	case kind == "regex" || !isExact && !isPrefix || match["ignoreUriCase"] == true:
		return traffic.Refuse("the path %s cannot be combined with the path of the rule", value)
	case isPrefix && strings.HasPrefix(value, prefix):
		match["uri"] = want
		return nil
	case kind == "prefix" && strings.HasPrefix(cmp.Or(exact, prefix), value):
		return nil
	}
	return traffic.ErrNever
}

// conditions adds those of a step to headers or parameters.
func conditions(match map[string]any, key string, step []v1beta1.HTTPNamedMatch, same func(a, b string) bool) error {
	for _, s := range step {
		want, found := map[string]any{way(s.Type, "exact"): s.Value}, false
		for name, value := range tree.Map(match, key) {
			if !same(name, s.Name) {
				continue
			}
			found = true
			user, _ := value.(map[string]any)
			_, exact := user["exact"]
			_, exactly := want["exact"]
			switch {
			case tree.Same(user, want):
			case exact && exactly:
				return traffic.ErrNever
			default:
				return traffic.Refuse("%s %s has another condition in the rule already", key, s.Name)
			}
		}
		if !found {
			tree.Set(match, want, key, s.Name)
		}
	}
	return nil
}
