// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package traffic_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/gateway"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/ingress"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/istio"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/tree"
	"github.com/kruise-operator/kruise-operator/internal/testutil/patched"
	"github.com/kruise-operator/kruise-operator/internal/testutil/sample"
)

const (
	webService = `{apiVersion: v1, kind: Service, metadata: {name: web, namespace: default, resourceVersion: "1"}, spec: {ports: [{port: 80}], selector: {app: web}}}`
	httpRoute  = `{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: shop, namespace: default, resourceVersion: "1", generation: 1},
spec: {parentRefs: [{name: gate}], rules: [{matches: [{path: {type: PathPrefix, value: /}}], backendRefs: [{name: web, port: 80, weight: 1}]}]}}`
	mainIngress = `{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: shop, namespace: default, resourceVersion: "1", generation: 1},
spec: {rules: [{http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]}}`
	virtual = `{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {name: shop, namespace: default, resourceVersion: "1", generation: 1},
spec: {hosts: [shop], http: [{route: [{destination: {host: web}}]}]}}`
	subsets = `{apiVersion: networking.istio.io/v1, kind: DestinationRule, metadata: {name: shop, namespace: default, resourceVersion: "1", generation: 1},
spec: {host: web, subsets: [{name: all}]}}`
)

// place is one route with its provider.
type place struct {
	traffic.Provider
	wants, stored map[string]any
	own           map[string]any
}

// sim is a release over all of them at once.
type sim struct {
	t         *testing.T
	random    *rand.Rand
	places    []*place
	stable    map[string]any
	canary    map[string]any
	old, next bool // pods
	now, last int
	// named and defined are when the VirtualService last got or lost a subset, and when its DestinationRule did.
	named, defined since
	log            []string
}

type since struct {
	is bool
	at int
}

// turned says whether it changed now.
func (s *since) turned(is bool, now int) bool {
	if s.is == is {
		return false
	}
	s.is, s.at = is, now
	return true
}

var names = traffic.Names{Rollout: "web", Stable: "web", Canary: "web-canary"}

func newSim(t *testing.T, seed uint64) *sim {
	class, _ := ingress.Of("nginx")
	s := &sim{t: t, random: rand.New(rand.NewPCG(seed, 0)), stable: patched.YAML(t, webService), old: true, log: []string{fmt.Sprintf("seed %d", seed)}}
	for text, provider := range map[string]traffic.Provider{
		httpRoute: gateway.Provider{Kind: gateway.HTTPRoute}, mainIngress: class, virtual: istio.Provider{Kind: "VirtualService"}, subsets: istio.Provider{Kind: istio.DestinationRule},
	} {
		s.places = append(s.places, &place{Provider: provider, wants: patched.YAML(t, text), stored: patched.YAML(t, text)})
	}
	slices.SortFunc(s.places, func(a, b *place) int { return strings.Compare(tree.Text(a.wants, "kind"), tree.Text(b.wants, "kind")) })
	return s
}

func (s *sim) fail(text string, args ...any) {
	s.t.Helper()
	s.t.Fatalf("%s\n%s", fmt.Sprintf(text, args...), strings.Join(s.log, "\n"))
}

// reach lets the operator and all others go on until a goal is reached.
func (s *sim) reach(goal traffic.Goal, share traffic.Share, empties bool) {
	for range 500 {
		s.others()
		world := traffic.World{
			Goal: goal, Share: share, StableReady: s.old, Empties: empties, Waited: s.now-s.last >= 3,
			Stable: traffic.ServiceState{Exists: true, Pinned: traffic.Pinned(s.stable, traffic.HashLabel) != ""},
			Canary: traffic.ServiceState{Exists: s.canary != nil, Current: s.canary != nil, Ready: s.canary != nil && s.next},
		}
		var readings []traffic.Reading
		for _, p := range s.places {
			reading, err := traffic.Read(p, tree.Text(p.wants, "kind"), p.stored, p.own, names, share, goal)
			if err != nil {
				s.fail("%v", err)
			}
			reading.First = p.is(istio.DestinationRule)
			readings = append(readings, reading)
			world.Routes = append(world.Routes, reading.RouteState)
		}
		act, why := traffic.Next(world)
		s.log = append(s.log, fmt.Sprintf("%3d %d: %s %s", s.now, goal, act, why))
		switch act {
		case traffic.Done:
			return
		case traffic.Wait:
			continue
		case traffic.Stuck:
			s.fail("stuck: %s", why)
		}
		s.do(act, readings, traffic.Turn(world.Routes, act))
		s.check()
	}
	s.fail("no end")
}

