// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package istio

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/tree"
	"github.com/kruise-operator/kruise-operator/internal/testutil/patched"
	"github.com/kruise-operator/kruise-operator/internal/testutil/sample"
)

var (
	web = traffic.Names{Rollout: "web", Stable: "web", Canary: "web-canary"}
	one = traffic.Names{Rollout: "web", Stable: "web", Canary: "web"}
)

const service = `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: shop, namespace: default, resourceVersion: "1", generation: 1}
spec:
  hosts: [shop.example.com]
`

func weightOf(percent int32) traffic.Share { return traffic.Share{Weight: &percent} }

func match(matches ...v1beta1.HTTPRouteMatch) traffic.Share { return traffic.Share{Matches: matches} }

func header(pairs ...string) (m v1beta1.HTTPRouteMatch) {
	for i := 0; i < len(pairs); i += 2 {
		m.Headers = append(m.Headers, v1beta1.HTTPNamedMatch{Name: pairs[i], Value: pairs[i+1]})
	}
	return m
}

func path(kind, value string) *v1beta1.HTTPMatch {
	return &v1beta1.HTTPMatch{Type: ptr.To(kind), Value: ptr.To(value)}
}

func apply(t testing.TB, object map[string]any, names traffic.Names, share traffic.Share) map[string]any {
	t.Helper()
	p := Provider{Kind: tree.Text(object, "kind")}
	change, err := p.Want(object, nil, names, share)
	if err != nil {
		t.Fatal(err)
	}
	after := patched.Object(t, object, change.Patch)
	if again, err := p.Want(after, nil, names, share); err != nil || !again.Done() || again.Corrected {
		t.Fatalf("a second pass changes %v, corrected %v, error %v", again.Patch, again.Corrected, err)
	}
	return after
}

func end(t testing.TB, object map[string]any, names traffic.Names) map[string]any {
	t.Helper()
	change, err := Provider{Kind: tree.Text(object, "kind")}.Want(object, nil, names, traffic.Share{})
	if err != nil {
		t.Fatal(err)
	}
	return patched.Object(t, object, change.Patch)
}

func diff(got, want map[string]any) string {
	got, want = tree.Clone(got), tree.Clone(want)
	for _, o := range []map[string]any{got, want} {
		tree.Set(o, nil, "metadata", "resourceVersion")
		tree.Set(o, nil, "metadata", "generation")
	}
	return cmp.Diff(want, got)
}

// compact is a value without quotes.
func compact(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), `"`, "")
}

