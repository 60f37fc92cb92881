// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package routing finds the provider of each route that a Rollout names.
package routing

import (
	"cmp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/rollouts/shared"
	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/gateway"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/ingress"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/istio"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/script"
)

// DefaultClass is the class of an Ingress that names none.
const DefaultClass = "nginx"

// Route is one object that leads requests to a workload.
type Route struct {
	traffic.Provider
	Kind schema.GroupVersionKind
	Name string
	// Field is where the Rollout names it.
	Field *field.Path
	// First is written before the others, and set back after them: they name what it defines.
	First bool
	// Key is the entry of the ConfigMap with a script for it. Scripted: there is no other way.
	Key      string
	Scripted bool
}

// Of are the routes of one of the trafficRoutings; path is its own.
func Of(ref v1beta1.TrafficRoutingRef, path *field.Path) (all []Route) {
	if ref.Gateway != nil {
		all = append(all, ofGateway(*ref.Gateway, path.Child("gateway"))...)
	}
	if ref.Ingress != nil {
		all = append(all, ofIngress(*ref.Ingress, path.Child("ingress")))
	}
	for i, custom := range ref.CustomNetworkRefs {
		all = append(all, ofCustom(custom, path.Child("customNetworkRefs").Index(i)))
	}
	return all
}

func ofGateway(ref v1beta1.GatewayTrafficRouting, path *field.Path) (all []Route) {
	add := func(kind string, name *string, at string) {
		if name != nil {
			all = append(all, Route{
				Provider: gateway.Provider{Kind: kind}, Kind: schema.GroupVersionKind{Group: gateway.Group, Version: "v1", Kind: kind}, Name: *name, Field: path.Child(at),
			})
		}
	}
	add(gateway.HTTPRoute, ref.HTTPRouteName, "httpRouteName")
	add(gateway.GRPCRoute, ref.GRPCRouteName, "grpcRouteName")
	return all
}

func ofIngress(ref v1beta1.IngressTrafficRouting, path *field.Path) Route {
	class := cmp.Or(ref.ClassType, DefaultClass)
	r := Route{Kind: schema.GroupVersionKind{Group: "networking.k8s.io", Version: "v1", Kind: "Ingress"}, Name: ref.Name, Field: path, Key: script.IngressKey(class)}
	known, found := ingress.Of(class)
	if r.Provider = known; !found {
		r.Scripted, r.Provider = true, ingress.Provider{Annotator: script.Annotator{}}
	}
	return r
}

func ofCustom(ref v1beta1.ObjectRef, path *field.Path) Route {
	r := Route{Kind: schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind), Name: ref.Name, Field: path}
	r.Key = script.ObjectKey(r.Kind.Kind, r.Kind.Group)
	known, found := istio.Of(r.Kind.Group, r.Kind.Kind)
	r.First = found && r.Kind.Kind == istio.DestinationRule
	switch {
	case found:
		r.Provider = known
	case r.Kind.Group == gateway.Group && (r.Kind.Kind == gateway.HTTPRoute || r.Kind.Kind == gateway.GRPCRoute):
		r.Provider = gateway.Provider{Kind: r.Kind.Kind}
	default:
		r.Scripted, r.Provider = true, script.Object{}
	}
	return r
}

// Scripted lets scripts of the administrator serve the routes that have one.
func Scripted(all []Route, scripts map[string]string, run func(text string) script.Run) []Route {
	for i := range all {
		text, found := scripts[all[i].Key]
		switch {
		case !found:
			continue
		case all[i].Kind.Kind == "Ingress":
			all[i].Provider = ingress.Provider{Annotator: script.Annotator{Run: run(text)}}
		default:
			all[i].Provider = script.Object{Run: run(text)}
		}
		all[i].Scripted = false
	}
	return all
}

// Names are those of a Rollout and its Services.
func Names(rollout string, canary *v1beta1.CanaryStrategy) traffic.Names {
	n := traffic.Names{Rollout: rollout, Stable: canary.TrafficRoutings[0].Service}
	if n.Canary = traffic.CanaryName(n.Stable); canary.DisableGenerateCanaryService {
		n.Canary = n.Stable
	}
	return n
}

// SharedOf is the TrafficRouting that a Rollout names by a field or, without one, by its annotation; empty: none.
func SharedOf(r *v1beta1.Rollout) string {
	canary, blueGreen := ptr.Deref(r.Spec.Strategy.Canary, v1beta1.CanaryStrategy{}), ptr.Deref(r.Spec.Strategy.BlueGreen, v1beta1.BlueGreenStrategy{})
	return cmp.Or(canary.TrafficRoutingRef, blueGreen.TrafficRoutingRef, r.Annotations[shared.AnnotationTrafficRouting])
}

// SharedIn is the same for a Rollout as stored.
func SharedIn(r *unstructured.Unstructured) string {
	canary, _, _ := unstructured.NestedString(r.Object, "spec", "strategy", "canary", "trafficRoutingRef")
	blueGreen, _, _ := unstructured.NestedString(r.Object, "spec", "strategy", "blueGreen", "trafficRoutingRef")
	return cmp.Or(canary, blueGreen, r.GetAnnotations()[shared.AnnotationTrafficRouting])
}
