// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"errors"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/tree"
	"github.com/kruise-operator/kruise-operator/internal/testutil/patched"
)

var (
	web = traffic.Names{Rollout: "web", Stable: "web", Canary: "web-canary"}
	one = traffic.Names{Rollout: "web", Stable: "web", Canary: "web"}
)

func of(t *testing.T, class string) Provider {
	t.Helper()
	p, found := Of(class)
	if !found {
		t.Fatalf("no class %s", class)
	}
	return p
}

func named(name, value string) v1beta1.HTTPNamedMatch {
	return v1beta1.HTTPNamedMatch{Name: name, Value: value}
}

func pattern(name, value string) v1beta1.HTTPNamedMatch {
	return v1beta1.HTTPNamedMatch{Type: ptr.To(regular), Name: name, Value: value}
}

func header(h ...v1beta1.HTTPNamedMatch) v1beta1.HTTPRouteMatch {
	return v1beta1.HTTPRouteMatch{Headers: h}
}

func query(q ...v1beta1.HTTPNamedMatch) v1beta1.HTTPRouteMatch {
	return v1beta1.HTTPRouteMatch{QueryParams: q}
}

// Cases of annotations that scripts are compared with, too.
func TestAnnotations(t *testing.T) {
	old := map[string]string{
		nginx + "canary": "false", nginx + "canary-weight": "7", nginx + "canary-by-header-value": "old", nginx + "rewrite-target": "/",
		mse + "canary-by-query": "old", mse + "service-subset": "base", mse + "request-header-control-update": "A 1\nB 2",
	}
	with := func(pairs ...string) map[string]string {
		all := map[string]string{nginx + "rewrite-target": "/", mse + "canary-by-query": "old", mse + "service-subset": "base", mse + "request-header-control-update": "A 1\nB 2"}
		for i := 0; i < len(pairs); i += 2 {
			all[pairs[i]] = pairs[i+1]
		}
		return all
	}
	onMSE := func(pairs ...string) map[string]string {
		all := with(append([]string{nginx + "canary", "true", mse + "service-subset", "gray"}, pairs...)...)
		if _, asks := all[nginx+"canary-by-query"]; !asks {
			delete(all, mse+"canary-by-query")
		}
		return all
	}
	weight := traffic.Share{Weight: ptr.To(int32(20))}
	matches := func(m ...v1beta1.HTTPRouteMatch) traffic.Share { return traffic.Share{Matches: m} }
	cases := map[string]struct {
		class string
		share traffic.Share
		want  map[string]string
	}{
		"nginx, weight":             {"nginx", weight, with(nginx+"canary", "true", nginx+"canary-weight", "20")},
		"higress, weight":           {"higress", weight, with(nginx+"canary", "true", nginx+"canary-weight", "20")},
		"mse, weight":               {"mse", weight, onMSE(nginx+"canary-weight", "20")},
		"nginx, header":             {"nginx", matches(header(named("u", "a"))), with(nginx+"canary", "true", nginx+"canary-by-header", "u", nginx+"canary-by-header-value", "a")},
		"nginx, expression":         {"nginx", matches(header(pattern("u", "a.*"))), with(nginx+"canary", "true", nginx+"canary-by-header", "u", nginx+"canary-by-header-pattern", "a.*")},
		"nginx, cookie":             {"nginx", matches(header(named(Cookie, "c"))), with(nginx+"canary", "true", nginx+"canary-by-cookie", "c")},
		"nginx, either":             {"nginx", matches(header(named(Cookie, "c")), header(named("u", "a"))), with(nginx+"canary", "true", nginx+"canary-by-cookie", "c", nginx+"canary-by-header", "u", nginx+"canary-by-header-value", "a")},
		"nginx, both":               {"nginx", traffic.Share{Weight: ptr.To(int32(0)), Matches: []v1beta1.HTTPRouteMatch{header(named("u", "a"))}}, with(nginx+"canary", "true", nginx+"canary-weight", "0", nginx+"canary-by-header", "u", nginx+"canary-by-header-value", "a")},
		"mse, parameter":            {"mse", matches(query(named("q", "1"))), onMSE(nginx+"canary-by-query", "q", nginx+"canary-by-query-value", "1", mse+"canary-by-query", "q", mse+"canary-by-query-value", "1")},
		"mse, parameter expression": {"mse", matches(query(pattern("q", "1+"))), onMSE(nginx+"canary-by-query", "q", nginx+"canary-by-query-pattern", "1+", mse+"canary-by-query", "q", mse+"canary-by-query-pattern", "1+")},
		"mse, headers": {
			"mse", traffic.Share{Weight: ptr.To(int32(5)), Headers: &v1beta1.HTTPHeaderFilter{
				Set: []v1beta1.HTTPHeader{{Name: "b", Value: "3"}, {Name: "C", Value: "4"}}, Add: []v1beta1.HTTPHeader{{Name: "D", Value: "5"}}, Remove: []string{"E", "F"},
			}},
			onMSE(nginx+"canary-weight", "5", mse+"request-header-control-update", "A 1\nb 3\nC 4", mse+"request-header-control-add", "D 5", mse+"request-header-control-remove", "E,F"),
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			user := maps.Clone(old)
			got, err := of(t, c.class).Annotations(user, c.share, web)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(old, user); diff != "" {
				t.Errorf("the input changed:\n%s", diff)
			}
		})
	}
	t.Run("aliyun-alb", func(t *testing.T) {
		got, err := of(t, "aliyun-alb").Annotations(map[string]string{alb + "canary-weight": "1", nginx + "canary": "x"}, weight, web)
		want := map[string]string{alb + "canary": "true", alb + "canary-weight": "20", alb + "order": "1", nginx + "canary": "x"}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	})
}

