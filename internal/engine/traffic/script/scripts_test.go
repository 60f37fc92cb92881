// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/ingress"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/tree"
	"github.com/kruise-operator/kruise-operator/internal/testutil/patched"
)

var web = traffic.Names{Rollout: "web", Stable: "web", Canary: "web-canary"}

// classScript is written to the contract, for any class with the names of ingress-nginx.
const classScript = `
local function put(out, key, m)
	out[key] = m.name
	local how = "-value"
	if m.type == "RegularExpression" then how = "-pattern" end
	out[key .. how] = m.value
end
local out = {}
for key, value in pairs(obj.annotations) do
	local ours = false
	for _, prefix in ipairs(clear) do
		if key:sub(1, #prefix + 6) == prefix .. "canary" then ours = true end
	end
	if not ours then out[key] = value end
end
for key, value in pairs(always) do out[key] = value end
out[base .. "canary"] = "true"
if obj.weight ~= "-1" then out[base .. "canary-weight"] = obj.weight end
for _, match in ipairs(obj.matches or {}) do
	for _, header in ipairs(match.headers or {}) do
		if header.name == "canary-by-cookie" then
			out[base .. "canary-by-cookie"] = header.value
		else
			put(out, base .. "canary-by-header", header)
		end
	end
	for _, param in ipairs(match.queryParams or {}) do
		for _, prefix in ipairs(clear) do put(out, prefix .. "canary-by-query", param) end
	end
end
if headers then
	local subset = headers .. "service-subset"
	if out[subset] then out[subset] = "gray" end
	local set = obj.requestHeaderModifier and obj.requestHeaderModifier.set or {}
	local lines = {}
	for _, h in ipairs(set) do lines[#lines + 1] = h.name .. " " .. h.value end
	if #lines > 0 then out[headers .. "request-header-control-update"] = table.concat(lines, "\n") end
end
return out
`

const (
	nginxScript = `local base, clear, always, headers = "nginx.ingress.kubernetes.io/", {"nginx.ingress.kubernetes.io/"}, {}, nil` + classScript
	albScript   = `local base = "alb.ingress.kubernetes.io/"; local clear, always, headers = {base}, {[base .. "order"] = "1"}, nil` + classScript
	mseScript   = `local base, headers = "nginx.ingress.kubernetes.io/", "mse.ingress.kubernetes.io/"; local clear, always = {base, headers}, {}` + classScript
)

// A script by the contract gives what the operator gives by itself.
func TestAnnotations(t *testing.T) {
	named := func(kind, name, value string) []v1beta1.HTTPNamedMatch {
		return []v1beta1.HTTPNamedMatch{{Type: ptr.To(kind), Name: name, Value: value}}
	}
	header := func(kind, name, value string) v1beta1.HTTPRouteMatch {
		return v1beta1.HTTPRouteMatch{Headers: named(kind, name, value)}
	}
	shares := map[string]traffic.Share{
		"a weight":      {Weight: ptr.To(int32(20))},
		"a header":      {Matches: []v1beta1.HTTPRouteMatch{{Headers: []v1beta1.HTTPNamedMatch{{Name: "u", Value: "a"}}}}},
		"an expression": {Matches: []v1beta1.HTTPRouteMatch{header("RegularExpression", "u", "a.*")}},
		"a cookie":      {Matches: []v1beta1.HTTPRouteMatch{header("Exact", ingress.Cookie, "c")}},
		"both":          {Weight: ptr.To(int32(5)), Matches: []v1beta1.HTTPRouteMatch{header("Exact", "u", "a"), header("Exact", ingress.Cookie, "c")}},
	}
	parameter := traffic.Share{
		Matches: []v1beta1.HTTPRouteMatch{{QueryParams: named("RegularExpression", "q", "1+")}},
		Headers: &v1beta1.HTTPHeaderFilter{Set: []v1beta1.HTTPHeader{{Name: "a", Value: "1"}, {Name: "b", Value: "2"}}},
	}
	user := map[string]string{
		"x": "y", "nginx.ingress.kubernetes.io/canary-weight": "3", "nginx.ingress.kubernetes.io/canary-by-header": "old",
		"alb.ingress.kubernetes.io/canary-by-cookie": "old", "mse.ingress.kubernetes.io/service-subset": "base", "mse.ingress.kubernetes.io/canary-by-query": "old",
	}
	for class, text := range map[string]string{"nginx": nginxScript, "higress": nginxScript, "aliyun-alb": albScript, "mse": mseScript} {
		native, _ := ingress.Of(class)
		own := ingress.Provider{Annotator: Annotator{Run: New().Script(t.Context(), text)}}
		all := map[string]traffic.Share{"": parameter}
		if class != "mse" {
			delete(all, "")
		}
		for name, share := range shares {
			all[name] = share
		}
		for name, share := range all {
			want, err := native.Annotations(user, share, web)
			if err != nil {
				t.Fatal(err)
			}
			got, err := own.Annotations(user, share, web)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%s, %s: %v (-want +got):\n%s", class, name, err, diff)
			}
		}
	}
}

