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
func weighted(object map[string]any, names traffic.Names, n note) map[string][][]any {
	if n.Weight == nil {
		return nil
	}
	before := map[string][][]any{}
	for _, protocol := range protocols() {
		for _, rule := range tree.Items(object, "spec", protocol) {
			if _, chooses := rule["match"]; chooses || !sends(rule, object, names) {
				continue
			}
			before[protocol] = append(before[protocol], rule["route"].([]any))
			rule["route"] = tree.List(split(tree.Items(rule, "route"), object, names, n))
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
	owed := map[int]int64{}
	for _, to := range route {
		w := weight(to, len(route)) * scale
		if !stable(to, object, names) {
			after = append(after, with(to, w))
			continue
		}
		made := turned(to, names)
		i := slices.IndexFunc(fresh, func(f map[string]any) bool { return tree.Same(f["destination"], made["destination"]) })
		if i < 0 {
			i = len(fresh)
			changeHeaders(made, n.Headers)
			fresh = append(fresh, made)
		}
		// Fractions of several destinations add up in the new version.
		owed[i] += w * int64(*n.Weight)
		less := (owed[i]+50)/100 - gathered(fresh[i])
		less = min(max(less, 0), w)
		after = append(after, with(to, w-less))
		fresh[i]["weight"] = gathered(fresh[i]) + less
	}
	return append(after, fresh...)
}

// gathered is a weight that is being added up.
func gathered(to map[string]any) int64 {
	n, _ := tree.Number(to, "weight")
	return n
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
	left := slices.Clone(n.Routes[protocol])
	changed := slices.DeleteFunc(tree.Items(object, "spec", protocol), func(rule map[string]any) bool {
		return n.Weight == nil || !sends(rule, object, names) && !has(rule, object, names)
	})
	for _, same := range []func(rule map[string]any, before []map[string]any) bool{
		func(rule map[string]any, before []map[string]any) bool {
			return tree.Same(tree.List(tree.Items(rule, "route")), tree.List(split(before, object, names, n)))
		},
		func(rule map[string]any, before []map[string]any) bool {
			return has(rule, object, names) && tree.Same(tree.List(plain(rule, object, names)), tree.List(plain(map[string]any{"route": tree.List(before)}, object, names)))
		},
	} {
		changed = slices.DeleteFunc(changed, func(rule map[string]any) bool {
			i := slices.IndexFunc(left, func(before []any) bool { return same(rule, tree.Items(map[string]any{"r": before}, "r")) })
			if i < 0 {
				return false
			}
			rule["route"] = tree.Clone(map[string]any{"r": left[i]})["r"]
			left = slices.Delete(left, i, i+1)
			return true
		})
	}
	for _, rule := range changed {
		if has(rule, object, names) {
			rule["route"] = tree.List(joined(rule, object, names))
		}
	}
}

// has: a rule has the new version.
func has(rule, object map[string]any, names traffic.Names) bool {
	return slices.ContainsFunc(tree.Items(rule, "route"), func(to map[string]any) bool { return canary(to, object, names) })
}

// plain are the destinations of a rule without weights and without the new version.
func plain(rule, object map[string]any, names traffic.Names) (all []map[string]any) {
	for _, to := range tree.Items(rule, "route") {
		if !canary(to, object, names) {
			to = tree.Clone(to)
			delete(to, "weight")
			all = append(all, to)
		}
	}
	return all
}

// joined gives the weight of the new version back to the stable one.
func joined(rule, object map[string]any, names traffic.Names) (all []map[string]any) {
	route, back := tree.Items(rule, "route"), int64(0)
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
