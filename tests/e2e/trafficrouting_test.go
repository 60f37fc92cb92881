// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/rollouts/shared"
	"github.com/kruise-operator/kruise-operator/api/rollouts/v1alpha1"
	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/gateway"
)

// sharedGate is the way into a chain of Services.
const sharedGate = `
apiVersion: rollouts.kruise.io/v1alpha1
kind: TrafficRouting
metadata: {name: gate}
spec:
  objectRef: [{service: gate, gracePeriodSeconds: 1, gateway: {httpRouteName: gate}}]
  strategy:
    matches:
    - headers: [{name: user, value: a}]
    - headers: [{name: user, value: b}, {name: region, value: eu}]
    requestHeaderModifier: {set: [{name: x-version, value: canary}]}
`

const gateRoute = `
apiVersion: v1
kind: Service
metadata: {name: gate}
spec: {selector: {app: one}, ports: [{port: 80}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: gate}
spec:
  parentRefs: [{name: gate}]
  rules: [{backendRefs: [{name: gate, port: 80}]}]
`

// link is a workload of a chain with its Rollout. NAMING is how that names the TrafficRouting.
const link = `
apiVersion: rollouts.kruise.io/v1beta1
kind: Rollout
metadata: {name: LINK, annotations: {ANNOTATION: gate}}
spec:
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: LINK}
  strategy: {canary: {FIELD: gate, steps: [{replicas: 1}, {replicas: "100%"}]}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: LINK}
spec:
  replicas: 2
  selector: {matchLabels: {app: LINK}}
  template:
    metadata: {labels: {app: LINK}}
    spec: {containers: [{name: main, image: "example/shop:v1"}]}
---
`

// chain are two workloads behind one gate.
type chain struct {
	*environment.Namespace
	t      testing.TB
	gate   *gateway.Gateway
	before string
}

// newChain has Rollouts that name the TrafficRouting gate: one by its field, two by an annotation.
func newChain(t *testing.T, routing string) *chain {
	t.Helper()
	if err := gateway.Install(t.Context(), env.Client); err != nil {
		t.Fatal(err)
	}
	c := &chain{Namespace: env.Namespace(t), t: t}
	c.gate = &gateway.Gateway{Client: env.Client, Namespace: c.Name}
	go c.gate.Run(t.Context())
	c.Eventually("HTTPRoutes are served", func(ctx context.Context) error {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gateway.Kind)
		return env.Client.List(ctx, list, client.InNamespace(c.Name))
	})
	c.Apply(gateRoute + "---\n" + routing)
	c.before = c.routes()
	c.Apply(strings.NewReplacer("LINK", "one", "annotations: {ANNOTATION: gate}", "", "FIELD", "trafficRoutingRef").Replace(link) +
		strings.NewReplacer("LINK", "two", "ANNOTATION", shared.AnnotationTrafficRouting, "FIELD: gate, ", "").Replace(link))
	for _, name := range []string{"one", "two"} {
		c.rollout(name, "it is guarded", func(o *v1beta1.Rollout) bool { return condition(o, v1beta1.RolloutConditionGuarded).Status == "True" })
	}
	return c
}

// routes are all routes, and the Service, as the user and others wrote them.
func (c *chain) routes() string {
	c.t.Helper()
	text := ""
	for _, kind := range []string{"HTTPRoute", "Service"} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gateway.Kind)
		if kind == "Service" {
			list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
		}
		if err := c.Client.List(c.t.Context(), list, client.InNamespace(c.Name)); err != nil {
			c.t.Fatal(err)
		}
		for i := range list.Items {
			o := &list.Items[i]
			for _, entry := range o.GetManagedFields() {
				if entry.Subresource == "" {
					text += entry.Manager + " "
				}
			}
			text += fmt.Sprintln(kind, o.GetName(), o.GetAnnotations(), o.Object["spec"])
		}
	}
	return text
}

func (c *chain) get(ctx context.Context, name string, object client.Object) error {
	return c.Client.Get(ctx, types.NamespacedName{Namespace: c.Name, Name: name}, object)
}