func TestCheck(t *testing.T) {
	step := field.NewPath("s")
	m := func(m ...v1beta1.HTTPRouteMatch) traffic.Share { return traffic.Share{Matches: m} }
	cases := map[string]struct {
		class string
		share traffic.Share
		names traffic.Names
		want  string
	}{
		"two headers in a match":         {"nginx", m(header(named("a", "1"), named("b", "2"))), web, "s.matches[0]"},
		"two headers in two matches":     {"nginx", m(header(named("a", "1")), header(named("b", "2"))), web, "s.matches[1].headers"},
		"two cookies":                    {"nginx", m(header(named(Cookie, "1")), header(named(Cookie, "2"))), web, "s.matches[1].headers"},
		"an expression of a cookie":      {"nginx", m(header(pattern(Cookie, "1"))), web, "s.matches[0].headers"},
		"a path":                         {"mse", m(v1beta1.HTTPRouteMatch{Path: &v1beta1.HTTPMatch{}, Headers: header(named("a", "1")).Headers}), web, "s.matches[0].path"},
		"a parameter":                    {"aliyun-alb", m(query(named("a", "1"))), web, "s.matches[0].queryParams"},
		"a header and a parameter":       {"mse", m(v1beta1.HTTPRouteMatch{Headers: header(named("a", "1")).Headers, QueryParams: query(named("a", "1")).QueryParams}), web, "s.matches[0]"},
		"two parameters":                 {"mse", m(query(named("a", "1")), query(named("b", "1"))), web, "s.matches[1].queryParams"},
		"an empty match":                 {"nginx", m(v1beta1.HTTPRouteMatch{}), web, "s.matches[0]"},
		"headers changed":                {"higress", traffic.Share{Headers: &v1beta1.HTTPHeaderFilter{}}, web, "s.requestHeaderModifier"},
		"a line break":                   {"mse", traffic.Share{Headers: &v1beta1.HTTPHeaderFilter{Set: []v1beta1.HTTPHeader{{Name: "a", Value: "1\nb 2"}}}}, web, "s.requestHeaderModifier"},
		"one Service":                    {"nginx", m(header(named("a", "1"))), one, "s"},
		"one Service with its headers":   {"mse", m(header(named("a", "1"))), one, ""},
		"either a header or a cookie":    {"nginx", m(header(named("a", "1")), header(named(Cookie, "c"))), web, ""},
		"one of three where it is known": {"mse", m(header(named("a", "1")), header(named(Cookie, "c")), query(named("q", "1"))), web, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			errs := of(t, c.class).Check(c.share, c.names, step)
			if c.want == "" && len(errs) > 0 || c.want != "" && (len(errs) != 1 || errs[0].Field != c.want) {
				t.Errorf("%v, want %q", errs, c.want)
			}
		})
	}
}

const shop = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: shop
  namespace: default
  labels: {team: a}
  annotations: {nginx.ingress.kubernetes.io/rewrite-target: /x, kubectl.kubernetes.io/last-applied-configuration: y}
spec:
  ingressClassName: outer
  future: 1
  tls: [{hosts: [a.example.com], secretName: tls}]
  defaultBackend: {service: {name: web, port: {number: 80}}}
  rules:
  - host: a.example.com
    http:
      paths:
      - {path: /, pathType: Prefix, backend: {service: {name: web, port: {name: http}}}}
      - {path: /api, pathType: Prefix, backend: {service: {name: api, port: {number: 80}}}}
      - {path: /files, pathType: Prefix, backend: {resource: {kind: Bucket, name: files}}}
  - host: b.example.com
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: api, port: {number: 80}}}}]}
  - host: c.example.com
