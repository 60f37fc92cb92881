// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"slices"
	"strings"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/tree"
)

const modifier = "RequestHeaderModifier"

// filtered adds a change of headers. A rule has one such filter at most, so the one of the user is extended.
func filtered(filters []map[string]any, headers *v1beta1.HTTPHeaderFilter) []map[string]any {
	i := slices.IndexFunc(filters, func(f map[string]any) bool { return tree.Text(f, "type") == modifier })
	if i < 0 {
		filters = append(filters, map[string]any{"type": modifier})
		i = len(filters) - 1
	}
	set := tree.Items(filters[i], "requestHeaderModifier", "set")
	add := tree.Items(filters[i], "requestHeaderModifier", "add")
	list, _ := tree.Map(filters[i], "requestHeaderModifier")["remove"].([]any)
	remove := slices.Clone(list)
	drop := func(name string) {
		named := func(h map[string]any) bool { return strings.EqualFold(tree.Text(h, "name"), name) }
		set, add = slices.DeleteFunc(set, named), slices.DeleteFunc(add, named)
		remove = slices.DeleteFunc(remove, func(r any) bool { text, _ := r.(string); return strings.EqualFold(text, name) })
	}
	for _, h := range headers.Set {
		drop(h.Name)
		set = append(set, map[string]any{"name": h.Name, "value": h.Value})
	}
	for _, h := range headers.Add {
		add = added(set, add, h)
	}
	for _, name := range headers.Remove {
		drop(name)
		remove = append(remove, name)
	}
	all := map[string]any{}
	for key, value := range map[string][]any{"set": tree.List(set), "add": tree.List(add), "remove": remove} {
		if len(value) > 0 {
			all[key] = value
		}
	}
	filters[i]["requestHeaderModifier"] = all
	return filters
}

// added joins a value to a header that is set or added already, as a filter has each name once.
func added(set, add []map[string]any, h v1beta1.HTTPHeader) []map[string]any {
	for _, item := range slices.Concat(set, add) {
		if strings.EqualFold(tree.Text(item, "name"), h.Name) {
			item["value"] = tree.Text(item, "value") + "," + h.Value
			return add
		}
	}
	return append(add, map[string]any{"name": h.Name, "value": h.Value})
}
