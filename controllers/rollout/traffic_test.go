// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/routing"
	"github.com/kruise-operator/kruise-operator/internal/kube/routes"
	"github.com/kruise-operator/kruise-operator/internal/testutil/patched"
)

// TestTrafficActions has the writes of each act. All that change something name the version that was read.
func TestTrafficActions(t *testing.T) {
	r := &v1beta1.Rollout{}
	r.Namespace, r.Name, r.UID = "shop", "web", "u"
	ref := v1beta1.TrafficRoutingRef{Service: "web", Ingress: &v1beta1.IngressTrafficRouting{Name: "web"}, Gateway: &v1beta1.GatewayTrafficRouting{HTTPRouteName: ptr.To("web")}}
	q := &requests{
		stableHash: "old",
		names:      routing.Names("web", &v1beta1.CanaryStrategy{TrafficRoutings: []v1beta1.TrafficRoutingRef{ref}}), pods: traffic.Pods{Label: traffic.HashLabel, Hash: "new"},
	}
	q.stable = patched.YAML(t, `{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop, resourceVersion: "3", managedFields: [{manager: kruise-operator-rollout}]}, spec: {selector: {app: web}, ports: [{port: 80}]}}`)
	for _, route := range routing.Of(ref, nil) {
		p := routes.Place{Route: route}
		p.Object = patched.YAML(t, map[string]string{
			"HTTPRoute": `{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: web, namespace: shop, resourceVersion: "3"}, spec: {rules: [{backendRefs: [{name: web, port: 80}]}]}}`,
			"Ingress": `{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: web, namespace: shop, resourceVersion: "3"},
spec: {rules: [{http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]}}`,
		}[route.Kind.Kind])
		var err error
		if p.Reading, err = traffic.Read(p.Provider, "", p.Object, nil, q.names, traffic.Share{Weight: ptr.To(int32(20))}, traffic.Route); err != nil {
			t.Fatal(err)
		}
		q.places = append(q.places, p)
	}
	world := &traffic.World{Goal: traffic.Route, Routes: []traffic.RouteState{{}}}
	q.align(world)
	if world.Canary.Current || !world.Routes[0].Marked {
		t.Errorf("got %+v", world)
	}
	for act, want := range map[traffic.Act]string{
		traffic.PinStable:    "Patch Service web, at 3",
		traffic.MakeCanary:   "Create Service web-canary",
		traffic.SetRoutes:    "Create Ingress web-canary; Patch HTTPRoute web, at 3",
		traffic.EndRoutes:    "",
		traffic.ClearRoutes:  "",
		traffic.DisownRoutes: "Patch Service web, at 3",
	} {
		if got := told(trafficActions(r, q, act)); got != want {
			t.Errorf("%s: got %q, want %q", act, got, want)
		}
	}
}

// told are actions in words.
func told(all []planning.Action) string {
	var texts []string
	for _, a := range all {
		text := fmt.Sprintf("%s %s %s", a.Verb, a.Kind.Kind, a.Object.GetName())
		if patch, is := a.Change.(planning.RawPatch); is {
			var body metav1.PartialObjectMetadata
			if json.Unmarshal(patch.Body, &body) == nil && body.ResourceVersion != "" {
				text += ", at " + body.ResourceVersion
			}
		}
		if a.Failure.Reason != "FailedTraffic" {
			text += " without an event"
		}
		if a.Verb == planning.VerbCreate && (len(a.Object.GetOwnerReferences()) != 1 || a.Object.GetNamespace() != "shop") {
			text += " of nobody"
		}
		texts = append(texts, text)
	}
	slices.Sort(texts)
	return strings.Join(texts, "; ")
}
