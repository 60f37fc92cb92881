// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package gateway is a gateway of the Gateway API without network: it says in the status of each HTTPRoute what it has seen.
package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Kind is HTTPRoute.
var Kind = schema.GroupVersionKind{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "HTTPRoute"} //nolint:gochecknoglobals // a constant

// definition has the lists and defaults of HTTPRoutes that a release meets.
const definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: httproutes.gateway.networking.k8s.io
  annotations: {api-approved.kubernetes.io: "https://github.com/kubernetes-sigs/gateway-api"}
spec:
  group: gateway.networking.k8s.io
  scope: Namespaced
  names: {kind: HTTPRoute, plural: httproutes, singular: httproute}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
          spec:
            type: object
            properties:
              hostnames: {type: array, items: {type: string}, x-kubernetes-list-type: atomic}
              parentRefs:
                type: array
                x-kubernetes-list-type: atomic
                items:
                  type: object
                  required: [name]
                  properties:
                    group: {type: string, default: gateway.networking.k8s.io}
                    kind: {type: string, default: Gateway}
                    name: {type: string}
                    namespace: {type: string}
                    port: {type: integer, format: int32}
                    sectionName: {type: string}
              rules:
                type: array
                maxItems: 16
                x-kubernetes-list-type: atomic
                default: [{matches: [{path: {type: PathPrefix, value: /}}]}]
                items:
                  type: object
                  properties:
                    name: {type: string}
                    timeouts: {type: object, properties: {request: {type: string}, backendRequest: {type: string}}}
                    filters: {type: array, maxItems: 16, x-kubernetes-list-type: atomic, items: {type: object, x-kubernetes-preserve-unknown-fields: true}}
                    matches:
                      type: array
                      maxItems: 64
                      x-kubernetes-list-type: atomic
                      default: [{path: {type: PathPrefix, value: /}}]
                      items:
                        type: object
                        properties:
                          method: {type: string}
                          path: {type: object, default: {type: PathPrefix, value: /}, properties: {type: {type: string, default: PathPrefix}, value: {type: string, default: /}}}
                          headers: &named
                            type: array
                            maxItems: 16
                            x-kubernetes-list-type: map
                            x-kubernetes-list-map-keys: [name]
                            items: {type: object, required: [name, value], properties: {name: {type: string}, type: {type: string, default: Exact}, value: {type: string}}}
                          queryParams: *named
                    backendRefs:
                      type: array
                      maxItems: 16
                      x-kubernetes-list-type: atomic
                      items:
                        type: object
                        required: [name]
                        properties:
                          group: {type: string, default: ""}
                          kind: {type: string, default: Service}
                          name: {type: string}
                          namespace: {type: string}
                          port: {type: integer, format: int32}
                          weight: {type: integer, format: int32, minimum: 0, maximum: 1000000, default: 1}
                          filters: {type: array, maxItems: 16, x-kubernetes-list-type: atomic, items: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// Install makes the API server serve HTTPRoutes.
func Install(ctx context.Context, c client.Client) error {
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(definition), &object.Object); err != nil {
		return fmt.Errorf("reading the definition: %w", err)
	}
	return client.IgnoreAlreadyExists(c.Create(ctx, object))
}

// Gateway answers for the routes of one namespace.
type Gateway struct {
	Client    client.Client
	Namespace string

	mutex  sync.Mutex
	silent bool
	refuse string
	seen   map[string]map[string]any
}

// Behave has the gateway see nothing, or refuse routes with a reason.
func (g *Gateway) Behave(silent bool, refuse string) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.silent, g.refuse = silent, refuse
}

// Seen is the spec of a route that is in force; nil: none.
func (g *Gateway) Seen(name string) map[string]any {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	return g.seen[name]
}

// Run answers until the context ends.
func (g *Gateway) Run(ctx context.Context) {
	for ctx.Err() == nil {
		g.once(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (g *Gateway) once(ctx context.Context) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.silent {
		return
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(Kind)
	if g.Client.List(ctx, list, client.InNamespace(g.Namespace)) != nil {
		return // it is not served yet
	}
	seen := map[string]map[string]any{}
	for i := range list.Items {
		route := &list.Items[i]
		spec, _, _ := unstructured.NestedMap(route.Object, "spec")
		if seen[route.GetName()] = spec; g.refuse != "" {
			seen[route.GetName()] = g.seen[route.GetName()]
		}
		g.answer(ctx, route)
	}
	g.seen = seen
}

// answer writes the status of a route; a failed write is tried again.
func (g *Gateway) answer(ctx context.Context, route *unstructured.Unstructured) {
	parents, _, _ := unstructured.NestedSlice(route.Object, "spec", "parentRefs")
	status, reason := "True", "Accepted"
	if g.refuse != "" {
		status, reason = "False", g.refuse
	}
	var all []any
	for _, parent := range parents {
		var conditions []any
		for _, kind := range []string{"Accepted", "ResolvedRefs"} {
			conditions = append(conditions, map[string]any{
				"type": kind, "status": status, "reason": reason, "message": "by a test", "observedGeneration": route.GetGeneration(), "lastTransitionTime": "2026-01-01T00:00:00Z",
			})
		}
		all = append(all, map[string]any{"parentRef": parent, "controllerName": "example.com/gateway", "conditions": conditions})
	}
	before, _, _ := unstructured.NestedSlice(route.Object, "status", "parents")
	body, err := json.Marshal(map[string]any{"status": map[string]any{"parents": all}})
	if was, _ := json.Marshal(before); err != nil || fmt.Sprintf(`{"status":{"parents":%s}}`, was) == string(body) {
		return
	}
	_ = g.Client.Status().Patch(ctx, route, client.RawPatch(types.MergePatchType, body))
}