func TestWeights(t *testing.T) {
	cases := map[string]struct {
		spec, want string
		percent    int32
		names      traffic.Names
	}{
		"one destination": {
			`http: [{route: [{destination: {host: web}}]}]`, `[{route:[{destination:{host:web},weight:80},{destination:{host:web-canary},weight:20}]}]`, 20, web,
		},
		"a full name and a port": {
			`http: [{route: [{destination: {host: web.default.svc.cluster.local, port: {number: 80}}}]}]`,
			`[{route:[{destination:{host:web.default.svc.cluster.local,port:{number:80}},weight:0},{destination:{host:web-canary,port:{number:80}},weight:100}]}]`, 100, web,
		},
		"the sum stays 100": {
			`http: [{route: [{destination: {host: web, subset: a}, weight: 33}, {destination: {host: web, subset: b}, weight: 67}]}]`,
			`[{route:[{destination:{host:web,subset:a},weight:28},{destination:{host:web,subset:b},weight:57},{destination:{host:web-canary},weight:15}]}]`, 15, web,
		},
		"another Service keeps its share": {
			`http: [{route: [{destination: {host: web}, weight: 60}, {destination: {host: api}, weight: 40}]}]`,
			`[{route:[{destination:{host:web},weight:30},{destination:{host:api},weight:40},{destination:{host:web-canary},weight:30}]}]`, 50, web,
		},
		"small weights": {
			`http: [{route: [{destination: {host: web}, weight: 1}, {destination: {host: api}, weight: 1}]}]`,
			`[{route:[{destination:{host:web},weight:95},{destination:{host:api},weight:100},{destination:{host:web-canary},weight:5}]}]`, 5, web,
		},
		"one Service": {
			`http: [{route: [{destination: {host: web}}]}]`, `[{route:[{destination:{host:web},weight:90},{destination:{host:web,subset:canary},weight:10}]}]`, 10, one,
		},
		"a rule with a match, and another namespace": {
			`http: [{match: [{uri: {exact: /}}], route: [{destination: {host: web}}]}, {route: [{destination: {host: web.other.svc}}]}, {route: [{destination: {host: web.default}}]}]`,
			`[{match:[{uri:{exact:/}}],route:[{destination:{host:web}}]},{route:[{destination:{host:web.other.svc}}]},{route:[{destination:{host:web.default},weight:90},{destination:{host:web-canary},weight:10}]}]`,
			10, web,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			before := patched.YAML(t, service+"  "+c.spec)
			after := apply(t, before, c.names, weightOf(c.percent))
			if got := compact(t, tree.Map(after, "spec")["http"]); got != c.want {
				t.Errorf("%s, want\n%s", got, c.want)
			}
			if d := diff(end(t, after, c.names), before); d != "" {
				t.Error(d)
			}
		})
	}
	t.Run("tcp", func(t *testing.T) {
		before := patched.YAML(t, service+"  tcp: [{route: [{destination: {host: web}}]}]")
		after := apply(t, before, web, weightOf(25))
		if got := compact(t, tree.Map(after, "spec")["tcp"]); got != `[{route:[{destination:{host:web},weight:75},{destination:{host:web-canary},weight:25}]}]` {
			t.Error(got)
		}
		if d := diff(end(t, after, web), before); d != "" {
			t.Error(d)
		}
	})
}

