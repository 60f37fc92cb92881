// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package operands renders the operator's own deployments from embedded kustomize bases. It applies nothing.
//
// A base failing with the values is a program error, found by a test of this package; a cluster's lacks show on applying.
package operands

import (
	"fmt"
	"net"
	"path"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/resid"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/internal/manifests"
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

// Values differ between installs.
type Values struct {
	// Namespace is the operator's own.
	Namespace string
	// MetricsPort is where every replica serves metrics, over https if they are secure.
	MetricsPort   int
	MetricsSecure bool
}

// PortOf is the port of a listening address; zero: nowhere.
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
	k := types.Kustomization{Namespace: v.Namespace, Labels: labels()}
	replace := func(kind, at string, value any) {
		patch, _ := yaml.Marshal([]map[string]any{{"op": "replace", "path": at, "value": value}}) // strings and numbers
		k.Patches = append(k.Patches, types.Patch{Patch: string(patch), Target: &types.Selector{ResId: resid.ResId{Gvk: resid.Gvk{Kind: kind}}}})
	}
	switch base {
	case Access:
		replace("NetworkPolicy", "/spec/ingress/0/ports/0/port", v.MetricsPort)
	case Prometheus:
		replace("Service", "/spec/ports/0/port", v.MetricsPort)
		replace("Service", "/spec/ports/0/targetPort", v.MetricsPort)
		if !v.MetricsSecure {
			replace("ServiceMonitor", "/spec/endpoints", []map[string]any{{"port": "metrics", "interval": "30s"}})
		}
	}
	return manifests.RenderOver(path.Join("operands", string(base)), k)
}

func labels() []types.Label {
	return []types.Label{{Pairs: map[string]string{
		"app.kubernetes.io/name":       "kruise-operator",
		"app.kubernetes.io/part-of":    "kruise-operator",
		"app.kubernetes.io/managed-by": "kruise-operator",
	}}}
}