`

func TestSecondIngress(t *testing.T) {
	object := patched.YAML(t, shop)
	change, err := of(t, "nginx").Want(object, nil, web, traffic.Share{Weight: ptr.To(int32(20))})
	if err != nil || len(change.Patch) > 0 || change.Gone || change.Own == nil {
		t.Fatalf("%v %v", change, err)
	}
	if again, err := of(t, "nginx").Want(object, change.Own, web, traffic.Share{Weight: ptr.To(int32(20))}); err != nil || !again.Done() {
		t.Errorf("a second pass: %v %v", again, err)
	}
	tree.Set(change.Own, nil, "metadata", "annotations", traffic.AnnotationContent)
	want := patched.YAML(t, `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: shop-canary
  namespace: default
  labels: {team: a}
  annotations: {nginx.ingress.kubernetes.io/rewrite-target: /x, nginx.ingress.kubernetes.io/canary: "true", nginx.ingress.kubernetes.io/canary-weight: "20"}
spec:
  ingressClassName: outer
  future: 1
  tls: [{hosts: [a.example.com], secretName: tls}]
  rules:
  - host: a.example.com
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web-canary, port: {name: http}}}}]}
`)
	if diff := cmp.Diff(want, change.Own); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(patched.YAML(t, shop), object); diff != "" {
		t.Errorf("the Ingress of the user changed:\n%s", diff)
	}
}

// Rancher notes the endpoints on each Ingress. The note was copied, and both wrote the second Ingress for ever.
func TestRancherMayNoteEndpointsOnTheSecondIngress(t *testing.T) {
	object, share := patched.YAML(t, shop), traffic.Share{Weight: ptr.To(int32(20))}
	note := func(object map[string]any, name string) {
		tree.Set(object, `[{"ingressName":"default:`+name+`"}]`, "metadata", "annotations", "field.cattle.io/publicEndpoints")
	}
	note(object, "shop")
	change, err := of(t, "nginx").Want(object, nil, web, share)
	if err != nil {
		t.Fatal(err)
	}
	note(change.Own, "shop-canary")
	if again, err := of(t, "nginx").Want(object, change.Own, web, share); err != nil || !again.Done() {
		t.Errorf("it is written again: %v %v", again, err)
	}
}

// A second Ingress that is left makes ingress-nginx refuse edits of the first one.
func TestNothingIsLeft(t *testing.T) {
	object := patched.YAML(t, shop)
	for _, class := range []string{"nginx", "higress", "aliyun-alb", "mse"} {
		p := of(t, class)
		routed, err := p.Want(object, nil, web, traffic.Share{Weight: ptr.To(int32(20))})
		if err != nil {
			t.Fatal(err)
		}
		want := traffic.Change{Gone: true}
		for name, end := range map[string]func() (traffic.Change, error){
			"no traffic": func() (traffic.Change, error) { return p.Want(object, routed.Own, web, traffic.Share{}) },
			"weight 0": func() (traffic.Change, error) {
				return p.Want(object, routed.Own, web, traffic.Share{Weight: ptr.To(int32(0))})
			},
			"the end":                     func() (traffic.Change, error) { return p.Want(object, routed.Own, web, traffic.Share{}) },
			"the end without the Ingress": func() (traffic.Change, error) { return p.Want(nil, routed.Own, web, traffic.Share{}) },
		} {
			if change, err := end(); err != nil || cmp.Diff(want, change) != "" {
				t.Errorf("%s, %s: %v %v", class, name, change, err)
			}
		}
		if change, err := p.Want(object, nil, web, traffic.Share{}); err != nil || !change.Done() {
			t.Errorf("%s: %v %v", class, change, err)
		}
	}
	if diff := cmp.Diff(patched.YAML(t, shop), object); diff != "" {
		t.Errorf("the Ingress of the user changed:\n%s", diff)
	}
}

func TestIngressWithoutTheService(t *testing.T) {
	var refusal *traffic.Refusal
	for _, spec := range []string{"{}", "{defaultBackend: {service: {name: web}}}", "{rules: [{http: {paths: [{backend: {service: {name: api}}}]}}]}"} {
		object := patched.YAML(t, "{metadata: {name: shop}, spec: "+spec+"}")
		if _, err := of(t, "nginx").Want(object, nil, web, traffic.Share{Weight: ptr.To(int32(1))}); !errors.As(err, &refusal) {
			t.Errorf("%s: %v", spec, err)
		}
	}
}

func TestUnknownClass(t *testing.T) {
	if _, found := Of("traefik"); found {
		t.Error("found")
	}
}
