// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/tree"
	"github.com/kruise-operator/kruise-operator/internal/testutil/patched"
)

var web = Names{Rollout: "web", Stable: "web", Canary: "web-canary"}

const service = `
apiVersion: v1
kind: Service
metadata:
  name: web
  namespace: default
  resourceVersion: "1"
  uid: x
  labels: {team: a}
  annotations: {external-dns.alpha.kubernetes.io/hostname: web.example.com, example.com/x: z}
spec:
  type: LoadBalancer
  clusterIP: 10.0.0.1
  clusterIPs: [10.0.0.1]
  ipFamilies: [IPv4]
  ipFamilyPolicy: SingleStack
  externalIPs: [1.2.3.4]
  loadBalancerIP: 1.2.3.4
  healthCheckNodePort: 3
  sessionAffinity: ClientIP
  future: y
  ports: [{name: http, port: 80, targetPort: web, nodePort: 30000}]
  selector: {app: web}
status: {loadBalancer: {}}
`

func TestCanaryService(t *testing.T) {
	pods := Pods{Label: HashLabel, Hash: "abc", Patched: map[string]string{"app": "new", "extra": "b"}}
	want := patched.YAML(t, `
apiVersion: v1
kind: Service
metadata: {name: web-canary, namespace: default, labels: {team: a}, annotations: {example.com/x: z}}
spec:
  type: NodePort
  ipFamilyPolicy: SingleStack
  sessionAffinity: ClientIP
  future: y
  ports: [{name: http, port: 80, targetPort: web}]
  selector: {app: new, pod-template-hash: abc}
`)
	stable := patched.YAML(t, service)
	tree.Set(stable, "old", "spec", "selector", HashLabel) // it is pinned
	got, err := CanaryService(stable, web, pods)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	pods.Append = true
	got, _ = CanaryService(stable, web, pods)
	if tree.Text(got, "spec", "selector", "extra") != "b" {
		t.Error("another label of the new version is not in the selector")
	}
	tree.Set(stable, "None", "spec", "clusterIP")
	if got, _ = CanaryService(stable, web, pods); tree.Text(got, "spec", "clusterIP") != "None" {
		t.Error("it has an address, and that of the user has none")
	}
	for _, spec := range []string{"{type: ExternalName, selector: {a: b}}", "{ports: []}"} {
		var refusal *Refusal
		if _, err := CanaryService(patched.YAML(t, "{metadata: {name: web}, spec: "+spec+"}"), web, pods); !errors.As(err, &refusal) {
			t.Errorf("%s: %v", spec, err)
		}
	}
}

func TestAlignService(t *testing.T) {
	want, err := CanaryService(patched.YAML(t, service), web, Pods{Label: HashLabel, Hash: "abc"})
	if err != nil {
		t.Fatal(err)
	}
	stored := tree.Clone(want)
	tree.Items(stored, "spec", "ports")[0]["nodePort"] = int64(30001)
	tree.Set(stored, "10.0.0.2", "spec", "clusterIP")
	if ops := AlignService(stored, want); len(ops) > 0 {
		t.Errorf("nothing changed, and %v is written", ops)
	}
	tree.Set(want, "def", "spec", "selector", HashLabel)
	tree.Items(want, "spec", "ports")[0]["port"] = int64(81)
	after := patched.Object(t, stored, AlignService(stored, want))
	if Pinned(after, HashLabel) != "def" || len(AlignService(after, want)) > 0 || tree.Text(after, "spec", "clusterIP") != "10.0.0.2" {
		t.Errorf("%v", after)
	}
}

