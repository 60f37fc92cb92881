// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package istio routes requests by VirtualServices and DestinationRules of Istio.
package istio

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/tree"
)

const (
	// Group is that of both kinds.
	Group = "networking.istio.io"
	// Annotation is on objects in a release. Its keys are stable Services.
	Annotation = "rollouts.kruise.io/original-routes"
	// subset is the new version where both versions have one Service; pods carry its label.
	subset, label, gray = "canary", "istio.service.tag", "gray"

	virtualService = "VirtualService"
	// DestinationRule is the kind with the subsets that a VirtualService names.
	DestinationRule = "DestinationRule"
)

// Provider is for one of the kinds.
type Provider struct{ Kind string }

// Of is the Provider of a kind; false: the operator does not know it.
func Of(group, kind string) (Provider, bool) {
	return Provider{Kind: kind}, group == Group && (kind == virtualService || kind == DestinationRule)
}

// note is what is kept of an object before the release: the routes that were changed, by protocol, and for what.
type note struct {
	Weight  *int32                        `json:"weight,omitempty"`
	Headers *v1beta1.HTTPHeaderFilter     `json:"headers,omitempty"`
	Routes  map[string][][]map[string]any `json:"routes,omitempty"`
}

// Check implements traffic.Provider.
func (p Provider) Check(share traffic.Share, _ traffic.Names, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if share.Headers != nil && share.None() {
		errs = append(errs, field.Forbidden(path.Child("requestHeaderModifier"), "headers are changed only together with traffic or matches"))
	}
	return errs
}

// Beside implements traffic.Provider.
func (Provider) Beside(string, traffic.Names) string { return "" }

// Want implements traffic.Provider.
func (p Provider) Want(object, _ map[string]any, names traffic.Names, share traffic.Share) (traffic.Change, error) {
	if object == nil {
		return traffic.Change{}, nil
	}
	original, was, err := p.recovered(object, names)
	if err != nil {
		return traffic.Change{}, err
	}
	after, err := p.routed(original, names, share)
	if err != nil {
		return traffic.Change{}, err
	}
	change := traffic.Change{Patch: tree.Patch(object, after)}
	if was != nil && p.Kind == virtualService {
		before := tree.Clone(original)
		weighted(before, names, *was)
		change.Corrected = !tree.Same(without(object, names)["spec"], before["spec"])
	}
	return change, nil
}

// routed is the object with what a share needs.
func (p Provider) routed(original map[string]any, names traffic.Names, share traffic.Share) (map[string]any, error) {
	after := tree.Clone(original)
	if share.None() {
		return after, nil
	}
	n := note{Weight: share.Weight, Headers: share.Headers}
	switch p.Kind {
	case DestinationRule:
		if !is(tree.Text(after, "spec", "host"), after, names.Stable) {
			return nil, traffic.Refuse("DestinationRule %s is for %s, not for the Service %s", tree.Text(after, "metadata", "name"), tree.Text(after, "spec", "host"), names.Stable)
		}
		if n = (note{}); !addSubset(after) {
			return after, nil // the user's own
		}
	default:
		// Rules are added last, so that they are not weighted.
		if n.Routes = weighted(after, names, n); n.Weight != nil && len(n.Routes) == 0 {
			return nil, traffic.Refuse("no rule without a match of VirtualService %s sends requests to the Service %s, so there is none to share",
				tree.Text(after, "metadata", "name"), names.Stable)
		}
		if err := matched(after, original, names, share); err != nil {
			return nil, err
		}
	}
	traffic.SetNote(after, Annotation, names.Stable, n)
	return after, nil
}

// Seen implements traffic.Provider. Istio says nothing by default.
func (p Provider) Seen(object, _ map[string]any) (traffic.Sight, string) {
	for _, message := range tree.Items(object, "status", "validationMessages") {
		if level := tree.Text(message, "level"); strings.EqualFold(level, "ERROR") {
			return traffic.Refused, fmt.Sprintf("%s %s: %s %s", p.Kind, tree.Text(object, "metadata", "name"), tree.Text(message, "type", "code"), tree.Text(message, "documentationUrl"))
		}
	}
	return traffic.Silent, p.Kind + " does not say what is in force"
}

// recovered is the object as its user wants it.
func (p Provider) recovered(object map[string]any, names traffic.Names) (map[string]any, *note, error) {
	if before, found, err := traffic.Stored(object); found || err != nil {
		return before, nil, err // of OpenKruise
	}
	n, noted := traffic.NoteOf[note](object, Annotation, names.Stable)
	if !noted {
		return tree.Clone(object), nil, nil
	}
	after := without(object, names)
	traffic.SetNote(after, Annotation, names.Stable, nil)
	if p.Kind == DestinationRule {
		removeSubset(after)
		return after, &n, nil
	}
	for _, protocol := range protocols() {
		unweighted(after, protocol, names, n)
	}
	return after, &n, nil
}

// Subset are the labels by which a DestinationRule has pods of the new version, or will have.
func Subset(object map[string]any) map[string]string {
	subsets := tree.Items(object, "spec", "subsets")
	if i := slices.IndexFunc(subsets, isSubset); i >= 0 {
		return tree.Texts(subsets[i], "labels")
	}
	return map[string]string{label: gray}
}

func isSubset(s map[string]any) bool { return tree.Text(s, "name") == subset }

func addSubset(object map[string]any) bool {
	subsets := tree.Items(object, "spec", "subsets")
	if slices.ContainsFunc(subsets, isSubset) {
		return false
	}
	subsets = append(subsets, map[string]any{"name": subset, "labels": map[string]any{label: gray}})
	tree.Set(object, tree.List(subsets), "spec", "subsets")
	return true
}

func removeSubset(object map[string]any) {
	rest := slices.DeleteFunc(tree.Items(object, "spec", "subsets"), isSubset)
	if len(rest) == 0 {
		tree.Set(object, nil, "spec", "subsets")
		return
	}
	tree.Set(object, tree.List(rest), "spec", "subsets")
}

// is: a host means a Service in the namespace of the object.
func is(host string, object map[string]any, service string) bool {
	parts := strings.SplitN(host, ".", 4)
	return parts[0] == service && (len(parts) == 1 || parts[1] == tree.Text(object, "metadata", "namespace") && (len(parts) == 2 || parts[2] == "svc"))
}
