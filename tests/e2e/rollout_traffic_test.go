// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/gateway"
)

// routedShop leads requests to the workload named shop.
const routedShop = `
apiVersion: v1
kind: Service
metadata: {name: shop}
spec: {selector: {app: shop}, ports: [{port: 80}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: shop, labels: {team: web}}
spec:
  parentRefs: [{name: gate}]
  rules:
  - {name: all, timeouts: {request: 5s}, backendRefs: [{name: shop, port: 80}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: shop, annotations: {nginx.ingress.kubernetes.io/proxy-read-timeout: "5"}}
spec:
  ingressClassName: nginx
  rules: [{host: shop.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: shop, port: {number: 80}}}}]}}]
---
`

const trafficSteps = `[{"replicas":1,"traffic":"20%"},{"replicas":"50%","matches":[{"headers":[{"name":"user-agent","value":"pc"}]}]},{"replicas":"100%"}]`

// traffic is a workload with a Rollout, a Service and routes.
type routed struct {
	*rolled
	gate   *gateway.Gateway
	before map[string]map[string]any
}

// newRouted has a Rollout with trafficRoutings.
func newRouted(t *testing.T, apiVersion, kind, routing string) *routed {
	t.Helper()
	r := newRoutedBy(t, apiVersion, kind, "canary", routing)
	r.steps(trafficSteps)
	return r
}

// newRoutedBy has the steps of any Rollout.
func newRoutedBy(t *testing.T, apiVersion, kind, strategy, routing string) *routed {
	t.Helper()
	if err := gateway.Install(t.Context(), env.Client); err != nil {
		t.Fatal(err)
	}
	r := &routed{rolled: unrolled(t, env, apiVersion, kind, shopOf(apiVersion, kind))}
	r.manifest = environment.Edited(r.manifest, "    canary:\n", "    "+strategy+":\n      trafficRoutings: [{service: shop, gracePeriodSeconds: 1, "+routing+"}]\n")
	r.gate = &gateway.Gateway{Client: env.Client, Namespace: r.Name}
	go r.gate.Run(t.Context())
	r.Eventually("HTTPRoutes are served", func(ctx context.Context) error {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gateway.Kind)
		return env.Client.List(ctx, list, client.InNamespace(r.Name))
	})
	r.Apply(routedShop)
	r.starts()
	r.before = r.network()
	return r
}

func (r *routed) object(kind schema.GroupVersionKind, name string) map[string]any {
	r.t.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	err := r.Client.Get(r.t.Context(), types.NamespacedName{Namespace: r.Name, Name: name}, object)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return object.Object
}

func networkKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{gateway.Kind, networkingv1.SchemeGroupVersion.WithKind("Ingress"), corev1.SchemeGroupVersion.WithKind("Service")}
}

// network is what the user has written of the Service and the routes, and who owns it.
func (r *routed) network() map[string]map[string]any {
	r.t.Helper()
	all := map[string]map[string]any{}
	for _, kind := range networkKinds() {
		all[kind.Kind] = r.written(kind, "shop")
	}
	return all
}

// written is what somebody wrote of an object, and who owns it.
func (r *routed) written(kind schema.GroupVersionKind, name string) map[string]any {
	r.t.Helper()
	o := &unstructured.Unstructured{Object: r.object(kind, name)}
	if o.Object == nil {
		r.t.Fatalf("there is no %s %s", kind.Kind, name)
	}
	owners := ""
	for _, entry := range o.GetManagedFields() {
		if entry.Subresource == "" {
			owners += entry.Manager + " "
		}
	}
	return map[string]any{"spec": o.Object["spec"], "labels": o.GetLabels(), "annotations": o.GetAnnotations(), "owners": owners}
}

// asBefore checks that nothing of a release is left.
func (r *routed) asBefore() {
	r.t.Helper()
	r.clean()
	if diff := cmp.Diff(r.before, r.network()); diff != "" {
		r.t.Errorf("something of the release is left (-before +after):\n%s", diff)
	}
	for _, left := range []struct {
		kind schema.GroupVersionKind
		name string
	}{
		{networkKinds()[0], "shop-shop"}, {networkKinds()[1], "shop-canary"}, {networkKinds()[2], "shop-canary"},
	} {
		if r.object(left.kind, left.name) != nil {
			r.t.Errorf("the %s %s is left", left.kind.Kind, left.name)
		}
	}
}