// rollout waits for a state of a Rollout.
func (c *chain) rollout(name, what string, is func(*v1beta1.Rollout) bool) {
	c.t.Helper()
	c.Eventually("Rollout "+name+": "+what, func(ctx context.Context) error {
		o := &v1beta1.Rollout{}
		if err := c.get(ctx, name, o); err != nil {
			return err
		}
		if !is(o) {
			return fmt.Errorf("its status is %+v %+v", o.Status, o.Status.CanaryStatus)
		}
		return nil
	})
}

// waits until the first step waits for somebody.
func (c *chain) waits(name string) {
	c.t.Helper()
	c.rollout(name, "step 1 waits", func(o *v1beta1.Rollout) bool {
		return o.Status.CurrentStepIndex == 1 && o.Status.CurrentStepState == v1beta1.CanaryStepStatePaused
	})
}

func (c *chain) ends(name, succeeded string) {
	c.t.Helper()
	c.rollout(name, "the release is over", func(o *v1beta1.Rollout) bool {
		return o.Status.Phase == v1beta1.RolloutPhaseHealthy && string(condition(o, v1beta1.RolloutConditionSucceeded).Status) == succeeded
	})
}

// is waits for a phase of the TrafficRouting, and for those who use it.
func (c *chain) is(phase v1alpha1.TrafficRoutingPhase, users ...string) {
	c.t.Helper()
	want := []string{shared.FinalizerTrafficRouting}
	for _, user := range users {
		want = append(want, shared.FinalizerInUse+user)
	}
	c.Eventually(fmt.Sprintf("the TrafficRouting is %s with %v", phase, users), func(ctx context.Context) error {
		o := &v1alpha1.TrafficRouting{}
		if err := c.get(ctx, "gate", o); err != nil {
			return err
		}
		reason := v1alpha1.ReasonReturned
		if phase == v1alpha1.TrafficRoutingPhaseProgressing {
			reason = v1alpha1.ReasonRouted
		}
		settled := slices.ContainsFunc(o.Status.Conditions, func(c v1beta1.RolloutCondition) bool {
			return c.Type == v1alpha1.TrafficRoutingReconciling && c.Status == "False" && c.Reason == reason
		})
		slices.Sort(o.Finalizers)
		slices.Sort(want)
		if o.Status.Phase != phase || !settled || o.Status.ObservedGeneration != o.Generation || !slices.Equal(o.Finalizers, want) {
			return fmt.Errorf("it is %+v with %v", o.Status, o.Finalizers)
		}
		return nil
	})
}

