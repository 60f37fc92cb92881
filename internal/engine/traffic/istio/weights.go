// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package istio

import (
	"slices"
	"strings"

	"github.com/kruise-operator/kruise-operator/internal/engine/traffic"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/tree"
)

func protocols() []string { return []string{"http", "tcp", "tls"} }

// sends: a rule sends requests to the stable Service.
func sends(rule, object map[string]any, names traffic.Names) bool {
	return slices.ContainsFunc(tree.Items(rule, "route"), func(to map[string]any) bool { return stable(to, object, names) })
}

// stable: it is the old version.
func stable(to, object map[string]any, names traffic.Names) bool {
	return is(tree.Text(to, "destination", "host"), object, names.Stable) && !canary(to, object, names)
}

// canary: it is the new version.
func canary(to, object map[string]any, names traffic.Names) bool {
	if names.Stable == names.Canary {
		return is(tree.Text(to, "destination", "host"), object, names.Stable) && tree.Text(to, "destination", "subset") == subset
	}
	return is(tree.Text(to, "destination", "host"), object, names.Canary)
}

// weighted shares requests in each rule without a match, and returns the routes as they were.
func weighted(object map[string]any, names traffic.Names, n note) map[string][][]map[string]any {
	if n.Weight == nil {
		return nil
	}
	before := map[string][][]map[string]any{}
	for _, protocol := range protocols() {
		for _, rule := range tree.Items(object, "spec", protocol) {
			if _, chooses := rule["match"]; chooses || !sends(rule, object, names) {
				continue
			}
			route := tree.Items(rule, "route")
			before[protocol] = append(before[protocol], route)
			rule["route"] = tree.List(split(route, object, names, n))
		}
	}
	return before
}

// split gives each destination of the stable Service less, and the new version what it lost. The sum stays.
func split(route []map[string]any, object map[string]any, names traffic.Names, n note) []map[string]any {
	var after, fresh []map[string]any
	scale := int64(1)
	if sum(route) != 100 {
		scale = 100 // by itself a small weight cannot be divided
	}
	owed, given := map[int]int64{}, map[int]int64{}
	for _, to := range route {
		w := weight(to, len(route)) * scale
		if !stable(to, object, names) {
			after = append(after, with(to, w))
			continue
		}
		made := turned(to, names)
		i := indexOf(fresh, made)
		if i < 0 {
			i = len(fresh)
			changeHeaders(made, n.Headers)
			fresh = append(fresh, made)
		}
		// Fractions of several destinations add up in the new version.
		owed[i] += w * int64(*n.Weight)
		less := min(max((owed[i]+50)/100-given[i], 0), w)
		given[i] += less
		after = append(after, with(to, w-less))
		fresh[i]["weight"] = given[i]
	}
	return append(after, fresh...)
}

// indexOf finds a destination in a route; -1: it is not there.
func indexOf(route []map[string]any, to map[string]any) int {
	return slices.IndexFunc(route, func(other map[string]any) bool { return tree.Same(other["destination"], to["destination"]) })
}

// weight is that of one destination of so many. Alone it has all.
func weight(to map[string]any, of int) int64 {
	if n, found := tree.Number(to, "weight"); found && (n > 0 || of > 1) {
		return n
	}
	if of == 1 {
		return 100
	}
	return 0
}

func sum(route []map[string]any) (all int64) {
	for _, to := range route {
		all += weight(to, len(route))
	}
	return all
}

func with(to map[string]any, weight int64) map[string]any {
	to = tree.Clone(to)
	to["weight"] = weight
	return to
}

// turned is a destination of the stable Service for the new version, without weight.
func turned(to map[string]any, names traffic.Names) map[string]any {
	to = tree.Clone(to)
	delete(to, "weight")
	if names.Stable == names.Canary {
		tree.Set(to, subset, "destination", "subset")
		return to
	}
	tree.Set(to, names.Canary, "destination", "host")
	delete(tree.Map(to, "destination"), "subset") // of another Service
	return to
}

// unweighted undoes weighted. A route that somebody else has written since keeps its destinations.
func unweighted(object map[string]any, protocol string, names traffic.Names, n note) {
	left := n.Routes[protocol]
	for _, rule := range tree.Items(object, "spec", protocol) {
		if n.Weight == nil || !has(rule, object, names) {
			continue
		}
		route := tree.Items(rule, "route")
		i := slices.IndexFunc(left, func(before []map[string]any) bool { return tree.Same(route, split(before, object, names, n)) })
		if i < 0 {
			i = slices.IndexFunc(left, func(before []map[string]any) bool {
				return tree.Same(plain(route, object, names), plain(before, object, names))
			})
		}
		if i < 0 {
			rule["route"] = tree.List(joined(route, object, names))
			continue
		}
		rule["route"] = tree.List(left[i])
		left = slices.Delete(left, i, i+1)
	}
}

// has: a rule has the new version.
func has(rule, object map[string]any, names traffic.Names) bool {
	return slices.ContainsFunc(tree.Items(rule, "route"), func(to map[string]any) bool { return canary(to, object, names) })
}

// plain are the destinations of a route without weights and without the new version.
func plain(route []map[string]any, object map[string]any, names traffic.Names) (all []map[string]any) {
	for _, to := range route {
		if !canary(to, object, names) {
			to = tree.Clone(to)
			delete(to, "weight")
			all = append(all, to)
		}
	}
	return all
}

// joined gives the weight of the new version back to the stable one.
func joined(route []map[string]any, object map[string]any, names traffic.Names) (all []map[string]any) {
	back := int64(0)
	for _, to := range route {
		if canary(to, object, names) {
			back += weight(to, len(route))
		} else {
			all = append(all, tree.Clone(to))
		}
	}
	for _, to := range all {
		if stable(to, object, names) {
			to["weight"] = weight(to, len(route)) + back
			break
		}
	}
	return all
}

// mark is the beginning of the names of rules that the operator adds.
func mark(names traffic.Names) string { return "rollouts.kruise.io/" + names.Stable + "/" }

// without is an object without these rules.
func without(object map[string]any, names traffic.Names) map[string]any {
	after := tree.Clone(object)
	if _, found := tree.Map(after, "spec")["http"]; found {
		rules := slices.DeleteFunc(tree.Items(after, "spec", "http"), func(rule map[string]any) bool {
			return strings.HasPrefix(tree.Text(rule, "name"), mark(names))
		})
		tree.Set(after, tree.List(rules), "spec", "http")
	}
	return after
}
