// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/tree"
	"github.com/kruise-operator/kruise-operator/internal/testutil/patched"
	"github.com/kruise-operator/kruise-operator/internal/testutil/sample"
)

var web = traffic.Names{Rollout: "web", Stable: "web", Canary: "web-canary"}

const route = `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: shop, namespace: default, resourceVersion: "1", generation: 1}
spec:
  parentRefs: [{name: gate}]
  hostnames: [shop.example.com]
  rules:
`

func weightOf(percent int32) traffic.Share { return traffic.Share{Weight: &percent} }

func apply(t testing.TB, object map[string]any, names traffic.Names, share traffic.Share) map[string]any {
	t.Helper()
	change, err := (Provider{Kind: tree.Text(object, "kind")}).Want(object, nil, names, share)
	if err != nil {
		t.Fatal(err)
	}
	after := patched.Object(t, object, change.Patch)
	again, err := (Provider{Kind: tree.Text(object, "kind")}).Want(after, change.Own, names, share)
	if err != nil || !again.Done() || again.Corrected {
		t.Fatalf("a second pass changes %v, corrected %v, error %v", again.Patch, again.Corrected, err)
	}
	return after
}

func end(t testing.TB, object map[string]any, names traffic.Names) map[string]any {
	t.Helper()
	change, err := (Provider{Kind: tree.Text(object, "kind")}).Want(object, nil, names, traffic.Share{})
	if err != nil {
		t.Fatal(err)
	}
	return patched.Object(t, object, change.Patch)
}

// shape is what one rule sends where.
func shape(object map[string]any, rule int) string {
	text := ""
	for _, ref := range tree.Items(tree.Items(object, "spec", "rules")[rule], "backendRefs") {
		port, _ := tree.Number(ref, "port")
		text += fmt.Sprintf("%s:%d=%d ", tree.Text(ref, "name"), port, weight(ref))
	}
	return text
}

func TestWeights(t *testing.T) {
	cases := map[string]struct {
		refs, want string
		percent    int32
	}{
		"one Service":                   {`[{name: web, port: 80, weight: 1}]`, "web:80=80 web-canary:80=20 ", 20},
		"nothing":                       {`[{name: web, port: 80, weight: 1}]`, "web:80=100 web-canary:80=0 ", 0},
		"everything":                    {`[{name: web, port: 80, weight: 1}]`, "web:80=0 web-canary:80=100 ", 100},
		"another Service keeps its own": {`[{name: web, port: 80, weight: 3}, {name: api, port: 80, weight: 1}]`, "web:80=270 web-canary:80=30 api:80=100 ", 10},
		"two ports":                     {`[{name: web, port: 80, weight: 1}, {name: web, port: 81, weight: 3}]`, "web:80=50 web-canary:80=50 web:81=150 web-canary:81=150 ", 50},
		"a weight of 0":                 {`[{name: web, port: 80, weight: 0}, {name: api, port: 80, weight: 1}]`, "web:80=0 web-canary:80=0 api:80=100 ", 10},
		"a large weight":                {`[{name: web, port: 80, weight: 400000}, {name: api, port: 80, weight: 1}]`, "web:80=720000 web-canary:80=80000 api:80=2 ", 10},
		"the largest weight":            {`[{name: web, port: 80, weight: 1000000}]`, "web:80=670000 web-canary:80=330000 ", 33},
		"a Service of another namespace": {
			`[{name: web, port: 80, weight: 1}, {name: web, namespace: other, port: 80, weight: 1}]`, "web:80=90 web-canary:80=10 web:80=100 ", 10,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			before := patched.YAML(t, route+"  - backendRefs: "+c.refs)
			after := apply(t, before, web, weightOf(c.percent))
			if got := shape(after, 0); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			same(t, end(t, after, web), before)
		})
	}
}

