// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/tree"
	"github.com/kruise-operator/kruise-operator/internal/testutil/patched"
)

func path(kind, value string) *v1beta1.HTTPMatch {
	return &v1beta1.HTTPMatch{Type: ptr.To(kind), Value: ptr.To(value)}
}

func header(pairs ...string) (all []v1beta1.HTTPNamedMatch) {
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, v1beta1.HTTPNamedMatch{Name: pairs[i], Value: pairs[i+1]})
	}
	return all
}

func match(matches ...v1beta1.HTTPRouteMatch) traffic.Share { return traffic.Share{Matches: matches} }

// besides is the route of the Rollout: per rule the matches and backends.
func besides(t *testing.T, object map[string]any, share traffic.Share) (map[string]any, error) {
	t.Helper()
	change, err := (Provider{Kind: tree.Text(object, "kind")}).Want(object, nil, web, share)
	if err != nil {
		return nil, err
	}
	if len(change.Patch) > 0 || change.Own == nil {
		t.Fatalf("the route of the user changes by %v, and the other one is %v", change.Patch, change.Own)
	}
	tree.Set(change.Own, nil, "metadata", "annotations", traffic.AnnotationContent)
	return change.Own, nil
}

func compact(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), `"`, "")
}

func TestMatches(t *testing.T) {
	const all = `  - backendRefs: [{name: web, port: 80, weight: 1}]`
	cases := map[string]struct {
		rules string
		share traffic.Share
		want  []string
	}{
		"a header": {all, match(v1beta1.HTTPRouteMatch{Headers: header("user", "a")}), []string{"[{headers:[{name:user,type:Exact,value:a}]}]"}},
		"either of two matches": {
			all, match(v1beta1.HTTPRouteMatch{Headers: header("user", "a")}, v1beta1.HTTPRouteMatch{Headers: header("user", "b", "region", "eu")}),
			[]string{"[{headers:[{name:user,type:Exact,value:a}]},{headers:[{name:user,type:Exact,value:b},{name:region,type:Exact,value:eu}]}]"},
		},
		"a parameter": {all, match(v1beta1.HTTPRouteMatch{QueryParams: header("v", "2")}), []string{"[{queryParams:[{name:v,type:Exact,value:2}]}]"}},
		"a longer path": {
			`  - {matches: [{path: {type: PathPrefix, value: /api}, method: GET}], backendRefs: [{name: web, weight: 1}]}`,
			match(v1beta1.HTTPRouteMatch{Path: path("PathPrefix", "/api/v2")}), []string{"[{method:GET,path:{type:PathPrefix,value:/api/v2}}]"},
		},
		"an exact path": {all, match(v1beta1.HTTPRouteMatch{Path: path("Exact", "/x")}), []string{"[{path:{type:Exact,value:/x}}]"}},
		"a shorter path with a header stays within the rule": {
			`  - {matches: [{path: {type: PathPrefix, value: /api}}], backendRefs: [{name: web, weight: 1}]}`,
			match(v1beta1.HTTPRouteMatch{Path: path("PathPrefix", "/"), Headers: header("a", "b")}),
			[]string{"[{headers:[{name:a,type:Exact,value:b}],path:{type:PathPrefix,value:/api}}]"},
		},
		"each rule with the Service": {
			`  - {matches: [{path: {value: /a}}, {path: {value: /b}}], backendRefs: [{name: web, weight: 1}]}
  - {matches: [{path: {value: /c}}], backendRefs: [{name: other, weight: 1}]}
  - {matches: [{path: {value: /d}}], backendRefs: [{name: web, weight: 1}]}`,
			match(v1beta1.HTTPRouteMatch{Headers: header("h", "1")}),
			[]string{
				"[{headers:[{name:h,type:Exact,value:1}],path:{value:/a}},{headers:[{name:h,type:Exact,value:1}],path:{value:/b}}]",
				"[{headers:[{name:h,type:Exact,value:1}],path:{value:/d}}]",
			},
		},
		"what cannot match is left out": {
			`  - {matches: [{path: {value: /a}}, {headers: [{name: H, value: "2"}]}, {headers: [{name: other, value: "2"}]}], backendRefs: [{name: web, weight: 1}]}`,
			match(v1beta1.HTTPRouteMatch{Path: path("PathPrefix", "/b"), Headers: header("h", "1")}),
			[]string{"[{headers:[{name:other,value:2},{name:h,type:Exact,value:1}],path:{type:PathPrefix,value:/b}}]"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := besides(t, patched.YAML(t, route+c.rules), c.share)
			if err != nil {
				t.Fatal(err)
			}
			rules := tree.Items(got, "spec", "rules")
			if len(rules) != len(c.want) {
				t.Fatalf("%d rules", len(rules))
			}
			for i, rule := range rules {
				if text := compact(t, rule["matches"]); text != c.want[i] {
					t.Errorf("rule %d: %s, want %s", i, text, c.want[i])
				}
				if refs := tree.Items(rule, "backendRefs"); tree.Text(refs[0], "name") != "web-canary" {
					t.Errorf("rule %d: goes to %v", i, refs)
				}
			}
		})
	}
}

