// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package operands renders what the operator deploys for itself, from kustomize bases that the program carries. It applies nothing.
//
// A base that cannot be rendered with the values is an error of the program, which a test of this package would find; what a cluster
// lacks shows when the objects are applied.
package operands

import (
	"fmt"
	"io/fs"
	"net"
	"path"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/kustomize/kyaml/resid"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/config"
)

// Base is one kustomization below config/operands.
type Base string

// The bases.
const (
	// Access says who may ask for metrics.
	Access Base = "access"
	// Prometheus needs the CRDs of the Prometheus operator.
	Prometheus Base = "prometheus"
)

// Bases lists all of them.
func Bases() []Base { return []Base{Access, Prometheus} }

// Values are what differs between installs.
type Values struct {
	// Namespace is the operator's own.
	Namespace string
	// MetricsPort is where every replica serves metrics.
	MetricsPort int
}

// PortOf is the port of an address that the manager listens at; zero when it listens nowhere.
func PortOf(address string) (int, error) {
	if address == "0" {
		return 0, nil
	}
	_, text, err := net.SplitHostPort(address)
	if err != nil {
		return 0, fmt.Errorf("reading the address %q: %w", address, err)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0, fmt.Errorf("reading the address %q: %w", address, err)
	}
	return int(port), nil
}

// Render returns the objects of a base, in the operator's namespace, with its labels.
func Render(base Base, v Values) ([]*unstructured.Unstructured, error) {
	files := filesys.MakeFsInMemory()
	from := path.Join("operands", string(base))
	err := fs.WalkDir(config.Files, from, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(config.Files, name)
		if err != nil {
			return err
		}
		return files.WriteFile(path.Join("/base", path.Base(name)), content)
	})
	if err != nil {
		return nil, fmt.Errorf("reading the base %s: %w", base, err)
	}
	overlay, err := yaml.Marshal(overlayOf(base, v))
	if err != nil {
		return nil, fmt.Errorf("writing the overlay of %s: %w", base, err)
	}
	if err := files.WriteFile("/overlay/kustomization.yaml", overlay); err != nil {
		return nil, fmt.Errorf("writing the overlay of %s: %w", base, err)
	}
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, "/overlay")
	if err != nil {
		return nil, fmt.Errorf("rendering %s: %w", base, err)
	}
	var objects []*unstructured.Unstructured
	for _, resource := range resources.Resources() {
		content, err := resource.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("rendering %s: %w", resource.CurId(), err)
		}
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(content); err != nil {
			return nil, fmt.Errorf("reading %s: %w", resource.CurId(), err)
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// overlayOf puts the values over a base.
func overlayOf(base Base, v Values) types.Kustomization {
	k := types.Kustomization{
		TypeMeta:  types.TypeMeta{APIVersion: types.KustomizationVersion, Kind: types.KustomizationKind},
		Namespace: v.Namespace,
		Resources: []string{"../base"},
		Labels: []types.Label{{Pairs: map[string]string{
			"app.kubernetes.io/name":       "kruise-operator",
			"app.kubernetes.io/part-of":    "kruise-operator",
			"app.kubernetes.io/managed-by": "kruise-operator",
		}}},
	}
	ports := func(kind string, paths ...string) {
		var operations []map[string]any
		for _, path := range paths {
			operations = append(operations, map[string]any{"op": "replace", "path": path, "value": v.MetricsPort})
		}
		patch, _ := yaml.Marshal(operations) // strings and numbers
		k.Patches = append(k.Patches, types.Patch{Patch: string(patch), Target: &types.Selector{ResId: resid.ResId{Gvk: resid.Gvk{Kind: kind}}}})
	}
	switch base {
	case Access:
		ports("NetworkPolicy", "/spec/ingress/0/ports/0/port")
	case Prometheus:
		ports("Service", "/spec/ports/0/port", "/spec/ports/0/targetPort")
	}
	return k
}