func TestPin(t *testing.T) {
	before := patched.YAML(t, service)
	changes := Pin(before, HashLabel, "abc")
	want := patched.YAML(t, "spec: {selector: {pod-template-hash: abc}}")
	if diff := cmp.Diff(want, changes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	pinned := patched.Object(t, before, changes)
	if again := Pin(pinned, HashLabel, "abc"); len(again) > 0 || Pinned(pinned, HashLabel) != "abc" {
		t.Errorf("%v", again)
	}
	open := Pin(pinned, HashLabel, "")
	after := patched.Object(t, pinned, open)
	tree.Set(after, "1", "metadata", "resourceVersion")
	tree.Set(after, tree.Map(before, "metadata")["generation"], "metadata", "generation")
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	none := patched.YAML(t, "{metadata: {name: web}, spec: {}}")
	if changes := Pin(none, HashLabel, "abc"); len(changes) > 0 {
		t.Error("a Service without a selector was pinned: it would get endpoints")
	}
	if changes := Pin(none, HashLabel, ""); len(changes) > 0 {
		t.Errorf("%v", changes)
	}
}

func TestOwned(t *testing.T) {
	object := patched.YAML(t, "{metadata: {ownerReferences: [{uid: a}, {uid: b, controller: true}]}}")
	if Owned(object, "a") || !Owned(object, "b") || Owned(map[string]any{}, "") {
		t.Error("ours is what the Rollout controls")
	}
}

func TestNames(t *testing.T) {
	long := strings.Repeat("a", 60)
	for _, c := range []struct {
		got  string
		most int
	}{{CanaryName("web"), 10}, {CanaryName(long), 63}, {Name("shop", "web"), 8}, {Name(strings.Repeat(long, 4), long), 253}} {
		if len(c.got) > c.most || len(c.got) < c.most-1 {
			t.Errorf("%s has %d letters, want %d", c.got, len(c.got), c.most)
		}
	}
	if CanaryName(long) == CanaryName(long+"b") || Name(strings.Repeat(long, 4), long) == Name(strings.Repeat(long, 4)+"-a", long[:58]) {
		t.Error("two names became one")
	}
}

func TestDiffering(t *testing.T) {
	want := func() map[string]any {
		return patched.YAML(t, "{kind: Route, metadata: {name: a}, spec: {rules: [{to: x}], host: h}}")
	}
	made := Differing(nil, want())
	if made == nil {
		t.Fatal("a missing object is not made")
	}
	stored := tree.Clone(made)
	tree.Items(stored, "spec", "rules")[0]["default"] = "d"
	tree.Set(stored, "1", "metadata", "resourceVersion")
	if again := Differing(stored, want()); again != nil {
		t.Errorf("defaults are written over: %v", again)
	}
	less := want()
	tree.Set(less, nil, "spec", "host")
	edited := tree.Clone(stored)
	tree.Items(edited, "spec", "rules")[0]["to"] = "y"
	longer := tree.Clone(stored)
	tree.Set(longer, append(tree.Map(longer, "spec")["rules"].([]any), map[string]any{}), "spec", "rules")
	if Differing(stored, less) == nil || Differing(edited, want()) == nil || Differing(longer, want()) == nil {
		t.Error("a difference is not seen")
	}
}

func TestDisown(t *testing.T) {
	object := patched.YAML(t, `{metadata: {resourceVersion: "1", managedFields: [{manager: kubectl}, {manager: kruise-operator-rollout}]}}`)
	after := patched.Object(t, object, Disown(object))
	if diff := cmp.Diff([]any{map[string]any{"manager": "kubectl"}}, tree.Map(after, "metadata")["managedFields"]); diff != "" || Disown(after) != nil {
		t.Errorf("(-want +got):\n%s", diff)
	}
	alone := patched.YAML(t, `{metadata: {resourceVersion: "1", managedFields: [{manager: kruise-operator-rollout}]}}`)
	if changes := Disown(alone); !tree.Same(tree.Map(changes, "metadata")["managedFields"], []any{map[string]any{}}) {
		t.Errorf("%v", changes)
	}
}

func TestWritten(t *testing.T) {
	object := patched.YAML(t, `{metadata: {managedFields: [{time: "2026-01-01T00:00:02Z"}, {time: "2026-01-01T00:00:01Z"}, {time: "2026-01-01T00:00:09Z", subresource: status}, {}]}}`)
	if at := Written(object); at.UTC().Second() != 2 {
		t.Error(at)
	}
	if at := Written(map[string]any{}); !at.IsZero() {
		t.Error(at)
	}
}

func TestCheck(t *testing.T) {
	text := func(value string) *string { return &value }
	headers := func(h ...v1beta1.HTTPNamedMatch) Share { return Share{Matches: []v1beta1.HTTPRouteMatch{{Headers: h}}} }
	path := func(kind, value *string) Share {
		return Share{Matches: []v1beta1.HTTPRouteMatch{{Path: &v1beta1.HTTPMatch{Type: kind, Value: value}}}}
	}
	for want, share := range map[string]Share{
		"traffic":                           {Weight: ptr.To(int32(101))},
		"matches[0]":                        {Matches: []v1beta1.HTTPRouteMatch{{}}},
		"matches[0].headers[0].type":        headers(v1beta1.HTTPNamedMatch{Name: "a", Type: text("Prefix")}),
		"matches[0].headers[0].name":        headers(v1beta1.HTTPNamedMatch{}),
		"matches[0].headers[1].name":        headers(v1beta1.HTTPNamedMatch{Name: "a"}, v1beta1.HTTPNamedMatch{Name: "A"}),
		"matches[0].path.type":              path(text("Regex"), text("/")),
		"matches[0].path.value":             path(nil, text("a")),
		"requestHeaderModifier":             {Headers: &v1beta1.HTTPHeaderFilter{}},
		"requestHeaderModifier.set[0].name": {Headers: &v1beta1.HTTPHeaderFilter{Set: []v1beta1.HTTPHeader{{Name: "a b"}}}},
		"requestHeaderModifier.add[0].name": {Headers: &v1beta1.HTTPHeaderFilter{Add: []v1beta1.HTTPHeader{{Name: ""}}}},
		"requestHeaderModifier.remove[0]":   {Headers: &v1beta1.HTTPHeaderFilter{Remove: []string{"a:b"}}},
	} {
		if errs := Check(share, field.NewPath("s")); len(errs) != 1 || errs[0].Field != "s."+want {
			t.Errorf("%v, want %s", errs, want)
		}
	}
	fine := Share{Weight: ptr.To(int32(0)), Matches: []v1beta1.HTTPRouteMatch{
		{Path: &v1beta1.HTTPMatch{}, QueryParams: []v1beta1.HTTPNamedMatch{{Name: "a"}, {Name: "A"}}}, {Path: &v1beta1.HTTPMatch{Type: text("RegularExpression"), Value: text(".*")}},
	}, Headers: &v1beta1.HTTPHeaderFilter{Remove: []string{"X-A"}}}
	if errs := Check(fine, field.NewPath("s")); len(errs) > 0 {
		t.Error(errs)
	}
}

func TestEnding(t *testing.T) {
	const partition, canary, blueGreen = v1beta1.PartitionRollingStyle, v1beta1.CanaryRollingStyle, v1beta1.BlueGreenRollingStyle
	up := "RestoreStableService RouteTrafficToStable RemoveCanaryService ResumeWorkload ReleaseWorkloadControl END"
	down := "RouteTrafficToStable ResumeWorkload ReleaseWorkloadControl RestoreStableService RemoveCanaryService END"
	for _, c := range []struct {
		style  v1beta1.RollingStyleType
		reason Reason
		want   string
	}{
		{partition, Success, up}, {canary, Success, up}, {partition, Leave, up}, {canary, Leave, up}, {blueGreen, Leave, up},
		{partition, Rollback, down}, {canary, Rollback, down},
		{blueGreen, Success, "RouteTrafficToNew RestoreStableService ResumeWorkload RouteTrafficToStable RemoveCanaryService ReleaseWorkloadControl END"},
		{blueGreen, Rollback, "RouteTrafficToStable ResumeWorkload RestoreStableService RemoveCanaryService ReleaseWorkloadControl END"},
		{canary, Again, "RouteTrafficToStable ReleaseWorkloadControl RemoveCanaryService END"},
	} {
		var names []string
		for _, step := range Ending(c.style, c.reason) {
			names = append(names, string(step))
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%s, %s: %s, want %s", c.style, c.reason, got, c.want)
		}
	}
}

func TestNext(t *testing.T) {
	share := Share{Weight: ptr.To(int32(20))}
	there := ServiceState{Exists: true, Current: true, Ready: true}
	pinned := ServiceState{Exists: true, Pinned: true}
	seen := []RouteState{{Name: "HTTPRoute shop", Exists: true, Current: true, Sight: Seen}}
	cases := map[string]struct {
		world World
		act   Act
		why   string
	}{
		"new pods are kept from requests first":        {World{Goal: Prepare, Share: share, Stable: ServiceState{Exists: true}, StableReady: true, Waited: true}, PinStable, ""},
		"nothing is pinned to pods that are not ready": {World{Goal: Prepare, Share: share, Stable: ServiceState{Exists: true}, Waited: true}, Done, ""},
		"the last step opens the Service":              {World{Goal: Prepare, Share: share, Stable: pinned, Empties: true, StableReady: true, Waited: true}, OpenStable, ""},
		"one Service is left alone":                    {World{Goal: Prepare, Share: share, OneService: true, Stable: ServiceState{Exists: true}, StableReady: true}, Done, ""},
		"no Service":                                   {World{Goal: Route, Share: share}, Stuck, "there is no Service of the workload"},
		"no route":                                     {World{Goal: Route, Share: share, Stable: pinned, Routes: []RouteState{{Name: "HTTPRoute shop"}}}, Stuck, "there is no HTTPRoute shop"},
		"a route that cannot":                          {World{Goal: Route, Share: share, Stable: pinned, Routes: []RouteState{{Exists: true, Fault: "no rule"}}}, Stuck, "no rule"},
		"the Service comes first":                      {World{Goal: Route, Share: share, Stable: pinned, Waited: true, Routes: []RouteState{{Exists: true, Back: true}}}, MakeCanary, ""},
		"each write waits":                             {World{Goal: Route, Share: share, Stable: pinned, Routes: []RouteState{{Exists: true, Back: true}}}, Wait, "has to reach the gateway"},
		"no endpoint, no weight":                       {World{Goal: Route, Share: share, Stable: pinned, Canary: ServiceState{Exists: true, Current: true}, Waited: true, Routes: []RouteState{{Exists: true}}}, Wait, "no pod of the new version"},
		"a weight of 0 needs no endpoint":              {World{Goal: Route, Share: Share{Weight: ptr.To(int32(0))}, Stable: pinned, Canary: ServiceState{Exists: true, Current: true}, Waited: true, Routes: []RouteState{{Exists: true}}}, SetRoutes, ""},
		"then routes":                                  {World{Goal: Route, Share: share, Stable: pinned, Canary: there, Waited: true, Routes: []RouteState{{Exists: true}}}, SetRoutes, ""},
		"then the gateway":                             {World{Goal: Route, Share: share, Stable: pinned, Canary: there, Routes: []RouteState{{Name: "r", Why: "is behind", Exists: true, Current: true}}}, Wait, "r: is behind"},
		"a gateway that says nothing has its time":     {World{Goal: Route, Share: share, Stable: pinned, Canary: there, Routes: []RouteState{{Exists: true, Current: true, Sight: Silent}}}, Wait, ""},
		"a refusal":                                    {World{Goal: Route, Share: share, Stable: pinned, Canary: there, Waited: true, Routes: []RouteState{{Name: "r", Why: "no", Exists: true, Current: true, Sight: Refused}}}, Stuck, "r: no"},
		"and it is done":                               {World{Goal: Route, Share: share, Stable: pinned, Canary: there, Routes: seen}, Done, ""},
		"a route to another version goes first":        {World{Goal: Route, Share: share, Stable: pinned, Canary: ServiceState{Exists: true}, Routes: seen}, EndRoutes, ""},
		"the way back does not wait":                   {World{Goal: Return, Stable: pinned, Canary: there, Routes: seen}, EndRoutes, ""},
		"what leads back goes when it was seen":        {World{Goal: Return, Routes: []RouteState{{Exists: true, Back: true, Rest: true, Sight: Seen}}}, ClearRoutes, ""},
		"who wrote it goes last":                       {World{Waited: true, Goal: Return, Routes: []RouteState{{Exists: true, Back: true, Marked: true, Sight: Seen}}}, DisownRoutes, ""},
		"a gateway that confirmed a moment ago":        {World{Goal: Return, Routes: []RouteState{{Exists: true, Back: true, Marked: true, Sight: Seen}}}, Wait, ""},
		"a gateway that is gone":                       {World{Goal: Return, Overdue: true, Routes: []RouteState{{Exists: true, Back: true, Sight: Behind}}}, Done, ""},
		"no Service goes before its routes":            {World{Goal: Remove, Canary: there, Waited: true, Routes: seen}, EndRoutes, ""},
		"a step without traffic opens first":           {World{Goal: Open, Stable: pinned, Canary: there, Waited: true, Routes: seen}, OpenStable, ""},
		"everything is gone":                           {World{Goal: Finish, Share: share, Routes: []RouteState{{Back: true}}}, Done, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if act, why := Next(c.world); act != c.act || !strings.Contains(why, c.why) {
				t.Errorf("%s %q, want %s %q", act, why, c.act, c.why)
			}
		})
	}
}