// weights are those of the backends in force, by Service.
func weights(spec map[string]any) string {
	rules, _, _ := unstructured.NestedSlice(spec, "rules")
	var all []string
	for _, rule := range rules {
		refs, _, _ := unstructured.NestedSlice(rule.(map[string]any), "backendRefs")
		for _, ref := range refs {
			fields := ref.(map[string]any)
			all = append(all, fmt.Sprintf("%v %v", fields["name"], fields["weight"]))
		}
	}
	return strings.Join(all, ", ")
}

// leads checks what the gateway does with requests.
func (r *routed) leads(want string) {
	r.t.Helper()
	r.Eventually("the gateway leads to "+want, func(context.Context) error {
		if got := weights(r.gate.Seen("shop")); got != want {
			return fmt.Errorf("it leads to %q", got)
		}
		return nil
	})
}

// pinned checks the version of the Service of the user.
func (r *routed) pinned(name string, want bool) {
	r.t.Helper()
	selector, _, _ := unstructured.NestedStringMap(r.object(networkKinds()[2], name), "spec", "selector")
	label := traffic.HashLabel
	if r.kind.Kind == "StatefulSet" {
		label = traffic.RevisionLabel
	}
	if _, is := selector[label]; is != want {
		r.t.Errorf("the Service %s chooses pods by %v", name, selector)
	}
}

const byGateway = `gateway: {httpRouteName: shop}`

// Example E3 of the specification: new pods are in a canary Deployment, and old ones stay until the end.
func TestACanaryDeploymentGetsRequests(t *testing.T) {
	t.Parallel()
	r := newRouted(t, "apps/v1", "Deployment", byGateway)
	r.configure("strategy/canary/enableExtraWorkloadForCanary", "true")
	r.steps(`[{"replicas":"20%","traffic":"5%"},{"replicas":"60%","traffic":"50%"},{"replicas":"100%","traffic":"100%"}]`)
	r.image("v2")
	for step, want := range []string{"shop 95, shop-canary 5", "shop 50, shop-canary 50"} {
		r.waits(int32(step) + 1)
		r.has("v2", 2+2*step, 8+2*step)
		r.leads(want)
		r.pinned("shop", true)
		r.approve()
	}
	r.ends("True")
	r.has("v2", 6, 6)
	r.asBefore()
}

// A workload that somebody takes over in the middle has all requests again.
func TestWhoTakesOverHasAllRequests(t *testing.T) {
	t.Parallel()
	r := newRouted(t, "apps/v1", "Deployment", byGateway)
	r.image("v2")
	r.waits(1)
	r.patch(r.kind, "", `[{"op":"remove","path":"/metadata/labels/rollouts.kruise.io~1workload-type"}]`)
	r.until("it was taken over", func(o *v1beta1.Rollout) bool {
		return condition(o, v1beta1.RolloutConditionSucceeded).Reason == v1beta1.ReasonTakenOver
	})
	if diff := cmp.Diff(r.before, r.network()); diff != "" {
		t.Errorf("something of the release is left:\n%s", diff)
	}
}

// Example E4 of the specification, after a step with a weight: then a header, then all pods. What the user edits meanwhile stays.
func TestARolloutRoutesRequests(t *testing.T) {
	t.Parallel()
	for _, tc := range [][]string{{"apps/v1", "Deployment"}, {"apps.kruise.io/v1beta1", "CloneSet"}, {"apps/v1", "StatefulSet"}, {"apps.kruise.io/v1beta1", "StatefulSet"}} {
		t.Run(tc[1]+" of "+tc[0], func(t *testing.T) {
			t.Parallel()
			r := newRouted(t, tc[0], tc[1], byGateway)
			r.image("v2")
			r.waits(1)
			r.leads("shop 80, shop-canary 20")
			r.pinned("shop", true)
			r.pinned("shop-canary", true)
			// The user edits his route.
			r.patchRoute(`[{"op":"replace","path":"/spec/rules/0/timeouts/request","value":"7s"}]`)
			r.approve()
			r.waits(2)
			r.leads("shop 1")
			if spec := r.gate.Seen("shop-shop"); weights(spec) != "shop-canary 1" || !strings.Contains(fmt.Sprint(spec), "user-agent") {
				t.Errorf("the route beside is %v", spec)
			}
			r.approve()
			r.ends("True")
			r.has("v2", 6, 6)
			rules := r.before["HTTPRoute"]["spec"].(map[string]any)["rules"].([]any)
			rules[0].(map[string]any)["timeouts"] = map[string]any{"request": "7s"}
			r.before["HTTPRoute"]["owners"] = r.network()["HTTPRoute"]["owners"]
			if owners := fmt.Sprint(r.before["HTTPRoute"]["owners"]); strings.Contains(owners, "kruise") {
				t.Errorf("the route belongs to %s", owners)
			}
			r.asBefore()
		})
	}
}

