// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package gateway is a gateway of the Gateway API without network: it says in the status of each route what it has seen.
package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/tests/framework/repository"
)

// The kinds of routes.
var (
	Kind     = schema.GroupVersionKind{Group: gatewayv1.GroupName, Version: "v1", Kind: "HTTPRoute"}
	GRPCKind = schema.GroupVersionKind{Group: gatewayv1.GroupName, Version: "v1", Kind: "GRPCRoute"}
)

func kinds() []schema.GroupVersionKind { return []schema.GroupVersionKind{Kind, GRPCKind} }

// Definitions is the module's folder with those of all kinds.
func Definitions(ctx context.Context) (string, error) {
	root, err := repository.Root()
	if err != nil {
		return "", err
	}
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api")
	list.Dir = filepath.Join(root, "tests")
	list.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	dir, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("finding the Gateway API: %w", err)
	}
	return filepath.Join(strings.TrimSpace(string(dir)), "config", "crd", "standard"), nil
}

// Install makes the API server serve both kinds, by the definitions of the module.
func Install(ctx context.Context, c client.Client) error {
	dir, err := Definitions(ctx)
	if err != nil {
		return err
	}
	for _, kind := range kinds() {
		name := fmt.Sprintf("%s_%ss.yaml", kind.Group, strings.ToLower(kind.Kind))
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return fmt.Errorf("reading a definition: %w", err)
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(content, &object.Object); err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		if err := c.Create(ctx, object); client.IgnoreAlreadyExists(err) != nil {
			return fmt.Errorf("creating %s: %w", name, err)
		}
	}
	return nil
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

// Seen is the spec of a route that is in force; nil: none. Routes of both kinds have different names.
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
	seen := map[string]map[string]any{}
	for _, kind := range kinds() {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		if g.Client.List(ctx, list, client.InNamespace(g.Namespace)) != nil {
			return // it is not served yet
		}
		for i := range list.Items {
			route := &list.Items[i]
			spec, _, _ := unstructured.NestedMap(route.Object, "spec")
			if seen[route.GetName()] = spec; g.refuse != "" {
				seen[route.GetName()] = g.seen[route.GetName()]
			}
			g.answer(ctx, route)
		}
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
