// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"cmp"
	"fmt"

	"github.com/kruise-operator/kruise-operator/internal/engine/traffic"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/tree"
)

// Seen implements traffic.Provider: each parent of both routes has accepted its last generation.
func (p Provider) Seen(object, own map[string]any) (traffic.Sight, string) {
	sight, why := traffic.Silent, "the route is not there"
	if object != nil {
		sight, why = p.seen(object)
	}
	if own == nil || sight == traffic.Refused || sight == traffic.Behind {
		return sight, why
	}
	other, reason := p.seen(own)
	switch {
	case other == traffic.Silent && sight == traffic.Seen:
		return traffic.Behind, reason // the gateway is one that speaks
	case other == traffic.Refused || other == traffic.Behind || object == nil:
		return other, reason
	}
	return sight, why
}

func (p Provider) seen(route map[string]any) (traffic.Sight, string) {
	what := p.Kind + " " + tree.Text(route, "metadata", "name")
	parents := tree.Items(route, "spec", "parentRefs")
	if len(parents) == 0 {
		return traffic.Silent, what + " has no parentRefs"
	}
	result, why := traffic.Seen, ""
	for _, parent := range parents {
		sight, reason := spoken(route, parent)
		if sight == traffic.Refused {
			return sight, fmt.Sprintf("%s: %s", what, reason)
		}
		if sight == traffic.Behind || sight == traffic.Silent && result == traffic.Seen {
			result, why = sight, fmt.Sprintf("%s: %s", what, reason)
		}
	}
	return result, why
}

// spoken is what the gateways of one parent say.
func spoken(route, parent map[string]any) (traffic.Sight, string) {
	name := tree.Text(parent, "name")
	generation, _ := tree.Number(route, "metadata", "generation")
	result, why := traffic.Silent, "the parent "+name+" says nothing about it"
	for _, status := range tree.Items(route, "status", "parents") {
		if key(route, tree.Map(status, "parentRef")) != key(route, parent) {
			continue
		}
		sight, reason := said(status, generation)
		switch sight {
		case traffic.Refused, traffic.Seen:
			return sight, name + ": " + reason
		case traffic.Behind:
			result, why = sight, "the parent "+name+" has not seen its last change"
		}
	}
	return result, why
}

// said is what one gateway says.
func said(status map[string]any, generation int64) (traffic.Sight, string) {
	spoke, agreed := false, 0
	for _, c := range tree.Items(status, "conditions") {
		if kind := tree.Text(c, "type"); kind != "Accepted" && kind != "ResolvedRefs" {
			continue
		}
		observed, _ := tree.Number(c, "observedGeneration")
		spoke = spoke || observed > 0
		switch state := tree.Text(c, "status"); {
		case observed != generation:
		case state == "False":
			return traffic.Refused, fmt.Sprintf("%s: %s", tree.Text(c, "reason"), tree.Text(c, "message"))
		case state == "True":
			agreed++
		}
	}
	switch {
	case agreed == 2:
		return traffic.Seen, ""
	case spoke:
		return traffic.Behind, ""
	}
	return traffic.Silent, ""
}

// key is a reference with what it leaves out.
func key(route, parent map[string]any) string {
	group := Group
	if value, written := parent["group"].(string); written {
		group = value
	}
	port, _ := tree.Number(parent, "port")
	kind, namespace := cmp.Or(tree.Text(parent, "kind"), "Gateway"), cmp.Or(tree.Text(parent, "namespace"), tree.Text(route, "metadata", "namespace"))
	return fmt.Sprintf("%s/%s/%s/%s/%s/%d", group, kind, namespace, tree.Text(parent, "name"), tree.Text(parent, "sectionName"), port)
}