func (c *chain) patch(object client.Object, name, patch string, subresource ...string) {
	c.t.Helper()
	object.SetNamespace(c.Name)
	object.SetName(name)
	raw := client.RawPatch(types.JSONPatchType, []byte(patch))
	err := error(nil)
	if len(subresource) > 0 {
		err = c.Client.Status().Patch(c.t.Context(), object, raw)
	} else {
		err = c.Client.Patch(c.t.Context(), object, raw)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *chain) image(name, version string) {
	c.t.Helper()
	c.patch(&appsv1.Deployment{}, name, `[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"example/shop:`+version+`"}]`)
}

func (c *chain) approve(name string) {
	c.t.Helper()
	c.patch(&v1beta1.Rollout{}, name, `[{"op":"replace","path":"/status/canaryStatus/currentStepState","value":"StepReady"}]`, "status")
}

func (c *chain) delete(object client.Object, name string) {
	c.t.Helper()
	object.SetNamespace(c.Name)
	object.SetName(name)
	if err := c.Client.Delete(c.t.Context(), object); err != nil {
		c.t.Fatal(err)
	}
}

// asBefore checks that nothing is left of a release.
func (c *chain) asBefore() {
	c.t.Helper()
	if diff := cmp.Diff(c.before, c.routes()); diff != "" {
		c.t.Errorf("something of a release is left (-before +after):\n%s", diff)
	}
}

// tagged are the sets of headers whose requests the gateway marks for new versions.
func (c *chain) tagged(requests ...map[string]string) (marked []bool) {
	rules, _, _ := unstructured.NestedSlice(c.gate.Seen("gate-gate"), "rules")
	for _, request := range requests {
		marked = append(marked, slices.ContainsFunc(rules, func(rule any) bool {
			fields := rule.(map[string]any)
			matches, _ := fields["matches"].([]any)
			return strings.Contains(fmt.Sprint(fields["filters"]), "x-version") && slices.ContainsFunc(matches, func(match any) bool {
				headers, _ := match.(map[string]any)["headers"].([]any)
				return len(headers) > 0 && !slices.ContainsFunc(headers, func(header any) bool {
					h := header.(map[string]any)
					return request[h["name"].(string)] != h["value"]
				})
			})
		}))
	}
	return marked
}

// Two releases use one TrafficRouting: requests are routed from the begin of the first one to the end of the last. A list of matches means
// or, and headers in a match mean and; OpenKruise put only some of them into the route.
func TestTwoRolloutsShareARoute(t *testing.T) {
	t.Parallel()
	c := newChain(t, sharedGate)
	c.is(v1alpha1.TrafficRoutingPhaseHealthy)
	c.image("one", "v2")
	c.waits("one")
	c.is(v1alpha1.TrafficRoutingPhaseProgressing, "one")
	got := c.tagged(map[string]string{"user": "a"}, map[string]string{"user": "b", "region": "eu"}, map[string]string{"user": "b"}, map[string]string{"region": "eu"}, nil)
	if !slices.Equal(got, []bool{true, true, false, false, false}) {
		t.Errorf("requests of a, b in eu, b, eu and nobody are marked: %v, by %v", got, c.gate.Seen("gate-gate"))
	}
	c.image("two", "v2")
	c.waits("two")
	c.is(v1alpha1.TrafficRoutingPhaseProgressing, "one", "two")
	c.approve("one")
	c.ends("one", "True")
	c.is(v1alpha1.TrafficRoutingPhaseProgressing, "two")
	if weights(c.gate.Seen("gate-gate")) != "gate 1" {
		t.Errorf("the route beside is %v", c.gate.Seen("gate-gate"))
	}
	// Another strategy is put in force at once.
	c.patch(&v1alpha1.TrafficRouting{}, "gate", `[{"op":"remove","path":"/spec/strategy/matches/0"}]`)
	c.Eventually("the other matches are in force", func(context.Context) error {
		if got := c.tagged(map[string]string{"user": "a"}, map[string]string{"user": "b", "region": "eu"}); !slices.Equal(got, []bool{false, true}) {
			return fmt.Errorf("marked: %v", got)
		}
		return nil
	})
	c.image("two", "v1")
	c.ends("two", "False")
	c.is(v1alpha1.TrafficRoutingPhaseHealthy)
	c.asBefore()
}

// Who deletes, disables or loses what a release is about lets the TrafficRouting go.
func TestEveryEndLetsATrafficRoutingGo(t *testing.T) {
	t.Parallel()
	for what, end := range map[string]func(*chain){
		"delete": func(c *chain) { c.delete(&v1beta1.Rollout{}, "one") },
		"disable": func(c *chain) {
			c.patch(&v1beta1.Rollout{}, "one", `[{"op":"add","path":"/spec/disabled","value":true}]`)
		},
		"workload": func(c *chain) { c.delete(&appsv1.Deployment{}, "one") },
		"label": func(c *chain) {
			c.patch(&appsv1.Deployment{}, "one", `[{"op":"remove","path":"/metadata/labels/rollouts.kruise.io~1workload-type"}]`)
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c := newChain(t, sharedGate)
			c.image("one", "v2")
			c.waits("one")
			c.is(v1alpha1.TrafficRoutingPhaseProgressing, "one")
			end(c)
			c.is(v1alpha1.TrafficRoutingPhaseHealthy)
			c.asBefore()
		})
	}
}

