// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package traffic_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/gateway"
)

// shop answers behind the gateway at HOST. Its pods go on serving for a while after they are told to end, as any proxy needs it.
const shop = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gate}
spec:
  gatewayClassName: traefik
  listeners: [{name: web, port: PORT, protocol: HTTP}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: shop}
spec:
  parentRefs: [{name: gate}]
  hostnames: [HOST]
  rules:
  - backendRefs: [{name: shop, port: 80}]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: shop}
spec:
  ingressClassName: nginx
  rules: [{host: nginx.HOST, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: shop, port: {number: 80}}}}]}}]
---
apiVersion: v1
kind: Service
metadata: {name: shop}
spec:
  selector: {app: shop}
  ports: [{port: 80, targetPort: 3000}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  replicas: REPLICAS
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      terminationGracePeriodSeconds: 20
      containers:
      - name: main
        image: openkruise/guestbook:v1
        args: [-drain-delay=8s]
        resources: {requests: {cpu: 20m, memory: 16Mi}}
        readinessProbe: {periodSeconds: 1, httpGet: {path: /healthz, port: 3000}}
`

const rollout = `
apiVersion: rollouts.kruise.io/v1beta1
kind: Rollout
metadata: {name: shop}
spec:
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: shop}
  strategy:
    canary:
      enableExtraWorkloadForCanary: EXTRA
      trafficRoutings: [{service: shop, ROUTING}]
      steps: STEPS