func (r *routed) patchRoute(patch string) {
	r.t.Helper()
	r.patch(gateway.Kind, "", patch)
}

// Example E5: requests leave the new version before its pods go.
func TestARolloutLeadsRequestsBack(t *testing.T) {
	t.Parallel()
	r := newRouted(t, "apps/v1", "Deployment", byGateway)
	r.image("v2")
	r.waits(1)
	r.leads("shop 80, shop-canary 20")
	r.gate.Behave(true, "")
	r.image("v1")
	r.until("it waits for the gateway", func(o *v1beta1.Rollout) bool {
		return strings.Contains(o.Status.Message, "has not seen its last change")
	})
	r.has("v2", 1, 6)
	r.gate.Behave(false, "")
	r.ends("False")
	r.has("v1", 6, 6)
	r.asBefore()
}

// A gateway that refuses a route holds the step up, and says why.
func TestARolloutAndAGatewayThatRefuses(t *testing.T) {
	t.Parallel()
	r := newRouted(t, "apps/v1", "Deployment", byGateway)
	r.gate.Behave(false, "NotAllowed")
	r.image("v2")
	r.until("it is stalled", func(o *v1beta1.Rollout) bool {
		c := condition(o, v1beta1.RolloutConditionStalled)
		return c.Status == "True" && c.Reason == v1beta1.ReasonNotRouted && strings.Contains(c.Message, "NotAllowed") && o.Status.CurrentStepState == v1beta1.CanaryStepStateTrafficRouting
	})
	// An approval is ignored until the step waits for one.
	r.approve()
	r.until("it is still routing", func(o *v1beta1.Rollout) bool {
		return o.Status.CanaryStatus.CurrentStepState == v1beta1.CanaryStepStateTrafficRouting
	})
	r.gate.Behave(false, "")
	r.waits(1)
	r.leads("shop 80, shop-canary 20")
	// A gateway that sees nothing is named when the deadline of the step is over.
	r.configure("strategy/canary/steps/1/progressDeadlineSeconds", "2")
	r.gate.Behave(true, "")
	r.approve()
	r.until("its deadline is over", func(o *v1beta1.Rollout) bool {
		c := condition(o, v1beta1.RolloutConditionStalled)
		return c.Status == "True" && c.Reason == v1beta1.ReasonDeadlineExceeded && strings.Contains(c.Message, "requests are not routed yet") && strings.Contains(c.Message, "has not seen its last change")
	})
	r.gate.Behave(false, "")
	r.waits(2)
}

// Deleting the Rollout in the middle, or its workload, leaves routes and Services as they were.
func TestWhatIsDeletedLeavesRoutesAsTheyWere(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"Rollout", "Deployment"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := newRouted(t, "apps/v1", "Deployment", byGateway)
			r.image("v2")
			r.waits(1)
			kind := v1beta1.GroupVersion().WithKind("Rollout")
			if what == "Deployment" {
				kind = r.kind
			}
			object := &unstructured.Unstructured{}
			object.SetGroupVersionKind(kind)
			object.SetNamespace(r.Name)
			object.SetName("shop")
			if err := r.Client.Delete(t.Context(), object); err != nil {
				t.Fatal(err)
			}
			if what == "Rollout" {
				r.gone(object)
				r.has("v2", 6, 6)
				r.asBefore()
				return
			}
			r.until("it has no workload", func(o *v1beta1.Rollout) bool {
				return o.Status.Message == "Workload Not Found" && o.Status.CanaryStatus == nil
			})
			if diff := cmp.Diff(r.before, r.network()); diff != "" || r.object(networkKinds()[2], "shop-canary") != nil {
				t.Errorf("something of the release is left:\n%s", diff)
			}
		})
	}
}

