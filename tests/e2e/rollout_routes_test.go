// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package e2e_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/gateway"
)

// Kinds of others; their definitions accept everything.
var (
	virtualService  = schema.GroupVersionKind{Group: "networking.istio.io", Version: "v1", Kind: "VirtualService"}
	destinationRule = schema.GroupVersionKind{Group: "networking.istio.io", Version: "v1", Kind: "DestinationRule"}
	ownRoute        = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "OwnRoute"}
)

const looseDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: PLURAL.GROUP}
spec:
  group: GROUP
  scope: Namespaced
  names: {kind: KIND, plural: PLURAL}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`

// othersMayBeRouted is what an administrator binds in a namespace.
const othersMayBeRouted = `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: istio}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: kruise-operator-route-istio}
subjects: [{kind: ServiceAccount, name: kruise-operator-manager, namespace: kruise-system}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: own}
rules: [{apiGroups: [example.com], resources: [ownroutes], verbs: [get, patch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: own}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: own}
subjects: [{kind: ServiceAccount, name: kruise-operator-manager, namespace: kruise-system}]
`

// serves lets the API server have kinds of others, and the operator route by them.
func (r *routed) serves(kinds ...schema.GroupVersionKind) {
	r.t.Helper()
	r.Apply(othersMayBeRouted)
	for _, kind := range kinds {
		plural := strings.ToLower(kind.Kind) + "s"
		definition := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(strings.NewReplacer("PLURAL", plural, "GROUP", kind.Group, "KIND", kind.Kind).Replace(looseDefinition)), &definition.Object); err != nil {
			r.t.Fatal(err)
		}
		if err := r.Client.Create(r.t.Context(), definition); client.IgnoreAlreadyExists(err) != nil {
			r.t.Fatal(err)
		}
		r.Eventually(kind.Kind+" is served", func(ctx context.Context) error {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(kind)
			return r.Client.List(ctx, list, client.InNamespace(r.Name))
		})
	}
}

// keeps checks later that an object is as it is now.
func (r *routed) keeps(kind schema.GroupVersionKind, name string) func() {
	r.t.Helper()
	before := r.written(kind, name)
	return func() {
		r.t.Helper()
		if diff := cmp.Diff(before, r.written(kind, name)); diff != "" {
			r.t.Errorf("something of the release is left in %s %s (-before +after):\n%s", kind.Kind, name, diff)
		}
	}
}

// ownsAgain is the next apply of the user after a release: without force it owns the rules of his route again, and changes nothing.
func (r *routed) ownsAgain() {
	r.t.Helper()
	before := &unstructured.Unstructured{Object: r.object(gateway.Kind, "shop")}
	applied := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(strings.Split(routedShop, "\n---\n")[1]), &applied.Object); err != nil {
		r.t.Fatal(err)
	}
	applied.SetNamespace(r.Name)
	if err := r.Client.Apply(r.t.Context(), client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner("test")); err != nil {
		r.t.Errorf("the next apply: %v", err)
	}
	after := &unstructured.Unstructured{Object: r.object(gateway.Kind, "shop")}
	owned := false
	for _, entry := range after.GetManagedFields() {
		owned = owned || entry.Manager == "test" && entry.FieldsV1 != nil && strings.Contains(string(entry.FieldsV1.GetRawBytes()), "f:rules")
	}
	if !owned || after.GetGeneration() != before.GetGeneration() {
		r.t.Errorf("its rules are owned: %t; its generation was %d, and is %d", owned, before.GetGeneration(), after.GetGeneration())
	}
}

const grpcShop = `
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata: {name: shop-grpc}
spec:
  parentRefs: [{name: gate}]
  rules:
  - {matches: [{method: {service: shop.v1.Shop}}], backendRefs: [{name: shop, port: 80}]}
`

// reaches is the Service of a request with headers: the route beside has more conditions, so it wins.
func (r *routed) reaches(route, headers string) string {
	rules, _, _ := unstructured.NestedSlice(r.gate.Seen(route+"-shop"), "rules")
	for _, rule := range rules {
		matches, _, _ := unstructured.NestedSlice(rule.(map[string]any), "matches")
		for _, match := range matches {
			all, _, _ := unstructured.NestedSlice(match.(map[string]any), "headers")
			fits := len(all) > 0
			for _, h := range all {
				fits = fits && strings.Contains(" "+headers+" ", fmt.Sprintf(" %v=%v ", h.(map[string]any)["name"], h.(map[string]any)["value"]))
			}
			if fits {
				return weights(map[string]any{"rules": []any{rule}})
			}
		}
	}
	return weights(r.gate.Seen(route))
}

// Case Q17 of users: a step listed several matches, and the route got part of them. An HTTPRoute and a GRPCRoute have all, and none at the end.
func TestEachAlternativeOfAStepReachesTheNewVersion(t *testing.T) {
	t.Parallel()
	r := newRouted(t, "apps/v1", "Deployment", `gateway: {httpRouteName: shop, grpcRouteName: shop-grpc}`)
	r.Apply(grpcShop)
	asBefore := r.keeps(gateway.GRPCKind, "shop-grpc")
	r.steps(`[{"replicas":1,"traffic":"20%"},
		{"replicas":"50%","matches":[{"headers":[{"name":"user","value":"a"}]},{"headers":[{"name":"user","value":"b"},{"name":"region","value":"eu"}]}]},{"replicas":"100%"}]`)
	r.image("v2")
	r.waits(1)
	r.leads("shop 80, shop-canary 20")
	if got := weights(r.gate.Seen("shop-grpc")); got != "shop 80, shop-canary 20" {
		t.Errorf("the GRPCRoute leads to %s", got)
	}
	r.approve()
	r.waits(2)
	for headers, want := range map[string]string{"user=a": "shop-canary 1", "user=b region=eu": "shop-canary 1", "user=b": "shop 1", "region=eu": "shop 1", "": "shop 1"} {
		for _, route := range []string{"shop", "shop-grpc"} {
			if got := r.reaches(route, headers); got != want {
				t.Errorf("a request with %q by %s reaches %s, want %s", headers, route, got, want)
			}
		}
	}
	r.approve()
	r.ends("True")
	r.asBefore()
	asBefore()
	if r.object(gateway.GRPCKind, "shop-grpc-shop") != nil {
		t.Error("the GRPCRoute beside is left")
	}
}

// A jump changes requests in both directions. Pods stay when it goes back.
func TestAJumpTakesRequestsAlong(t *testing.T) {
	t.Parallel()
	r := newRouted(t, "apps/v1", "Deployment", byGateway)
	r.steps(`[{"replicas":1,"traffic":"10%"},{"replicas":2,"traffic":"30%"},{"replicas":"50%","traffic":"50%"},{"replicas":"100%"}]`)
	r.image("v2")
	r.waits(1)
	r.leads("shop 90, shop-canary 10")
	r.jump(3)
	r.waits(3)
	r.has("v2", 3, 6)
	r.leads("shop 50, shop-canary 50")
	r.jump(1)
	r.waits(1)
	r.has("v2", 3, 6)
	r.leads("shop 90, shop-canary 10")
	r.image("v1")
	r.ends("False")
	r.asBefore()
}

// edit changes the main Ingress. As the admission check of ingress-nginx does, it refuses when another one has its host and path, and is no canary.
func (r *routed) edit(value string) {
	r.t.Helper()
	var all networkingv1.IngressList
	if err := r.Client.List(r.t.Context(), &all, client.InNamespace(r.Name)); err != nil {
		r.t.Fatal(err)
	}
	for i := range all.Items {
		if o := &all.Items[i]; o.Name != "shop" && o.Annotations["nginx.ingress.kubernetes.io/canary"] != "true" {
			r.t.Errorf("an edit is refused: Ingress %s has the same host and path", o.Name)
		}
	}
	r.patch(networkKinds()[1], "", `[{"op":"replace","path":"/metadata/annotations/nginx.ingress.kubernetes.io~1proxy-read-timeout","value":"`+value+`"}]`)
	r.before["Ingress"] = r.written(networkKinds()[1], "shop")
}

// Case Q21 of users: after a release a second Ingress stayed, so that edits of the main one were refused.
func TestTheMainIngressCanBeEditedAtEachTime(t *testing.T) {
	t.Parallel()
	r := newRouted(t, "apps/v1", "Deployment", `ingress: {name: shop}`)
	r.image("v2")
	r.waits(1)
	if r.object(networkKinds()[1], "shop-canary") == nil {
		t.Error("there is no second Ingress")
	}
	r.edit("6")
	r.approve()
	r.waits(2)
	r.approve()
	r.ends("True")
	r.asBefore()
	r.edit("7")
	r.image("v3")
	r.waits(1)
	r.edit("8")
	r.image("v2")
	r.ends("False")
	r.asBefore()
	r.edit("9")
}

const istioShop = `
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: shop}
spec: {host: shop, trafficPolicy: {connectionPool: {tcp: {connectTimeout: 3s}}}}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: shop}
spec:
  hosts: [shop]
  http:
  - {match: [{uri: {prefix: /admin}}], route: [{destination: {host: admin}}]}
  - {timeout: 5s, route: [{destination: {host: shop}}]}