`

const (
	byRoute   = "gateway: {httpRouteName: shop}"
	byIngress = "ingress: {name: shop, classType: nginx}"
)

// released is a shop with a visitor.
type released struct {
	*environment.Namespace
	t       *testing.T
	visitor *visitor
	before  map[string]any
	mutex   sync.Mutex
	states  []state
}

// state is one that the Rollout was seen in.
type state struct {
	at   time.Time
	text string
}

// open has the shop answer, and sends requests until the test ends. Then none has failed.
func open(t *testing.T, replicas int, host string) *released {
	t.Helper()
	n, port := onGateway(t)
	r := &released{Namespace: n, t: t}
	name := n.Name + ".example.com"
	n.Apply(strings.NewReplacer("PORT", fmt.Sprint(port), "HOST", name, "REPLICAS", fmt.Sprint(replicas)).Replace(shop))
	r.visitor = newVisitor(port, host+name)
	n.EventuallyWithin(2*time.Minute, "the shop answers", func(ctx context.Context) error {
		_, err := r.visitor.version(ctx, "")
		return err
	})
	r.before = r.network()
	stop := r.visitor.keepAsking(t)
	t.Cleanup(func() { r.lost(stop()) })
	r.follow()
	return r
}

// follow notes the states of the Rollout, to tell when a request was lost.
func (r *released) follow() {
	watcher, err := r.Client.Watch(r.t.Context(), &v1beta1.RolloutList{}, client.InNamespace(r.Name))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(watcher.Stop)
	go func() {
		for event := range watcher.ResultChan() {
			o, is := event.Object.(*v1beta1.Rollout)
			if !is || o.Status.CanaryStatus == nil {
				continue
			}
			sub := o.Status.CanaryStatus
			text := fmt.Sprintf("%s, step %d %s %s: %s", o.Status.Phase, sub.CurrentStepIndex, sub.CurrentStepState, sub.FinalisingStep, o.Status.Message)
			r.mutex.Lock()
			r.states = append(r.states, state{time.Now(), text})
			r.mutex.Unlock()
		}
	}()
}

// lost reports failed requests, and what the Rollout did then.
func (r *released) lost(answers []answer) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	failed, slowest := 0, time.Duration(0)
	versions := map[string]int{}
	for _, a := range answers {
		slowest = max(slowest, a.took)
		if versions[a.version]++; a.err == nil {
			continue
		}
		if failed++; failed <= 20 {
			r.t.Errorf("the request of %s failed after %s: %v", a.sent.Format("15:04:05.000"), a.took, a.err)
		}
	}
	if failed > 0 {
		for _, s := range r.states {
			r.t.Logf("%s %s", s.at.Format("15:04:05.000"), s.text)
		}
	}
	r.t.Logf("measured: %d requests %v, %d failed, the slowest took %s", len(answers), versions, failed, slowest.Round(time.Millisecond))
}

// rolls has a Rollout with these steps in front of the next release.
func (r *released) rolls(extra bool, routing, steps string) {
	r.t.Helper()
	r.Apply(strings.NewReplacer("EXTRA", fmt.Sprint(extra), "ROUTING", routing, "STEPS", steps).Replace(rollout))
	r.until("it is guarded", func(o *v1beta1.Rollout) bool {
		return o.Status.Phase == v1beta1.RolloutPhaseHealthy && condition(o, v1beta1.RolloutConditionGuarded) == "True"
	})
}

func condition(o *v1beta1.Rollout, kind string) string {
	for _, c := range o.Status.Conditions {
		if c.Type == kind {
			return string(c.Status)
		}
	}
	return ""
}

func (r *released) until(what string, is func(*v1beta1.Rollout) bool) {
	r.t.Helper()
	r.EventuallyWithin(3*time.Minute, "the Rollout: "+what, func(ctx context.Context) error {
		o := &v1beta1.Rollout{}
		if err := r.Client.Get(ctx, types.NamespacedName{Namespace: r.Name, Name: "shop"}, o); err != nil {
			return err
		}
		if !is(o) {
			return fmt.Errorf("its status is %+v %+v", o.Status, o.Status.CanaryStatus)
		}
		return nil
	})
}

// waits until a step waits for somebody.
func (r *released) waits(step int32) {
	r.t.Helper()
	r.until(fmt.Sprintf("step %d waits", step), func(o *v1beta1.Rollout) bool {
		sub := o.Status.CanaryStatus
		return sub != nil && sub.CurrentStepIndex == step && sub.CurrentStepState == v1beta1.CanaryStepStatePaused
	})
}

func (r *released) approve() {
	r.t.Helper()
	o := &v1beta1.Rollout{}
	o.Namespace, o.Name = r.Name, "shop"
	patch := client.RawPatch(types.MergePatchType, []byte(`{"status":{"canaryStatus":{"currentStepState":"StepReady"}}}`))
	if err := r.Client.Status().Patch(r.t.Context(), o, patch); err != nil {
		r.t.Fatal(err)
	}
}

// image changes the template.
func (r *released) image(version string) {
	r.t.Helper()
	r.patch(&appsv1.Deployment{}, `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"openkruise/guestbook:`+version+`"}]}}}}`)
}

func (r *released) patch(object client.Object, patch string) {
	r.t.Helper()
	object.SetNamespace(r.Name)
	object.SetName("shop")
	kind := types.StrategicMergePatchType
	if _, ours := object.(*v1beta1.Rollout); ours {
		kind = types.MergePatchType
	}
	if err := r.Client.Patch(r.t.Context(), object, client.RawPatch(kind, []byte(patch))); err != nil {
		r.t.Fatal(err)
	}
}

// share waits until the gateway sends about so many percent of the requests to a version, and then counts 5000.
func (r *released) share(version string, want float64) {
	r.t.Helper()
	began := time.Now()
	r.gets("about the share", 200, "", version, want, 10)
	late := time.Since(began)
	shares, err := r.visitor.shares(r.t.Context(), 5000, "")
	if got := shares[version]; err != nil || got < want-3 || got > want+3 {
		r.t.Errorf("of 5000 requests %s got %.2f %%, want %.0f ± 3: %v", version, got, want, err)
	}
	r.t.Logf("measured: of 5000 requests %s got %.2f %% where the route says %.0f; the gateway followed %s after the step", version, shares[version], want, late.Round(10*time.Millisecond))
}

// all waits until all requests with a header get a version, and then asks a thousand times.
func (r *released) all(header, version string) {
	r.t.Helper()
	r.gets("all requests with header "+header, 50, header, version, 100, 0.1)
	shares, err := r.visitor.shares(r.t.Context(), 1000, header)
	if err != nil || len(shares) != 1 || shares[version] < 99.9 {
		r.t.Errorf("requests with the header %q got %v, want %s: %v", header, shares, version, err)
	}
}

func (r *released) gets(what string, count int, header, version string, want, within float64) {
	r.t.Helper()
	r.Eventually(what, func(ctx context.Context) error {
		shares, err := r.visitor.shares(ctx, count, header)
		if got := shares[version]; err == nil && (got < want-within || got > want+within) {
			err = fmt.Errorf("%s got %.1f %%, want %.0f", version, got, want)
		}
		return err
	})
}

// rests until nothing of a release is left, and the Deployment has only pods of a version.
func (r *released) rests(version string) {
	r.t.Helper()
	r.EventuallyWithin(3*time.Minute, "everything is "+version+", and nothing of a release is left", func(ctx context.Context) error {
		var pods corev1.PodList
		var sets appsv1.DeploymentList
		var services corev1.ServiceList
		for _, list := range []client.ObjectList{&pods, &sets, &services} {
			if err := r.Client.List(ctx, list, client.InNamespace(r.Name)); err != nil {
				return err
			}
		}
		for i := range pods.Items {
			if image := pods.Items[i].Spec.Containers[0].Image; image != "openkruise/guestbook:"+version || !environment.IsReady(&pods.Items[i]) {
				return fmt.Errorf("pod %s has %s, %s", pods.Items[i].Name, image, pods.Items[i].Status.Phase)
			}
		}
		if len(sets.Items) != 1 || len(services.Items) != 1 || len(pods.Items) != int(*sets.Items[0].Spec.Replicas) || sets.Items[0].Spec.Paused {
			return fmt.Errorf("there are %d Deployments, %d Services and %d pods", len(sets.Items), len(services.Items), len(pods.Items))
		}
		if diff := cmp.Diff(r.before, r.network()); diff != "" {
			return fmt.Errorf("Service and routes are others than before: %s", diff)
		}
		return nil
	})
	if shares, err := r.visitor.shares(r.t.Context(), 100, ""); err != nil || shares[version] < 99.9 {
		r.t.Errorf("the answers are of %v, want %s: %v", shares, version, err)
	}
}

// network is what the user has written of the Service and the routes, and how many there are.
func (r *released) network() map[string]any {
	all := map[string]any{}
	for _, kind := range []schema.GroupVersionKind{
		gateway.Kind, networkingv1.SchemeGroupVersion.WithKind("Ingress"), corev1.SchemeGroupVersion.WithKind("Service"),
	} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		if err := r.Client.List(r.t.Context(), list, client.InNamespace(r.Name)); err != nil {
			r.t.Fatal(err)
		}
		for i := range list.Items {
			o := &list.Items[i]
			all[kind.Kind+" "+o.GetName()] = map[string]any{"spec": o.Object["spec"], "labels": o.GetLabels(), "annotations": o.GetAnnotations()}
		}
	}
	return all
}

func (r *released) object() *v1beta1.Rollout {
	return &v1beta1.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: r.Name, Name: "shop"}}
}

// ends deletes the Rollout, if it is there, and waits until it is gone.
func (r *released) ends() {
	r.t.Helper()
	if err := client.IgnoreNotFound(r.Client.Delete(r.t.Context(), r.object())); err != nil {
		r.t.Fatal(err)
	}
	r.Eventually("the Rollout is gone", func(ctx context.Context) error {
		if err := r.Client.Get(ctx, client.ObjectKeyFromObject(r.object()), r.object()); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
}