// A TrafficRouting that is deleted in the middle sets its routes back at once, and releases go on. They use the next one of its name.
func TestATrafficRoutingIsDeletedInTheMiddle(t *testing.T) {
	t.Parallel()
	c := newChain(t, sharedGate)
	for _, name := range []string{"one", "two"} {
		c.image(name, "v2")
		c.waits(name)
	}
	c.is(v1alpha1.TrafficRoutingPhaseProgressing, "one", "two")
	c.delete(&v1alpha1.TrafficRouting{}, "gate")
	c.Eventually("it is gone", func(ctx context.Context) error {
		if err := c.get(ctx, "gate", &v1alpha1.TrafficRouting{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
	c.asBefore()
	c.approve("one")
	c.ends("one", "True")
	c.Apply(sharedGate)
	c.is(v1alpha1.TrafficRoutingPhaseProgressing, "two")
	c.approve("two")
	c.ends("two", "True")
	c.is(v1alpha1.TrafficRoutingPhaseHealthy)
	c.asBefore()
}

// A release waits for a TrafficRouting that is not there, and says so. It can be canceled, and goes on when the TrafficRouting comes.
func TestAReleaseWaitsForATrafficRouting(t *testing.T) {
	t.Parallel()
	c := newChain(t, "")
	for _, name := range []string{"one", "two"} {
		c.image(name, "v2")
		c.rollout(name, "it says what it waits for", func(o *v1beta1.Rollout) bool {
			stalled := condition(o, v1beta1.RolloutConditionStalled)
			return stalled.Status == "True" && stalled.Reason == v1beta1.ReasonNotRouted && strings.Contains(o.Status.Message, "there is no TrafficRouting gate")
		})
	}
	c.image("one", "v1")
	c.ends("one", "False")
	c.Apply(sharedGate)
	c.waits("two")
	c.is(v1alpha1.TrafficRoutingPhaseProgressing, "two")
	c.approve("two")
	c.ends("two", "True")
	c.is(v1alpha1.TrafficRoutingPhaseHealthy)
	c.asBefore()
}

// Only a Rollout of the same namespace that names a TrafficRouting, and has a release, can use it. Other finalizers of that form go.
func TestNobodyElseUsesATrafficRouting(t *testing.T) {
	t.Parallel()
	other, c := newChain(t, sharedGate), newChain(t, sharedGate)
	c.is(v1alpha1.TrafficRoutingPhaseHealthy)
	elsewhere := &v1beta1.Rollout{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere", Namespace: other.Name}}
	one := &v1beta1.Rollout{}
	if err := other.get(t.Context(), "one", one); err != nil {
		t.Fatal(err)
	}
	elsewhere.Spec = *one.Spec.DeepCopy()
	elsewhere.Spec.WorkloadRef.Name = "elsewhere"
	if err := other.Client.Create(t.Context(), elsewhere); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ghost", "elsewhere", "one"} { // no Rollout, one of another namespace, one at rest
		c.patch(&v1alpha1.TrafficRouting{}, "gate", `[{"op":"add","path":"/metadata/finalizers/-","value":"`+shared.FinalizerInUse+name+`"}]`)
		c.is(v1alpha1.TrafficRoutingPhaseHealthy)
	}
	c.asBefore()
	// A gateway that refuses the route is told of, and a gate that nginx cannot be is refused.
	c.gate.Behave(false, "NotAllowed")
	c.image("one", "v2")
	c.Eventually("the TrafficRouting is stalled", func(ctx context.Context) error {
		o := &v1alpha1.TrafficRouting{}
		if err := c.get(ctx, "gate", o); err != nil || !strings.Contains(o.Status.Message, "NotAllowed") {
			return fmt.Errorf("it is %+v: %w", o.Status, err)
		}
		return nil
	})
	c.gate.Behave(false, "")
	c.is(v1alpha1.TrafficRoutingPhaseProgressing, "one")
	refused := &v1alpha1.TrafficRouting{ObjectMeta: metav1.ObjectMeta{Name: "nginx", Namespace: c.Name}}
	refused.Spec.ObjectRef = []v1beta1.TrafficRoutingRef{{Service: "gate", Ingress: &v1beta1.IngressTrafficRouting{Name: "gate"}}}
	refused.Spec.Strategy.Matches = []v1alpha1.HTTPRouteMatch{{Headers: []v1beta1.HTTPNamedMatch{{Name: "user", Value: "a"}}}}
	if err := c.Client.Create(t.Context(), refused); err == nil || !strings.Contains(err.Error(), "route only between two Services") {
		t.Errorf("nginx and one Service: %v", err)
	}
}