// same compares all but what an API server counts.
func same(t testing.TB, got, want map[string]any) {
	t.Helper()
	got, want = tree.Clone(got), tree.Clone(want)
	for _, o := range []map[string]any{got, want} {
		tree.Set(o, nil, "metadata", "resourceVersion")
		tree.Set(o, nil, "metadata", "generation")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
}

func TestTwoRolloutsInOneRule(t *testing.T) {
	api := traffic.Names{Rollout: "api", Stable: "api", Canary: "api-canary"}
	before := patched.YAML(t, route+"  - backendRefs: [{name: web, port: 80, weight: 2}, {name: api, port: 80, weight: 1}]")
	at := apply(t, before, web, weightOf(20))
	at = apply(t, at, api, weightOf(50))
	at = apply(t, at, web, weightOf(40))
	if got, want := shape(at, 0), "web:80=12000 web-canary:80=8000 api:80=5000 api-canary:80=5000 "; got != want {
		t.Fatalf("%s, want %s", got, want)
	}
	same(t, end(t, end(t, at, web), api), before)
	same(t, end(t, end(t, at, api), web), before)
}

func TestAnotherWritesWeights(t *testing.T) {
	before := patched.YAML(t, route+"  - backendRefs: [{name: web, port: 80, weight: 7}]")
	for name, refs := range map[string]string{
		"a share":         `[{name: web, port: 80, weight: 1}, {name: web-canary, port: 80, weight: 1}]`,
		"back":            `[{name: web, port: 80, weight: 7}]`,
		"back with ours":  `[{name: web, port: 80, weight: 7}, {name: web-canary, port: 80, weight: 0}]`,
		"all to the new":  `[{name: web, port: 80, weight: 0}, {name: web-canary, port: 80, weight: 1}]`,
		"all to the old":  `[{name: web, port: 80, weight: 700}, {name: web-canary, port: 80, weight: 0}]`,
		"our Service out": `[{name: web, port: 80, weight: 7}]`,
	} {
		t.Run(name, func(t *testing.T) {
			at := apply(t, before, web, weightOf(20))
			tree.Items(at, "spec", "rules")[0]["backendRefs"] = patched.YAML(t, "refs: "+refs)["refs"]
			change, err := (Provider{Kind: "HTTPRoute"}).Want(at, nil, web, weightOf(20))
			if err != nil || !change.Corrected {
				t.Fatalf("corrected %v, error %v", change.Corrected, err)
			}
			at = patched.Object(t, at, change.Patch)
			if got := shape(at, 0); got != "web:80=560 web-canary:80=140 " && name != "all to the old" {
				t.Errorf("corrected to %s", got)
			}
			if name != "all to the old" { // it may be a weight of 700 of the user
				same(t, end(t, at, web), before)
			}
		})
	}
}

// user is a route as its user wants it, and as it is stored.
type user struct {
	random       *rand.Rand
	wants, store map[string]any
	serial       int
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func (u *user) rule() map[string]any {
	u.serial++
	refs := []any{map[string]any{"group": "", "kind": "Service", "name": "web", "port": int64(80), "weight": u.weight()}}
	for range u.random.IntN(3) {
		name := pick(u.random, "web", "api", "old")
		refs = append(refs, map[string]any{"group": "", "kind": "Service", "name": name, "port": int64(80 + len(refs)), "weight": u.weight()})
	}
	u.random.Shuffle(len(refs), func(i, j int) { refs[i], refs[j] = refs[j], refs[i] })
	return map[string]any{
		"backendRefs": refs,
		"matches":     []any{map[string]any{"path": map[string]any{"type": "PathPrefix", "value": fmt.Sprintf("/%d", u.serial)}}},
	}
}

func (u *user) weight() int64 {
	return pick(u.random, int64(0), 1, 1, 1, 2, 3, 50, 99, 100, 9_999, 10_000, 10_001, 333_333, 1_000_000)
}

// edits are what a user may do to what he wants and to what is stored, alike.
var edits = map[string]func(u *user, o map[string]any, r *rand.Rand){
	"a timeout": func(u *user, o map[string]any, r *rand.Rand) {
		rules := tree.Items(o, "spec", "rules")
		rules[r.IntN(len(rules))]["timeouts"] = map[string]any{"request": fmt.Sprintf("%ds", u.serial)}
	},
	"a filter": func(u *user, o map[string]any, r *rand.Rand) {
		rules := tree.Items(o, "spec", "rules")
		rules[r.IntN(len(rules))]["filters"] = []any{map[string]any{"type": "ExtensionRef", "extensionRef": map[string]any{"name": fmt.Sprint(u.serial)}}}
	},
	"a field of the future": func(_ *user, o map[string]any, r *rand.Rand) {
		tree.Set(o, map[string]any{"a~/b": r.Float64()}, "spec", "future")
	},
	"a host": func(u *user, o map[string]any, _ *rand.Rand) {
		tree.Set(o, []any{fmt.Sprintf("h%d.example.com", u.serial)}, "spec", "hostnames")
	},
	"a note": func(u *user, o map[string]any, _ *rand.Rand) {
		tree.Set(o, fmt.Sprint(u.serial), "metadata", "annotations", "example.com/note")
	},
	"another order": func(_ *user, o map[string]any, r *rand.Rand) {
		rules := tree.Items(o, "spec", "rules")
		r.Shuffle(len(rules), func(i, j int) { rules[i], rules[j] = rules[j], rules[i] })
		tree.Set(o, tree.List(rules), "spec", "rules")
	},
	"one rule less": func(_ *user, o map[string]any, r *rand.Rand) {
		if rules := tree.Items(o, "spec", "rules"); len(rules) > 1 {
			i := r.IntN(len(rules))
			tree.Set(o, tree.List(append(rules[:i:i], rules[i+1:]...)), "spec", "rules")
		}
	},
}

// edit does the same to both, with the same dice.
func (u *user) edit() string {
	names := append(slices.Sorted(maps.Keys(edits)), "one rule more", "applied again")
	name := pick(u.random, names...)
	u.serial++
	switch name {
	case "one rule more":
		rule := u.rule()
		for _, o := range []map[string]any{u.wants, u.store} {
			tree.Set(o, tree.List(append(tree.Items(o, "spec", "rules"), tree.Clone(rule))), "spec", "rules")
		}
	case "applied again": // as GitOps does
		tree.Set(u.store, tree.Clone(tree.Map(u.wants, "spec")), "spec")
	default:
		seed := u.random.Uint64()
		for _, o := range []map[string]any{u.wants, u.store} {
			edits[name](u, o, rand.New(rand.NewPCG(seed, 1)))
		}
	}
	u.store = patched.Stored(u.store, true)
	return name
}

// TestEndIsTheOriginalWithTheEditsOfItsUser does random edits between random shares.
func TestEndIsTheOriginalWithTheEditsOfItsUser(t *testing.T) {
	shares := []traffic.Share{{}, {Matches: []v1beta1.HTTPRouteMatch{{Headers: []v1beta1.HTTPNamedMatch{{Name: "x", Value: "1"}}}}}}
	first := uint64(sample.Day()) * 300
	for seed := first; seed < first+uint64(sample.Number(300, 10_000)); seed++ {
		u := &user{random: rand.New(rand.NewPCG(seed, 0))}
		u.wants = patched.YAML(t, route+"    []")
		for range 1 + u.random.IntN(3) {
			tree.Set(u.wants, tree.List(append(tree.Items(u.wants, "spec", "rules"), u.rule())), "spec", "rules")
		}
		u.store = tree.Clone(u.wants)
		var did []string
		for range u.random.IntN(8) {
			share := pick(u.random, append(shares, weightOf(0), weightOf(100), weightOf(u.random.Int32N(101)), weightOf(u.random.Int32N(101)))...)
			u.store = apply(t, u.store, web, share)
			did = append(did, fmt.Sprint(ptr.Deref(share.Weight, -1)))
			for range u.random.IntN(3) {
				did = append(did, u.edit())
			}
		}
		got, want := end(t, u.store, web), tree.Clone(u.wants)
		for _, o := range []map[string]any{got, want} {
			tree.Set(o, nil, "metadata", "resourceVersion")
			tree.Set(o, nil, "metadata", "generation")
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("seed %d, %v (-want +got):\n%s", seed, did, diff)
		}
	}
}
