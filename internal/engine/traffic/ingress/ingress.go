// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package ingress routes requests by a second Ingress beside that of the user. Its annotations say what goes to the new version.
package ingress

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kruise-operator/kruise-operator/internal/engine/traffic"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/tree"
)

// Annotator says which annotations the second Ingress gets.
type Annotator interface {
	// Check says what of a share the class can never express.
	Check(share traffic.Share, names traffic.Names, path *field.Path) field.ErrorList
	// Annotations are those of the user, with what the share needs.
	Annotations(user map[string]string, share traffic.Share, names traffic.Names) (map[string]string, error)
}

// Provider is for one class of Ingresses.
type Provider struct{ Annotator }

// Of is the Provider of a class; false: the operator does not know it.
func Of(name string) (Provider, bool) {
	c, found := classes()[name]
	c.name = name
	return Provider{c}, found
}

// Beside implements traffic.Provider.
func (p Provider) Beside(name string, _ traffic.Names) string {
	return traffic.Name(name, "canary")
}

// Want implements traffic.Provider. At the end nothing is left, not even a second Ingress that does nothing.
func (p Provider) Want(object, own map[string]any, names traffic.Names, share traffic.Share) (traffic.Change, error) {
	if !share.Routed() {
		return traffic.Change{Gone: own != nil}, nil
	}
	second, err := p.beside(object, names, share)
	if err != nil {
		return traffic.Change{}, err
	}
	return traffic.Change{Own: traffic.Differing(own, second)}, nil
}

// Seen implements traffic.Provider. The status of an Ingress says nothing about its generation.
func (p Provider) Seen(_, _ map[string]any) (traffic.Sight, string) {
	return traffic.Silent, "an Ingress does not say what is in force"
}

// beside is the second Ingress.
func (p Provider) beside(object map[string]any, names traffic.Names, share traffic.Share) (map[string]any, error) {
	spec := tree.Clone(tree.Map(object, "spec"))
	delete(spec, "defaultBackend")
	var rules []map[string]any
	for _, rule := range tree.Items(spec, "rules") {
		var paths []map[string]any
		for _, path := range tree.Items(rule, "http", "paths") {
			if tree.Text(path, "backend", "service", "name") == names.Stable {
				tree.Set(path, names.Canary, "backend", "service", "name")
				paths = append(paths, path)
			}
		}
		if len(paths) > 0 {
			tree.Set(rule, tree.List(paths), "http", "paths")
			rules = append(rules, rule)
		}
	}
	if len(rules) == 0 {
		return nil, traffic.Refuse("no path of Ingress %s has the Service %s; its default backend cannot be shared", tree.Text(object, "metadata", "name"), names.Stable)
	}
	spec["rules"] = tree.List(rules)
	metadata := map[string]any{"name": p.Beside(tree.Text(object, "metadata", "name"), names)}
	traffic.CopyMetadata(metadata, object)
	annotations, err := p.Annotations(tree.Texts(metadata, "annotations"), share, names)
	if err != nil {
		return nil, err
	}
	tree.Set(metadata, tree.FromTexts(annotations), "annotations")
	return map[string]any{"apiVersion": object["apiVersion"], "kind": "Ingress", "metadata": metadata, "spec": spec}, nil
}