`

const byIstio = `customNetworkRefs: [{apiVersion: networking.istio.io/v1, kind: VirtualService, name: shop}`

// rules are those of the VirtualService.
func (r *routed) rules() string {
	r.t.Helper()
	rules, _, _ := unstructured.NestedSlice(r.object(virtualService, "shop"), "spec", "http")
	var all []string
	for _, rule := range rules {
		routes, _, _ := unstructured.NestedSlice(rule.(map[string]any), "route")
		var to []string
		for _, route := range routes {
			host, _, _ := unstructured.NestedString(route.(map[string]any), "destination", "host")
			subset, _, _ := unstructured.NestedString(route.(map[string]any), "destination", "subset")
			to = append(to, strings.TrimSpace(fmt.Sprint(host, " ", subset, " ", route.(map[string]any)["weight"])))
		}
		all = append(all, strings.ReplaceAll(strings.ReplaceAll(strings.Join(to, ", "), "  ", " "), " <nil>", ""))
	}
	return strings.Join(all, "; ")
}

// Case Q23 of users: rules of versions that had been replaced in the middle piled up in the VirtualService.
func TestRulesDoNotPileUpWhenVersionsFollowEachOther(t *testing.T) {
	t.Parallel()
	r := newRouted(t, "apps/v1", "Deployment", byIstio+"]")
	r.serves(virtualService, destinationRule)
	r.Apply(istioShop)
	asBefore := r.keeps(virtualService, "shop")
	r.steps(`[{"replicas":1,"matches":[{"headers":[{"name":"user","value":"a"}]}]},{"replicas":"50%","traffic":"50%"},{"replicas":"100%"}]`)
	for _, version := range []string{"v2", "v3", "v4"} {
		r.image(version)
		r.until("it is about "+version, func(o *v1beta1.Rollout) bool { return o.Status.CurrentStepState != v1beta1.CanaryStepStatePaused })
		r.waits(1)
		r.has(version, 1, 6)
		if got := r.rules(); got != "admin; shop-canary; shop" {
			t.Errorf("with %s the rules are %s", version, got)
		}
	}
	r.approve()
	r.waits(2)
	if got := r.rules(); got != "admin; shop 50, shop-canary 50" {
		t.Errorf("in step 2 the rules are %s", got)
	}
	r.approve()
	r.ends("True")
	r.has("v4", 6, 6)
	r.asBefore()
	asBefore()
}

// Without a Service for new pods Istio tells versions apart by a subset. It is there before a VirtualService names it.
func TestASubsetIsThereBeforeItsName(t *testing.T) {
	t.Parallel()
	r := newRouted(t, "apps/v1", "Deployment", byIstio+`, {apiVersion: networking.istio.io/v1, kind: DestinationRule, name: shop}]`)
	r.serves(virtualService, destinationRule)
	r.Apply(istioShop)
	asBefore, asBeforeToo := r.keeps(virtualService, "shop"), r.keeps(destinationRule, "shop")
	r.configure("strategy/canary/disableGenerateCanaryService", "true")
	r.configure("strategy/canary/enableExtraWorkloadForCanary", "true")
	r.configure("strategy/canary/patchPodTemplateMetadata", `{"labels":{"istio.service.tag":"gray"}}`)
	r.image("v2")
	r.waits(1)
	if got := r.rules(); got != "admin; shop 80, shop canary 20" {
		t.Errorf("the rules are %s", got)
	}
	if pods := r.Pods("istio.service.tag=gray"); len(pods) != 1 {
		t.Errorf("%d pods are in the subset", len(pods))
	}
	if version(r.object(destinationRule, "shop")) > version(r.object(virtualService, "shop")) {
		t.Error("the DestinationRule was written after the VirtualService")
	}
	r.pinned("shop", false)
	if r.object(networkKinds()[2], "shop-canary") != nil {
		t.Error("there is a Service for new pods")
	}
	r.image("v1")
	r.ends("False")
	r.asBefore()
	asBefore()
	asBeforeToo()
}

// version grows with each write.
func version(object map[string]any) int {
	number, _ := strconv.Atoi((&unstructured.Unstructured{Object: object}).GetResourceVersion())
	return number
}

// manyIngresses have the classes that are routed by annotations, and one that only a script knows.
func manyIngresses() (routing, manifest string) {
	for _, class := range []string{"higress", "aliyun-alb", "mse", "own"} {
		routing += "}, {service: shop, gracePeriodSeconds: 1, ingress: {name: " + class + ", classType: " + class + "}"
		manifest += `
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: ` + class + `}
spec:
  rules: [{host: ` + class + `.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: shop, port: {number: 80}}}}]}}]