// A third version in the middle: requests go back first, and the Service of the user keeps the pods of the first.
func TestAThirdVersionWithRequests(t *testing.T) {
	t.Parallel()
	for name, middle := range map[string]func(*routed){
		"Deployment, while a step waits": func(r *routed) {
			r.image("v2")
			r.waits(1)
		},
		"CloneSet, while requests are on their way": func(r *routed) {
			r.gate.Behave(true, "")
			r.image("v2")
			r.routes()
		},
		"CloneSet, while new pods are not ready": func(r *routed) {
			r.unready("v2")
			r.reachesPods(1)
			if r.leads("shop 1"); r.object(networkKinds()[2], "shop-canary") != nil {
				r.t.Error("there is a Service for pods that are not ready")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			version := map[string]string{"Deployment": "apps/v1", "CloneSet": "apps.kruise.io/v1beta1"}
			kind, _, _ := strings.Cut(name, ",")
			r := newRouted(t, version[kind], kind, byGateway)
			middle(r)
			r.patch(r.kind, "", `[{"op":"add","path":"/spec/template/metadata/annotations","value":{}},
				{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"example/shop:v3"}]`)
			r.gate.Behave(false, "")
			r.until("another release begins", func(o *v1beta1.Rollout) bool {
				return condition(o, v1beta1.RolloutConditionProgressing).Reason == v1beta1.ReasonInitializing
			})
			r.waits(1)
			r.pinned("shop", true)
			r.has("v3", 1, 6)
			r.leads("shop 80, shop-canary 20")
			r.image("v1")
			r.ends("False")
			r.has("v1", 6, 6)
			r.asBefore()
		})
	}
}

// routes waits until a step waits for its gateway.
func (r *routed) routes() {
	r.t.Helper()
	r.until("it routes", func(o *v1beta1.Rollout) bool {
		return o.Status.CurrentStepState == v1beta1.CanaryStepStateTrafficRouting
	})
}

// A step without traffic gives all pods all requests, whatever the step before has.
func TestAStepWithoutTrafficBetweenOthers(t *testing.T) {
	t.Parallel()
	r := newRouted(t, "apps/v1", "Deployment", byGateway)
	r.steps(`[{"replicas":1,"traffic":"20%"},{"replicas":2},{"replicas":"50%","traffic":"50%"},{"replicas":"100%"}]`)
	r.image("v2")
	for i, want := range []string{"shop 80, shop-canary 20", "shop 1", "shop 50, shop-canary 50"} {
		r.waits(int32(i) + 1)
		r.has("v2", i+1, 6)
		r.leads(want)
		r.pinned("shop", i != 1)
		if there := r.object(networkKinds()[2], "shop-canary") != nil; there != (i != 1) {
			t.Errorf("step %d: the Service of the new version is there: %t", i+1, there)
		}
		r.approve()
	}
	r.ends("True")
	r.has("v2", 6, 6)
	r.asBefore()
	r.ownsAgain()
}

// An Ingress of the class nginx gets a second one beside it.
func TestARolloutAndAnIngress(t *testing.T) {
	t.Parallel()
	r := newRouted(t, "apps/v1", "Deployment", `ingress: {name: shop}`)
	r.image("v2")
	r.waits(1)
	second := &unstructured.Unstructured{Object: r.object(networkKinds()[1], "shop-canary")}
	notes := second.GetAnnotations()
	if text, _ := json.Marshal(second.Object["spec"]); notes["nginx.ingress.kubernetes.io/canary-weight"] != "20" || notes["nginx.ingress.kubernetes.io/proxy-read-timeout"] != "5" ||
		!strings.Contains(string(text), "shop-canary") {
		t.Errorf("the second Ingress is %v %s", notes, text)
	}
	r.approve()
	r.waits(2)
	second.Object = r.object(networkKinds()[1], "shop-canary")
	if notes := second.GetAnnotations(); notes["nginx.ingress.kubernetes.io/canary-by-header"] != "user-agent" || notes["nginx.ingress.kubernetes.io/canary-weight"] != "" {
		t.Errorf("the second Ingress has %v", notes)
	}
	r.approve()
	r.ends("True")
	r.has("v2", 6, 6)
	r.asBefore()
}
