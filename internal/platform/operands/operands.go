// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package operands renders the operator's own deployments from embedded manifests. It applies nothing.
//
// A base failing with the values is a program error, found by a test of this package; a cluster's lacks show on applying.
package operands

import (
	"fmt"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/internal/manifests"
)

// Bases are the kustomizations below config/operands: who may ask for metrics, and what needs the CRDs of the Prometheus operator.
func Bases() []string { return []string{"access", "prometheus"} }

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
func Render(base string, v Values) ([]*unstructured.Unstructured, error) {
	objects, err := read("operands/" + base)
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		object.SetNamespace(v.Namespace)
		switch object.GetKind() {
		case "NetworkPolicy":
			err = change(object, &networkingv1.NetworkPolicy{}, func(policy *networkingv1.NetworkPolicy) {
				policy.Spec.Ingress[0].Ports[0].Port = ptr.To(intstr.FromInt(v.MetricsPort))
			})
		case "Service":
			err = change(object, &corev1.Service{}, func(service *corev1.Service) {
				port := &service.Spec.Ports[0]
				port.Port, port.TargetPort = int32(v.MetricsPort), intstr.FromInt(v.MetricsPort) //nolint:gosec // it is a port
			})
		case "ServiceMonitor":
			if !v.MetricsSecure {
				err = unstructured.SetNestedSlice(object.Object, []any{map[string]any{"port": "metrics", "interval": "30s"}}, "spec", "endpoints")
			}
		}
		if err != nil {
			return nil, fmt.Errorf("rendering %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return objects, nil
}

// read returns the objects of a kustomization with the operator's labels.
func read(base string) ([]*unstructured.Unstructured, error) {
	objects, err := manifests.Read(base)
	for _, object := range objects {
		labels := object.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		for _, label := range []string{"name", "part-of", "managed-by"} {
			labels["app.kubernetes.io/"+label] = "kruise-operator"
		}
		object.SetLabels(labels)
	}
	return objects, err
}