func TestRouteBesideHasWhatTheUserWrote(t *testing.T) {
	object := patched.YAML(t, `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: shop, namespace: default, labels: {team: a}, annotations: {example.com/x: yes-sir, kubectl.kubernetes.io/last-applied-configuration: z}}
spec:
  parentRefs: [{name: gate}]
  hostnames: [shop.example.com]
  rules:
  - name: all
    timeouts: {request: 5s}
    future: {a: b}
    filters:
    - {type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: A, value: user}], add: [{name: C, value: user}], remove: [D]}}
    backendRefs: [{name: web, port: 80, weight: 2, filters: [{type: X}]}, {name: api, weight: 1}]
`)
	share := match(v1beta1.HTTPRouteMatch{Headers: header("h", "1")})
	share.Headers = &v1beta1.HTTPHeaderFilter{
		Set: []v1beta1.HTTPHeader{{Name: "a", Value: "new"}}, Add: []v1beta1.HTTPHeader{{Name: "c", Value: "more"}, {Name: "e", Value: "1"}}, Remove: []string{"f", "d"},
	}
	got, err := besides(t, object, share)
	if err != nil {
		t.Fatal(err)
	}
	want := patched.YAML(t, `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: shop-web, namespace: default, labels: {team: a}, annotations: {example.com/x: yes-sir}}
spec:
  parentRefs: [{name: gate}]
  hostnames: [shop.example.com]
  rules:
  - timeouts: {request: 5s}
    future: {a: b}
    matches: [{headers: [{type: Exact, name: h, value: "1"}]}]
    filters:
    - {type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: a, value: new}], add: [{name: C, value: "user,more"}, {name: e, value: "1"}], remove: [f, d]}}
    backendRefs: [{name: web-canary, port: 80, weight: 2, filters: [{type: X}]}, {name: api, weight: 1}]
`)
	same(t, got, want)
}

// A route of the Rollout first leads back, so that its gateway can say that it has seen that.
func TestRouteBesideLeadsBack(t *testing.T) {
	object := patched.YAML(t, route+`  - backendRefs: [{name: web, port: 80, weight: 1}]`)
	own, err := besides(t, object, match(v1beta1.HTTPRouteMatch{Headers: header("h", "1")}))
	if err != nil {
		t.Fatal(err)
	}
	change, err := (Provider{Kind: "HTTPRoute"}).Want(object, own, web, traffic.Share{})
	if err != nil || change.Own == nil || !change.Later || tree.Text(change.Own, "metadata", "name") != "shop-web" {
		t.Fatalf("%v %v", change, err)
	}
	if got := shape(change.Own, 0); got != "web:80=1 " {
		t.Error(got)
	}
	for _, object := range []map[string]any{object, nil} {
		if again, err := (Provider{Kind: "HTTPRoute"}).Want(object, change.Own, web, traffic.Share{}); err != nil || !again.Done() || !again.Later {
			t.Errorf("%v %v", again, err)
		}
	}
	if weights, err := (Provider{Kind: "HTTPRoute"}).Want(object, own, web, weightOf(5)); err != nil || weights.Own == nil || !weights.Later {
		t.Errorf("a step by weight after one by header: %v %v", weights, err)
	}
}

func TestGRPCRoute(t *testing.T) {
	object := patched.YAML(t, `
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata: {name: shop, namespace: default, resourceVersion: "1", generation: 1}
spec: {rules: [{matches: [{method: {service: shop.Cart}}], backendRefs: [{name: web, port: 80, weight: 1}]}]}
`)
	got, err := besides(t, object, match(v1beta1.HTTPRouteMatch{Headers: header("h", "1")}))
	if err != nil {
		t.Fatal(err)
	}
	if text := compact(t, tree.Items(got, "spec", "rules")[0]["matches"]); text != "[{headers:[{name:h,type:Exact,value:1}],method:{service:shop.Cart}}]" || got["kind"] != "GRPCRoute" {
		t.Error(text, got["kind"])
	}
	at := apply(t, object, web, weightOf(5))
	if got := shape(at, 0); got != "web:80=95 web-canary:80=5 " {
		t.Error(got)
	}
	same(t, end(t, at, web), object)
}