`
	}
	return routing, manifest
}

const ownShop = `
apiVersion: example.com/v1
kind: OwnRoute
metadata: {name: shop}
spec: {to: [{name: shop, share: 100}]}
`

const ownScripts = `
apiVersion: v1
kind: ConfigMap
metadata: {name: kruise-rollout-configuration, namespace: kruise-system}
data:
  lua.traffic.routing.ingress.own: |
    local out = {["own/share"] = obj.weight}
    for _, match in ipairs(obj.matches or {}) do out["own/header"] = match.headers[1].name end
    return out
  lua.traffic.routing.OwnRoute.example.com: |
    local spec = obj.data.spec
    spec.to[1].share = obj.stableWeight
    table.insert(spec.to, {name = obj.canaryService, share = obj.canaryWeight})
    return obj.data
  lua.traffic.routing.GRPCRoute.gateway.networking.k8s.io: return obj.data
`

// haveScripts installs those of the administrator.
func haveScripts(t *testing.T) {
	t.Helper()
	scripts := &corev1.ConfigMap{}
	if err := yaml.Unmarshal([]byte(ownScripts), scripts); err != nil {
		t.Fatal(err)
	}
	if err := env.Client.Create(t.Context(), scripts); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
}

// Ingresses of other classes, and what a script of the administrator routes: all of them in one Rollout.
func TestARolloutAndOtherRoutes(t *testing.T) {
	t.Parallel()
	haveScripts(t)
	routing, manifest := manyIngresses()
	r := newRouted(t, "apps/v1", "Deployment", `customNetworkRefs: [{apiVersion: example.com/v1, kind: OwnRoute, name: shop}]`+routing)
	r.serves(ownRoute)
	r.Apply(ownShop + manifest)
	asBefore := r.keeps(ownRoute, "shop")
	r.image("v2")
	r.waits(1)
	const nginx, alb = "nginx.ingress.kubernetes.io/canary", "alb.ingress.kubernetes.io/"
	r.annotated(map[string]map[string]string{
		"higress": {nginx: "true", nginx + "-weight": "20"}, "mse": {nginx: "true", nginx + "-weight": "20"}, "own": {"own/share": "20"},
		"aliyun-alb": {alb + "canary": "true", alb + "canary-weight": "20", alb + "order": "1"},
	})
	if got := fmt.Sprint(r.object(ownRoute, "shop")["spec"]); got != "map[to:[map[name:shop share:80] map[name:shop-canary share:20]]]" {
		t.Errorf("the object of an unknown kind is %s", got)
	}
	r.approve()
	r.waits(2)
	header := map[string]string{nginx: "true", nginx + "-by-header": "user-agent", nginx + "-by-header-value": "pc"}
	r.annotated(map[string]map[string]string{
		"higress": header, "mse": header, "own": {"own/share": "-1", "own/header": "user-agent"},
		"aliyun-alb": {alb + "canary": "true", alb + "canary-by-header": "user-agent", alb + "canary-by-header-value": "pc", alb + "order": "1"},
	})
	r.approve()
	r.ends("True")
	r.asBefore()
	asBefore()
	r.annotated(nil)
}

// annotated checks the second Ingresses.
func (r *routed) annotated(want map[string]map[string]string) {
	r.t.Helper()
	var all networkingv1.IngressList
	if err := r.Client.List(r.t.Context(), &all, client.InNamespace(r.Name)); err != nil {
		r.t.Fatal(err)
	}
	got := map[string]map[string]string(nil)
	for i := range all.Items {
		name, second := strings.CutSuffix(all.Items[i].Name, "-canary")
		if !second {
			continue
		}
		if got == nil {
			got = map[string]map[string]string{}
		}
		delete(all.Items[i].Annotations, "rollouts.kruise.io/content")
		got[name] = all.Items[i].Annotations
	}
	if diff := cmp.Diff(want, got); diff != "" {
		r.t.Errorf("the second Ingresses (-want +got):\n%s", diff)
	}
}

// refuses says what admission has against a Rollout with a step and a route.
func (r *rolled) refuses(routing, step string) string {
	r.t.Helper()
	text := environment.Edited(rolloutOfShop, "      - {replicas: 1}\n", "      - {replicas: 1, "+step+"}\n",
		"    canary:\n", "    canary:\n      trafficRoutings: [{service: shop, "+routing+"}]\n", "\n---\n", "")
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		r.t.Fatal(err)
	}
	object.SetNamespace(r.Name)
	if err := r.Client.Create(r.t.Context(), object, client.DryRunAll); err != nil {
		return err.Error()
	}
	return ""
}

// A step that a class cannot express is refused, with the reason.
func TestAStepThatAClassCannotExpressIsRefused(t *testing.T) {
	t.Parallel()
	r := unrolled(t, env, "apps/v1", "Deployment", deployed)
	for class, fields := range map[string]string{
		"nginx cannot choose requests by parameters":             `matches: [{queryParams: [{name: a, value: b}]}]`,
		"higress know one header in a step":                      `matches: [{headers: [{name: a, value: b}]}, {headers: [{name: c, value: d}]}]`,
		"aliyun-alb cannot change headers of requests":           `traffic: 20%, requestHeaderModifier: {remove: [a]}`,
		"mse choose by one header or parameter in a match":       `matches: [{headers: [{name: a, value: b}, {name: c, value: d}]}]`,
		"nginx cannot choose requests by path":                   `matches: [{path: {value: /a}}]`,
		"nginx know one cookie in a step, and no expression for": `matches: [{headers: [{name: canary-by-cookie, type: RegularExpression, value: a.*}]}]`,
	} {
		name, _, _ := strings.Cut(class, " ")
		if got := r.refuses("ingress: {name: shop, classType: "+name+"}", fields); !strings.Contains(got, "Ingresses of the class "+class) {
			t.Errorf("%s: %q", class, got)
		}
	}
	// What a script of the administrator serves has other limits.
	haveScripts(t)
	for kind, want := range map[string]bool{"HTTPRoute": true, "GRPCRoute": false} {
		by := "customNetworkRefs: [{apiVersion: gateway.networking.k8s.io/v1, kind: " + kind + ", name: shop}]"
		if got := r.refuses(by, "traffic: 20%, requestHeaderModifier: {remove: [a]}"); strings.Contains(got, "requestHeaderModifier") != want || !want && got != "" {
			t.Errorf("%s: %q", kind, got)
		}
	}
}