func (s *sim) do(act traffic.Act, readings []traffic.Reading, turn []int) {
	s.last = s.now
	hash := ""
	switch act {
	case traffic.PinStable:
		hash = "old"
		fallthrough
	case traffic.OpenStable:
		s.stable = patched.Object(s.t, s.stable, traffic.Pin(s.stable, traffic.HashLabel, hash))
	case traffic.MakeCanary:
		var err error
		if s.canary, err = traffic.CanaryService(s.stable, names, traffic.Pods{Label: traffic.HashLabel, Hash: "new"}); err != nil {
			s.fail("%v", err)
		}
	case traffic.DropCanary:
		s.canary = nil
	}
	for _, i := range turn {
		switch act {
		case traffic.SetRoutes:
			s.places[i].write(s, readings[i].Set)
		case traffic.EndRoutes:
			s.places[i].write(s, readings[i].End)
		}
	}
	for i, p := range s.places {
		switch act {
		case traffic.ClearRoutes:
			p.remove(readings[i].Rest)
		case traffic.DisownRoutes:
			p.stored = patched.Object(s.t, p.stored, readings[i].Disown)
		}
	}
}

func (p *place) is(kind string) bool { return tree.Text(p.wants, "kind") == kind }

func (p *place) write(s *sim, change traffic.Change) {
	if p.stored = patched.Object(s.t, p.stored, change.Patch); len(change.Patch) > 0 {
		tree.Set(p.stored, []any{map[string]any{"manager": "kubectl"}, map[string]any{"manager": traffic.FieldManager}}, "metadata", "managedFields")
	}
	if object := tree.Clone(change.Own); object != nil {
		if p.own != nil {
			tree.Set(object, tree.Map(p.own, "metadata")["generation"], "metadata", "generation")
		}
		p.own = patched.Stored(object, true)
	}
	p.remove(change.Gone)
}

// both are its own route, if it is there, and that of the user.
func (p *place) both() []map[string]any {
	if p.own == nil {
		return []map[string]any{p.stored}
	}
	return []map[string]any{p.own, p.stored}
}

func (p *place) remove(gone bool) {
	if gone {
		p.own = nil
	}
}

// others are the gateway and the user.
func (s *sim) others() {
	s.now++
	for _, p := range s.places {
		for _, o := range p.both() {
			if tree.Text(o, "kind") == "HTTPRoute" && s.random.IntN(3) == 0 {
				generation, _ := tree.Number(o, "metadata", "generation")
				o["status"] = patched.YAML(s.t, fmt.Sprintf(`{parents: [{parentRef: {name: gate}, conditions: [{type: Accepted, status: "True", observedGeneration: %d},
{type: ResolvedRefs, status: "True", observedGeneration: %d}]}]}`, generation, generation))
			}
		}
		if s.random.IntN(25) == 0 {
			s.edit(p)
		}
	}
}

// edit is something that the user changes in his route.
func (s *sim) edit(p *place) {
	value := fmt.Sprintf("%ds", s.now)
	s.log = append(s.log, fmt.Sprintf("%3d the user edits the %s", s.now, tree.Text(p.wants, "kind")))
	for _, o := range []map[string]any{p.wants, p.stored} {
		switch tree.Text(o, "kind") {
		case "HTTPRoute":
			tree.Items(o, "spec", "rules")[0]["timeouts"] = map[string]any{"request": value}
		case "Ingress":
			tree.Set(o, value, "metadata", "annotations", "nginx.ingress.kubernetes.io/proxy-read-timeout")
		case istio.DestinationRule:
			tree.Set(o, value, "spec", "trafficPolicy", "connectionPool", "tcp", "connectTimeout")
		default:
			rules := tree.Items(o, "spec", "http")
			rules[len(rules)-1]["timeout"] = value
		}
	}
	p.stored, s.last = patched.Stored(p.stored, true), s.now
}