func TestMatches(t *testing.T) {
	const all = `http: [{timeout: 5s, route: [{destination: {host: web, subset: a}}]}]`
	canaryRule := `[{match:[%s],name:rollouts.kruise.io/web/0,route:[{destination:{host:web-canary}}],timeout:5s},{route:[{destination:{host:web,subset:a}}],timeout:5s}]`
	cases := map[string]struct {
		spec, want string
		share      traffic.Share
	}{
		"a header": {all, fmt.Sprintf(canaryRule, `{headers:{u:{exact:a}}}`), match(header("u", "a"))},
		"all of them": {all, fmt.Sprintf(canaryRule, `{headers:{r:{exact:eu},u:{exact:a}},queryParams:{q:{regex:1+}},uri:{prefix:/x}}`), match(v1beta1.HTTPRouteMatch{
			Headers: header("u", "a", "r", "eu").Headers, Path: path("PathPrefix", "/x"), QueryParams: []v1beta1.HTTPNamedMatch{{Type: ptr.To("RegularExpression"), Name: "q", Value: "1+"}},
		})},
		"either of two": {all, `[{match:[{headers:{u:{exact:a}}}],name:rollouts.kruise.io/web/0,route:[{destination:{host:web-canary}}],timeout:5s},` +
			`{match:[{headers:{u:{exact:b}}}],name:rollouts.kruise.io/web/1,route:[{destination:{host:web-canary}}],timeout:5s},{route:[{destination:{host:web,subset:a}}],timeout:5s}]`, match(header("u", "a"), header("u", "b"))},
		"within the rule of the user, and not before another": {
			`http: [{match: [{uri: {prefix: /api}}], route: [{destination: {host: api}}]}, {match: [{uri: {prefix: /a}, method: {exact: GET}}, {uri: {exact: /b}}], rewrite: {uri: /}, route: [{destination: {host: web}}]}]`,
			`[{match:[{uri:{prefix:/api}}],route:[{destination:{host:api}}]},{match:[{headers:{u:{exact:a}},method:{exact:GET},uri:{prefix:/a/c}}],name:rollouts.kruise.io/web/0,rewrite:{uri:/},route:[{destination:{host:web-canary}}]},` +
				`{match:[{method:{exact:GET},uri:{prefix:/a}},{uri:{exact:/b}}],rewrite:{uri:/},route:[{destination:{host:web}}]}]`,
			match(v1beta1.HTTPRouteMatch{Headers: header("u", "a").Headers, Path: path("PathPrefix", "/a/c")}),
		},
		"headers changed": {
			`http: [{headers: {request: {set: {x: "1"}, remove: [z]}}, route: [{destination: {host: web}}]}]`,
			`[{headers:{request:{add:{y:2},remove:[z,w],set:{x:3}}},match:[{headers:{u:{exact:a}}}],name:rollouts.kruise.io/web/0,route:[{destination:{host:web-canary}}]},{headers:{request:{remove:[z],set:{x:1}}},route:[{destination:{host:web}}]}]`,
			traffic.Share{Matches: []v1beta1.HTTPRouteMatch{header("u", "a")}, Headers: &v1beta1.HTTPHeaderFilter{
				Set: []v1beta1.HTTPHeader{{Name: "x", Value: "3"}}, Add: []v1beta1.HTTPHeader{{Name: "y", Value: "2"}}, Remove: []string{"w"},
			}},
		},
		"a destination once": {
			`http: [{route: [{destination: {host: web, subset: a}, weight: 50}, {destination: {host: web, subset: b}, weight: 50}]}]`,
			`[{match:[{headers:{u:{exact:a}}}],name:rollouts.kruise.io/web/0,route:[{destination:{host:web-canary},weight:100}]},{route:[{destination:{host:web,subset:a},weight:50},{destination:{host:web,subset:b},weight:50}]}]`,
			match(header("u", "a")),
		},
		"and a share of the rest": {
			`http: [{route: [{destination: {host: web}}]}]`,
			`[{match:[{headers:{u:{exact:a}}}],name:rollouts.kruise.io/web/0,route:[{destination:{host:web-canary}}]},{route:[{destination:{host:web},weight:99},{destination:{host:web-canary},weight:1}]}]`,
			traffic.Share{Weight: ptr.To(int32(1)), Matches: []v1beta1.HTTPRouteMatch{header("u", "a")}},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			before := patched.YAML(t, service+"  "+c.spec)
			after := apply(t, before, web, c.share)
			if got := compact(t, tree.Map(after, "spec")["http"]); got != c.want {
				t.Errorf("%s, want\n%s", got, c.want)
			}
			if d := diff(end(t, after, web), before); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	cases := map[string]struct {
		spec  string
		share traffic.Share
		want  string
	}{
		"no rule":                 {`http: [{route: [{destination: {host: api}}]}]`, weightOf(5), "no rule without a match"},
		"only rules with a match": {`http: [{match: [{uri: {prefix: /}}], route: [{destination: {host: web}}]}]`, weightOf(5), "no rule without a match"},
		"another path":            {`http: [{match: [{uri: {prefix: /a}}], route: [{destination: {host: web}}]}]`, match(v1beta1.HTTPRouteMatch{Path: path("Exact", "/b")}), "no request of VirtualService shop"},
		"two expressions":         {`http: [{match: [{uri: {regex: /a}}], route: [{destination: {host: web}}]}]`, match(v1beta1.HTTPRouteMatch{Path: path("Exact", "/b")}), "matches[0]: the path /b cannot be combined"},
		"a header in two ways":    {`http: [{match: [{headers: {U: {prefix: a}}}], route: [{destination: {host: web}}]}]`, match(header("u", "a")), "matches[0]: headers u has another condition"},
		"a note that is not read": {"hosts: []", weightOf(5), "cannot be read"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			object := patched.YAML(t, service+"  "+c.spec)
			if strings.HasPrefix(name, "a note") {
				tree.Set(object, "{", "metadata", "annotations", traffic.AnnotationOriginal)
			}
			_, err := Provider{Kind: virtualService}.Want(object, nil, web, c.share)
			var refusal *traffic.Refusal
			if !errors.As(err, &refusal) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

func TestDestinationRule(t *testing.T) {
	const rule = `
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: web, namespace: default, resourceVersion: "1", generation: 1}
spec:
  host: web
`
	for name, c := range map[string]struct{ spec, want string }{
		"no subset": {"", `[{labels:{istio.service.tag:gray},name:canary}]`},
		"a subset":  {"  subsets: [{name: base, labels: {v: a}}]", `[{labels:{v:a},name:base},{labels:{istio.service.tag:gray},name:canary}]`},
		"its own":   {"  subsets: [{name: canary, labels: {v: a}}]", `[{labels:{v:a},name:canary}]`},
	} {
		t.Run(name, func(t *testing.T) {
			before := patched.YAML(t, rule+c.spec)
			after := apply(t, apply(t, before, one, weightOf(5)), one, match(header("a", "b")))
			if got := compact(t, tree.Map(after, "spec")["subsets"]); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			tree.Set(after, "1m", "spec", "trafficPolicy", "idle")
			tree.Set(before, "1m", "spec", "trafficPolicy", "idle")
			if d := diff(end(t, after, one), before); d != "" {
				t.Error(d)
			}
		})
	}
	_, err := Provider{Kind: DestinationRule}.Want(patched.YAML(t, rule), nil, traffic.Names{Stable: "api", Canary: "api"}, weightOf(5))
	if err == nil || !strings.Contains(err.Error(), "is for web") {
		t.Error(err)
	}
}

// A third and fourth version in a step by header leave the rules of that step alone.
func TestRulesDoNotPileUp(t *testing.T) {
	before := patched.YAML(t, service+`  http: [{name: main, route: [{destination: {host: web}}]}]`)
	at := before
	for range 3 {
		at = apply(t, at, web, match(header("u", "a")))
		if n := len(tree.Items(at, "spec", "http")); n != 2 {
			t.Fatalf("%d rules", n)
		}
		at = apply(t, at, web, traffic.Share{}) // the release begins again
	}
	at = apply(t, at, web, match(header("u", "a")))
	at = apply(t, at, web, weightOf(50))
	if d := diff(end(t, at, web), before); d != "" {
		t.Error(d)
	}
}

// What OpenKruise changed is taken over by its note.
func TestReleaseOfOpenKruise(t *testing.T) {
	want := patched.YAML(t, service+`  http: [{route: [{destination: {host: web}}]}]`)
	tree.Set(want, "b", "metadata", "labels", "a")
	object := patched.YAML(t, service+`  http: [{route: [{destination: {host: web}, weight: 95}, {destination: {host: web-canary}, weight: 5}]}]`)
	tree.Set(object, `{"spec":{"hosts":["shop.example.com"],"http":[{"route":[{"destination":{"host":"web"}}]}]},"labels":{"a":"b"}}`, "metadata", "annotations", traffic.AnnotationOriginal)
	if d := diff(end(t, object, web), want); d != "" {
		t.Error(d)
	}
	at := apply(t, object, web, weightOf(20))
	if got := compact(t, tree.Map(at, "spec")["http"]); got != `[{route:[{destination:{host:web},weight:80},{destination:{host:web-canary},weight:20}]}]` {
		t.Error(got)
	}
	if d := diff(end(t, at, web), want); d != "" {
		t.Error(d)
	}
}

func TestSomebodyElseWritesWeights(t *testing.T) {
	before := patched.YAML(t, service+`  http: [{route: [{destination: {host: web}, weight: 60}, {destination: {host: api}, weight: 40}]}]`)
	for _, weights := range [][3]int64{{10, 10, 80}, {0, 0, 100}, {60, 40, 0}} {
		at := apply(t, before, web, weightOf(20))
		for i, to := range tree.Items(tree.Items(at, "spec", "http")[0], "route") {
			to["weight"] = weights[i]
		}
		change, err := Provider{Kind: virtualService}.Want(at, nil, web, weightOf(20))
		if err != nil || !change.Corrected {
			t.Errorf("%v: corrected %v %v", weights, change.Corrected, err)
		}
		if d := diff(end(t, patched.Object(t, at, change.Patch), web), before); d != "" {
			t.Errorf("%v: %s", weights, d)
		}
	}
}

func TestSeen(t *testing.T) {
	for status, want := range map[string]traffic.Sight{
		"{}": traffic.Silent, "{validationMessages: [{level: WARNING}]}": traffic.Silent, "{validationMessages: [{level: ERROR, type: {code: IST0101}}]}": traffic.Refused,
	} {
		if got, _ := (Provider{Kind: virtualService}).Seen(patched.YAML(t, "status: "+status), nil); got != want {
			t.Errorf("%s: %d", status, got)
		}
	}
}

type user struct {
	random       *rand.Rand
	wants, store map[string]any
	serial       int
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func (u *user) rule() map[string]any {
	u.serial++
	var route []any
	for i := range 1 + u.random.IntN(3) {
		to := map[string]any{"destination": map[string]any{"host": pick(u.random, "web", "web.default", "web.default.svc", "api"), "port": map[string]any{"number": int64(i)}}}
		if i == 0 {
			tree.Set(to, "web", "destination", "host")
		}
		route = append(route, to)
	}
	for _, to := range route {
		if len(route) > 1 { // alone 1, 100 and no weight are the same
			to.(map[string]any)["weight"] = pick(u.random, int64(1), 33, 50, 100)
		} else if u.random.IntN(2) == 0 {
			to.(map[string]any)["weight"] = pick(u.random, int64(33), 50)
		}
	}
	rule := map[string]any{"route": route, "timeout": fmt.Sprintf("%ds", u.serial)}
	if u.random.IntN(4) == 0 {
		rule["match"] = []any{map[string]any{"uri": map[string]any{"prefix": fmt.Sprintf("/%d", u.serial)}}}
	}
	return rule
}

// edit does the same to what a user wants and to what is stored.
func (u *user) edit() string {
	u.serial++
	name := pick(u.random, "timeout", "host", "label", "more", "less", "order", "again", "match")
	rule, seed := u.rule(), u.random.Uint64()
	for _, o := range []map[string]any{u.wants, u.store} {
		r := rand.New(rand.NewPCG(seed, 0))
		rules := tree.Items(without(o, web), "spec", "http")
		at := r.IntN(len(rules))
		switch name {
		case "timeout":
			rules[at]["timeout"] = rule["timeout"]
		case "host":
			tree.Set(o, []any{rule["timeout"]}, "spec", "hosts")
		case "label":
			tree.Set(o, rule["timeout"], "metadata", "labels", "x")
		case "match":
			rules[at]["match"] = []any{map[string]any{"uri": map[string]any{"exact": rule["timeout"]}}}
		case "more":
			delete(rule, "match")
			rules = append(rules, tree.Clone(rule))
		case "less":
			if len(rules) > 1 {
				rules = append(rules[:at:at], rules[at+1:]...)
			}
		case "order":
			r.Shuffle(len(rules), func(i, j int) { rules[i], rules[j] = rules[j], rules[i] })
		}
		tree.Set(o, tree.List(rules), "spec", "http")
	}
	if name == "again" {
		u.store["spec"] = tree.Clone(tree.Map(u.wants, "spec"))
	}
	u.store = patched.Stored(u.store, true)
	return name
}

func TestEndIsTheOriginalWithTheEditsOfItsUser(t *testing.T) {
	first := uint64(sample.Day()) * 300
	for seed := first; seed < first+uint64(sample.Number(300, 10_000)); seed++ {
		u := &user{random: rand.New(rand.NewPCG(seed, 0))}
		u.wants = patched.YAML(t, service)
		tree.Set(u.wants, tree.List([]map[string]any{u.rule(), u.rule(), u.rule()}), "spec", "http")
		u.store = tree.Clone(u.wants)
		var did []string
		for range u.random.IntN(8) {
			share := pick(u.random, traffic.Share{}, match(header("x", "1")), weightOf(0), weightOf(100), weightOf(u.random.Int32N(101)))
			did = append(did, fmt.Sprint(ptr.Deref(share.Weight, -1)))
			if change, err := (Provider{Kind: virtualService}).Want(u.store, nil, web, share); err != nil {
				did = append(did, err.Error()) // no rule is left to share
			} else if u.store = patched.Object(t, u.store, change.Patch); true {
				apply(t, u.store, web, share)
			}
			for range u.random.IntN(3) {
				did = append(did, u.edit())
			}
		}
		if d := diff(end(t, u.store, web), u.wants); d != "" {
			t.Fatalf("seed %d, %v (-want +got):\n%s", seed, did, d)
		}
	}
}