func TestRefusals(t *testing.T) {
	many := func(n int) (all []v1beta1.HTTPRouteMatch) {
		for range n {
			all = append(all, v1beta1.HTTPRouteMatch{Headers: header("h", strings.Repeat("x", len(all)+1))})
		}
		return all
	}
	const all = `  - backendRefs: [{name: web, port: 80, weight: 1}]`
	cases := map[string]struct {
		rules string
		share traffic.Share
		want  string
	}{
		"no rule has the Service":      {`  - backendRefs: [{name: api}]`, weightOf(1), "no rule of HTTPRoute shop sends requests to the Service web"},
		"no rule at all":               {`    []`, weightOf(1), "no rule of HTTPRoute shop"},
		"a rule without backends":      {`  - filters: [{type: RequestRedirect}]`, weightOf(1), "no rule of HTTPRoute shop"},
		"the same path":                {all, match(v1beta1.HTTPRouteMatch{Path: path("PathPrefix", "/")}), "matches[0]: it only matches what the route matches already"},
		"the same path, with a slash":  {`  - {matches: [{path: {value: /a}}], backendRefs: [{name: web}]}`, match(v1beta1.HTTPRouteMatch{Path: path("PathPrefix", "/a/")}), "matches already"},
		"a shorter path":               {`  - {matches: [{path: {value: /a/b}}], backendRefs: [{name: web}]}`, match(v1beta1.HTTPRouteMatch{Path: path("PathPrefix", "/a")}), "matches already"},
		"the same header":              {`  - {matches: [{headers: [{name: A, value: b}]}], backendRefs: [{name: web}]}`, match(v1beta1.HTTPRouteMatch{Headers: header("a", "b")}), "matches already"},
		"nothing":                      {all, match(v1beta1.HTTPRouteMatch{}), "matches already"},
		"another path":                 {`  - {matches: [{path: {value: /a}}], backendRefs: [{name: web}]}`, match(v1beta1.HTTPRouteMatch{Path: path("PathPrefix", "/ab")}), "no request of HTTPRoute shop"},
		"an expression and a path":     {`  - {matches: [{path: {type: RegularExpression, value: /a.}}], backendRefs: [{name: web}]}`, match(v1beta1.HTTPRouteMatch{Path: path("PathPrefix", "/a")}), "cannot be combined"},
		"two conditions of one header": {`  - {matches: [{headers: [{type: RegularExpression, name: a, value: .}]}], backendRefs: [{name: web}]}`, match(v1beta1.HTTPRouteMatch{Headers: header("a", "b")}), "has another condition"},
		"a match of another rule": {
			`  - {matches: [{headers: [{type: Exact, name: a, value: b}]}], backendRefs: [{name: api}]}` + "\n" + all, match(v1beta1.HTTPRouteMatch{Headers: header("a", "b")}), "does not differ from a match",
		},
		"too many matches of a rule": {
			`  - {matches: [{path: {value: /1}}, {path: {value: /2}}, {path: {value: /3}}, {path: {value: /4}}, {path: {value: /5}}], backendRefs: [{name: web}]}`, match(many(16)...), "80 matches are more than the 64 of a rule",
		},
		"too many headers": {
			all, match(v1beta1.HTTPRouteMatch{Headers: header(strings.Split("a,1,b,1,c,1,d,1,e,1,f,1,g,1,h,1,i,1,j,1,k,1,l,1,m,1,n,1,o,1,p,1,q,1", ",")...)}), "17 headers are more than the 16",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := (Provider{Kind: "HTTPRoute"}).Want(patched.YAML(t, route+c.rules), nil, web, c.share)
			var refusal *traffic.Refusal
			if !errors.As(err, &refusal) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	at := field.NewPath("steps").Index(0)
	one := traffic.Names{Stable: "web", Canary: "web"}
	cases := map[string]struct {
		kind  string
		share traffic.Share
		names traffic.Names
		want  string
	}{
		"a share of one Service":  {"HTTPRoute", weightOf(1), one, "steps[0].traffic"},
		"headers without matches": {"HTTPRoute", traffic.Share{Headers: &v1beta1.HTTPHeaderFilter{}}, web, "steps[0].requestHeaderModifier"},
		"an expression":           {"HTTPRoute", match(v1beta1.HTTPRouteMatch{Path: path("RegularExpression", "/.*")}), web, "steps[0].matches[0].path.type"},
		"a path":                  {"GRPCRoute", match(v1beta1.HTTPRouteMatch{Path: path("Exact", "/")}), web, "steps[0].matches[0].path"},
		"a parameter":             {"GRPCRoute", match(v1beta1.HTTPRouteMatch{QueryParams: header("a", "b")}), web, "steps[0].matches[0].queryParams"},
		"matches of one Service":  {"HTTPRoute", match(v1beta1.HTTPRouteMatch{Headers: header("a", "b")}), one, ""},
		"what works":              {"HTTPRoute", match(v1beta1.HTTPRouteMatch{QueryParams: header("a", "b"), Path: path("Exact", "/")}), web, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			errs := Provider{Kind: c.kind}.Check(c.share, c.names, at)
			if got := errs.ToAggregate(); c.want == "" && got != nil || c.want != "" && (len(errs) != 1 || errs[0].Field != c.want) {
				t.Errorf("%v, want %q", got, c.want)
			}
		})
	}
}

func TestSeen(t *testing.T) {
	const two = `{parentRefs: [{name: a}, {name: b, sectionName: x}]}`
	said := func(name, section, conditions string) string {
		return `{parentRef: {group: gateway.networking.k8s.io, kind: Gateway, name: ` + name + `, ` + section + ` namespace: default}, conditions: [` + conditions + `]}`
	}
	const (
		yes   = `{type: Accepted, status: "True", observedGeneration: 3}, {type: ResolvedRefs, status: "True", observedGeneration: 3}`
		half  = `{type: Accepted, status: "True", observedGeneration: 3}, {type: ResolvedRefs, status: "True", observedGeneration: 2}`
		no    = `{type: Accepted, status: "True", observedGeneration: 3}, {type: ResolvedRefs, status: "False", reason: BackendNotFound, message: no web, observedGeneration: 3}`
		was   = `{type: Accepted, status: "False", observedGeneration: 2}`
		mute  = `{type: Accepted, status: "True"}, {type: ResolvedRefs, status: "True"}`
		other = `{type: Programmed, status: "True", observedGeneration: 3}`
	)
	one := `{parentRefs: [{name: a}]}`
	cases := map[string]struct {
		spec, parents string
		want          traffic.Sight
		why           string
	}{
		"each parent":                {two, said("a", "", yes) + "," + said("b", "sectionName: x,", yes), traffic.Seen, ""},
		"one parent of two":          {two, said("a", "", yes), traffic.Silent, "the parent b says nothing"},
		"another section":            {two, said("a", "", yes) + "," + said("b", "sectionName: y,", yes), traffic.Silent, "the parent b"},
		"one condition of two":       {one, said("a", "", half), traffic.Behind, "the parent a has not seen"},
		"a refusal":                  {one, said("a", "", no), traffic.Refused, "HTTPRoute shop: a: BackendNotFound: no web"},
		"a refusal of the past":      {one, said("a", "", was), traffic.Behind, ""},
		"two gateways, one is ahead": {one, said("a", "", was) + "," + said("a", "", yes), traffic.Seen, ""},
		"without generations":        {one, said("a", "", mute), traffic.Silent, ""},
		"another condition":          {one, said("a", "", other), traffic.Silent, ""},
		"no status":                  {one, "", traffic.Silent, ""},
		"no parents":                 {"{}", "", traffic.Silent, "no parentRefs"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			object := patched.YAML(t, `{metadata: {name: shop, namespace: default, generation: 3}, spec: `+c.spec+`, status: {parents: [`+c.parents+`]}}`)
			got, why := Provider{Kind: "HTTPRoute"}.Seen(object, nil)
			if got != c.want || !strings.Contains(why, c.why) {
				t.Errorf("%d, %s; want %d, %s", got, why, c.want, c.why)
			}
		})
	}
	t.Run("a new route beside one that was seen", func(t *testing.T) {
		object := patched.YAML(t, `{metadata: {name: shop, namespace: default, generation: 3}, spec: `+one+`, status: {parents: [`+said("a", "", yes)+`]}}`)
		fresh := patched.YAML(t, `{metadata: {name: shop-web, namespace: default, generation: 3}, spec: `+one+`}`)
		if got, why := (Provider{Kind: "HTTPRoute"}).Seen(object, fresh); got != traffic.Behind {
			t.Errorf("%d %s", got, why)
		}
		fresh["status"] = object["status"]
		if got, why := (Provider{Kind: "HTTPRoute"}).Seen(object, fresh); got != traffic.Seen {
			t.Errorf("%d %s", got, why)
		}
	})
}