// check: no route names a subset or a Service that is not there, or has no pods.
func (s *sim) check() {
	has := func(kind string) bool {
		i := slices.IndexFunc(s.places, func(p *place) bool { return p.is(kind) })
		return strings.Contains(fmt.Sprint(s.places[i].stored["spec"]), "canary")
	}
	ends := s.defined.turned(has(istio.DestinationRule), s.now) && !s.defined.is
	begins := s.named.turned(has("VirtualService"), s.now) && s.named.is
	if begins && (!s.defined.is || s.now-s.defined.at < 3) || ends && (s.named.is || s.now-s.named.at < 3) {
		s.fail("the mesh does not know the subset that the VirtualService names: %+v %+v", s.named, s.defined)
	}
	for _, p := range s.places {
		for _, o := range p.both() {
			text := fmt.Sprint(o["spec"])
			if strings.Contains(text, "web-canary") && (s.canary == nil || !s.next) {
				s.fail("%s names the Service of the new version, which is not there: %s", tree.Text(o, "kind"), text)
			}
		}
	}
	if traffic.Pinned(s.stable, traffic.HashLabel) != "" && !s.old {
		s.fail("the Service of the user has no pods")
	}
}

// finish ends the release, with pods between.
func (s *sim) finish(style v1beta1.RollingStyleType, reason traffic.Reason) {
	for _, step := range traffic.Ending(style, reason) {
		goal, requests := traffic.GoalOf(step)
		switch {
		case requests:
			s.reach(goal, traffic.Share{Weight: ptr.To(int32(100))}, false)
		case step == v1beta1.FinalisingStepResumeWorkload:
			s.old, s.next = reason == traffic.Rollback, reason != traffic.Rollback
			s.check()
		}
	}
	for _, p := range s.places {
		delete(p.stored, "status")
		for _, entry := range tree.Items(p.stored, "metadata", "managedFields") {
			if tree.Text(entry, "manager") == traffic.FieldManager {
				s.fail("a managed field is left")
			}
		}
		tree.Set(p.stored, nil, "metadata", "managedFields")
		for _, o := range []map[string]any{p.stored, p.wants} {
			tree.Set(o, nil, "metadata", "resourceVersion")
			tree.Set(o, nil, "metadata", "generation")
		}
		if diff := cmp.Diff(p.wants, p.stored); diff != "" || p.own != nil {
			s.fail("left: %v (-want +got):\n%s", p.own, diff)
		}
	}
	if s.canary != nil || traffic.Pinned(s.stable, traffic.HashLabel) != "" {
		s.fail("a Service is left: %v, %v", s.canary, s.stable)
	}
}

// TestReleaseOverAllRoutes goes through whole releases with real providers, a gateway that lags and a user who edits.
func TestReleaseOverAllRoutes(t *testing.T) {
	header := traffic.Share{Matches: []v1beta1.HTTPRouteMatch{{Headers: []v1beta1.HTTPNamedMatch{{Name: "user", Value: "a"}}}}}
	weight := func(w int32) traffic.Share { return traffic.Share{Weight: &w} }
	shares := []traffic.Share{header, weight(20), weight(70), {}, weight(100)}
	styles := []v1beta1.RollingStyleType{v1beta1.PartitionRollingStyle, v1beta1.CanaryRollingStyle, v1beta1.BlueGreenRollingStyle}
	first := uint64(sample.Day()) * 60
	for seed := first; seed < first+uint64(sample.Number(60, 2000)); seed++ {
		s := newSim(t, seed)
		style, reason := styles[s.random.IntN(3)], []traffic.Reason{traffic.Success, traffic.Rollback, traffic.Leave}[s.random.IntN(3)]
		steps := s.random.IntN(5)
		for i := range steps {
			share := shares[s.random.IntN(len(shares))]
			empties := style == v1beta1.PartitionRollingStyle && i == steps-1 && reason == traffic.Success
			goal := traffic.Prepare
			if share.None() {
				goal = traffic.Open
			}
			s.reach(goal, share, empties)
			s.next, s.old = true, !empties
			s.check()
			if !share.None() && !empties {
				s.reach(traffic.Route, share, false)
			}
		}
		s.next = true
		s.finish(style, reason)
	}
}