func TestFaultsOfScripts(t *testing.T) {
	for text, want := range map[string]string{
		"error('none of this')":    "the script of the class: script:1: none of this",
		"return {a = {}}":          "the script returned the annotation a, and it is no text",
		"return {spec = 'x'}":      "",
		"return {spec = obj.x.y}":  "the script of",
		"return {labels = {}}":     "",
		"return {a = 1, b = true}": "",
	} {
		var refusal *traffic.Refusal
		_, err := Annotator{New().Script(t.Context(), text)}.Annotations(nil, traffic.Share{}, web)
		if want != "" && (!errors.As(err, &refusal) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	object := patched.YAML(t, "{kind: Route, spec: {a: b}}")
	for text, want := range map[string]string{
		"return {}": "the script of Route returned no spec",
		"return {spec = obj.data.spec, labels = {a={}}}": "the script returned the labels a",
		"error('no')": "the script of Route: script:1: no",
	} {
		if _, err := (Object{New().Script(t.Context(), text)}).Want(object, nil, web, traffic.Share{Weight: ptr.To(int32(1))}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// routeScript is for a kind with backends.
const routeScript = `
local spec, stable, canary = obj.data.spec, obj.stableService, obj.canaryService
if obj.canaryWeight >= 0 then
	for _, b in ipairs(spec.backends) do
		if b.name == stable then b.weight = obj.stableWeight end
	end
	table.insert(spec.backends, {name = canary, weight = obj.canaryWeight})
end
if obj.matches then spec.choose = {headers = obj.matches[1].headers, to = canary} end
obj.data.annotations["example.com/canary"] = tostring(obj.canaryWeight)
return {spec = spec, labels = obj.data.labels, annotations = obj.data.annotations}
`

const route = `
apiVersion: example.com/v1
kind: Route
metadata: {name: shop, namespace: default, resourceVersion: "1", generation: 1, labels: {a: b}}
spec: {future: {x: 1}, none: [], names: {}, timeout: 5s, backends: [{name: web, weight: 1}]}
`

func without(object map[string]any) map[string]any {
	object = tree.Clone(object)
	tree.Set(object, nil, "metadata", "resourceVersion")
	tree.Set(object, nil, "metadata", "generation")
	return object
}

func TestObject(t *testing.T) {
	o := Object{New().Script(t.Context(), routeScript)}
	apply := func(at map[string]any, share traffic.Share) map[string]any {
		change, err := o.Want(at, nil, web, share)
		if err != nil {
			t.Fatal(err)
		}
		at = patched.Object(t, at, change.Patch)
		if again, err := o.Want(at, nil, web, share); err != nil || !again.Done() {
			t.Fatalf("again %v %v", again.Patch, err)
		}
		return at
	}
	end := func(at map[string]any) (map[string]any, bool) {
		change, err := o.Want(at, nil, web, traffic.Share{})
		if err != nil {
			t.Fatal(err)
		}
		return patched.Object(t, at, change.Patch), change.Corrected
	}
	before := patched.YAML(t, route)
	at := apply(before, traffic.Share{Weight: ptr.To(int32(20))})
	if got, want := tree.Map(at, "spec")["backends"], []any{map[string]any{"name": "web", "weight": int64(80)}, map[string]any{"name": "web-canary", "weight": int64(20)}}; !tree.Same(got, want) {
		t.Error(cmp.Diff(want, got))
	}
	t.Run("the end", func(t *testing.T) {
		got, lost := end(apply(apply(at, traffic.Share{Weight: ptr.To(int32(100))}), traffic.Share{Matches: []v1beta1.HTTPRouteMatch{{Headers: []v1beta1.HTTPNamedMatch{{Name: "u", Value: "a"}}}}}))
		if diff := cmp.Diff(without(before), without(got)); diff != "" || lost {
			t.Error(lost, diff)
		}
		if got := apply(at, traffic.Share{}); cmp.Diff(without(before), without(got)) != "" {
			t.Error("a step without traffic leaves something")
		}
	})
	t.Run("edits of the user stay", func(t *testing.T) {
		edited, want := tree.Clone(at), tree.Clone(before)
		for _, o := range []map[string]any{edited, want} {
			tree.Set(o, "9s", "spec", "timeout")
			tree.Set(o, "new", "spec", "names", "more")
			tree.Set(o, "c", "metadata", "labels", "a")
			tree.Set(o, "e", "metadata", "annotations", "d")
			tree.Items(o, "spec", "backends")[0]["port"] = int64(80)
		}
		edited = apply(patched.Stored(edited, true), traffic.Share{Weight: ptr.To(int32(50))})
		if tree.Text(edited, "spec", "timeout") != "9s" {
			t.Error("lost in the release")
		}
		got, _ := end(edited)
		tree.Items(want, "spec", "backends")[0]["port"] = nil
		delete(tree.Items(want, "spec", "backends")[0], "port") // the list has another length, so the script's one stays
		if diff := cmp.Diff(without(want), without(got)); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("an annotation of the user that the script changes comes back", func(t *testing.T) {
		noted := tree.Clone(before)
		tree.Set(noted, "of the user", "metadata", "annotations", "example.com/canary")
		got, lost := end(apply(noted, traffic.Share{Weight: ptr.To(int32(20))}))
		if diff := cmp.Diff(without(noted), without(got)); diff != "" || lost {
			t.Error(lost, diff)
		}
	})
	t.Run("what is written over the script is corrected", func(t *testing.T) {
		edited := tree.Clone(at)
		tree.Items(edited, "spec", "backends")[0]["weight"] = int64(7)
		change, err := o.Want(edited, nil, web, traffic.Share{Weight: ptr.To(int32(20))})
		if err != nil || !change.Corrected || cmp.Diff(without(patched.Object(t, edited, change.Patch)), without(at)) != "" {
			t.Error(change, err)
		}
	})
	t.Run("a note of OpenKruise", func(t *testing.T) {
		foreign := tree.Clone(at)
		tree.Set(foreign, `{"spec":{"backends":[]},"labels":{"a":"z"},"annotations":{"note":"m"}}`, "metadata", "annotations", traffic.AnnotationOriginal)
		got, _ := end(foreign)
		want := patched.YAML(t, `{apiVersion: example.com/v1, kind: Route, metadata: {name: shop, namespace: default, labels: {a: z}, annotations: {note: m}}, spec: {backends: []}}`)
		if diff := cmp.Diff(want, without(got)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestKeys(t *testing.T) {
	if IngressKey("traefik") != "lua.traffic.routing.ingress.traefik" || ObjectKey("VirtualService", "networking.istio.io") != "lua.traffic.routing.VirtualService.networking.istio.io" {
		t.Error("other keys")
	}
}
