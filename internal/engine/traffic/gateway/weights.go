// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"slices"

	"github.com/kruise-operator/kruise-operator/internal/engine/traffic"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/tree"
)

const (
	// Annotation is on routes whose weights are not those of the user. Its keys are stable Services.
	Annotation = "rollouts.kruise.io/original-weights"
	// most is the largest weight of the Gateway API.
	most = 1_000_000
	// scale is by what weights are multiplied, so that each percentage is whole.
	scale = 100
)

// note is what is kept of the weights of a user.
type note struct {
	// Scale is by what they were multiplied. Percent is the share of the new version.
	Scale   int64 `json:"scale"`
	Percent int32 `json:"percent"`
	// Weights are those of the references to the stable Service, in order. They are needed only after somebody else changed a weight.
	Weights []int64 `json:"weights"`
}

// refersTo: a backend is the Service, in the namespace of the route.
func refersTo(ref map[string]any, object map[string]any, service string) bool {
	kind, group, namespace := tree.Text(ref, "kind"), tree.Text(ref, "group"), tree.Text(ref, "namespace")
	return tree.Text(ref, "name") == service && group == "" && (kind == "" || kind == "Service") &&
		(namespace == "" || namespace == tree.Text(object, "metadata", "namespace"))
}

// sends: some rule has the Service.
func sends(object map[string]any, service string) bool {
	return slices.ContainsFunc(tree.Items(object, "spec", "rules"), func(rule map[string]any) bool { return has(rule, object, service) })
}

func has(rule, object map[string]any, service string) bool {
	return slices.ContainsFunc(tree.Items(rule, "backendRefs"), func(ref map[string]any) bool { return refersTo(ref, object, service) })
}

func weight(ref map[string]any) int64 {
	if n, found := tree.Number(ref, "weight"); found {
		return n
	}
	return 1
}

// part is the share of the new version in a weight, rounded.
func part(total int64, percent int32) int64 { return (total*int64(percent) + 50) / 100 }

// weighted gives the new version a share in each rule that has the stable Service. The route is as the user wants it.
func weighted(original map[string]any, names traffic.Names, percent int32) map[string]any {
	after := tree.Clone(original)
	n := note{Scale: factor(original, names), Percent: percent, Weights: []int64{}}
	for _, rule := range tree.Items(after, "spec", "rules") {
		if !has(rule, after, names.Stable) {
			continue
		}
		var refs []map[string]any
		for _, ref := range tree.Items(rule, "backendRefs") {
			total := weight(ref) * n.Scale
			if !refersTo(ref, after, names.Stable) {
				refs = append(refs, with(ref, "", total))
				continue
			}
			n.Weights = append(n.Weights, weight(ref))
			canary := part(total, percent)
			refs = append(refs, with(ref, "", total-canary), with(ref, names.Canary, canary))
		}
		rule["backendRefs"] = tree.List(refs)
	}
	traffic.SetNote(after, Annotation, names.Stable, n)
	return after
}

// with is a reference with another weight, and maybe another name.
func with(ref map[string]any, name string, weight int64) map[string]any {
	ref = tree.Clone(ref)
	ref["weight"] = weight
	if name != "" {
		ref["name"] = name
	}
	return ref
}

// factor is one for the whole route.
func factor(original map[string]any, names traffic.Names) int64 {
	largest := int64(1)
	for _, rule := range tree.Items(original, "spec", "rules") {
		if has(rule, original, names.Stable) {
			for _, ref := range tree.Items(rule, "backendRefs") {
				largest = max(largest, weight(ref))
			}
		}
	}
	return max(1, min(scale, most/largest))
}

// recovered is the route as its user wants it: without the new version, and with his own weights.
func recovered(object map[string]any, names traffic.Names) (map[string]any, *note) {
	after := tree.Clone(object)
	n, noted := traffic.NoteOf[note](after, Annotation, names.Stable)
	traffic.SetNote(after, Annotation, names.Stable, nil)
	if names.Stable == names.Canary {
		return after, nil
	}
	for _, rule := range tree.Items(after, "spec", "rules") {
		if has(rule, after, names.Stable) || has(rule, after, names.Canary) {
			n.recover(rule, after, names)
		}
	}
	if !noted || n.Scale < 1 {
		return after, nil
	}
	return after, &n
}

// recover undoes weighted in one rule. It takes the weights of the rule from those that are noted.
func (n *note) recover(rule, object map[string]any, names traffic.Names) {
	isCanary := func(ref map[string]any) bool { return refersTo(ref, object, names.Canary) }
	refs := slices.DeleteFunc(tree.Items(rule, "backendRefs"), isCanary)
	canaries := slices.DeleteFunc(tree.Items(rule, "backendRefs"), func(ref map[string]any) bool { return !isCanary(ref) })
	ours := n.Scale > 0 && len(canaries) > 0 && has(rule, object, names.Stable)
	for _, ref := range refs {
		if !refersTo(ref, object, names.Stable) {
			continue
		}
		noted := n.Weights[:min(1, len(n.Weights))]
		n.Weights = n.Weights[len(noted):]
		total, scaled := n.total(weight(ref), taken(&canaries, ref), noted)
		if ours = ours && scaled; ours {
			ref["weight"] = total
		}
	}
	for _, ref := range refs {
		if w := weight(ref); ours && !refersTo(ref, object, names.Stable) && w%n.Scale == 0 {
			ref["weight"] = w / n.Scale
		}
	}
	rule["backendRefs"] = tree.List(refs)
}

// taken removes the reference to the new version that belongs to one to the stable Service; nil: there is none.
func taken(canaries *[]map[string]any, stable map[string]any) map[string]any {
	port, _ := tree.Number(stable, "port")
	i := slices.IndexFunc(*canaries, func(c map[string]any) bool { p, _ := tree.Number(c, "port"); return p == port })
	if i < 0 {
		return nil
	}
	canary := (*canaries)[i]
	*canaries = slices.Delete(*canaries, i, i+1)
	return canary
}

// total is the weight that the user gave to the stable Service. It is not scaled when the user has written it since.
// That has 0 for the new version, or lacks it.
func (n *note) total(stable int64, ref map[string]any, noted []int64) (int64, bool) {
	if ref == nil || n.Scale < 1 {
		return stable, false
	}
	canary := weight(ref)
	sum := stable + canary
	switch set := canary == part(sum, n.Percent) && sum%n.Scale == 0; {
	case canary == 0 && stable > 0 && !set:
		return stable, false
	case sum%n.Scale == 0:
		return sum / n.Scale, true
	case len(noted) > 0:
		return noted[0], true
	}
	return max(1, sum/n.Scale), true
}
