// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package trafficrouting

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kruise-operator/kruise-operator/api/rollouts/shared"
	"github.com/kruise-operator/kruise-operator/api/rollouts/v1alpha1"
	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/trafficrouting/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/routing"
	"github.com/kruise-operator/kruise-operator/internal/kube/routes"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
)

// cached is a cache with the objects of a client.
type cached struct {
	cache.Cache
	of client.Reader
}

func (c cached) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	return c.of.Get(ctx, key, object, options...)
}

// counted counts what is read of an API server.
type counted struct {
	client.Client
	gets *int
}

func (c counted) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	*c.gets++
	return c.Client.Get(ctx, key, object, options...)
}

// reading is a Reconciler that reads these objects. The cache lacks those of the server.
func reading(t *testing.T, server, cacheHas []client.Object) (*Reconciler, *int) {
	t.Helper()
	known, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	build := func(objects []client.Object) client.Client {
		return fake.NewClientBuilder().WithScheme(known).WithObjects(objects...).Build()
	}
	gets := new(int)
	live := counted{build(append(server, cacheHas...)), gets}
	r := &Reconciler{Base: workload.New(Name, plan.Kind(), workload.Dependencies{Client: live, Live: live, Cache: cached{of: build(cacheHas)}, Clock: clock.RealClock{}})}
	r.routes = routes.Reader{Objects: r.Writer}
	return r, gets
}

func naming(name, routing string) *v1beta1.Rollout {
	r := &v1beta1.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	r.Spec.Strategy.Canary = &v1beta1.CanaryStrategy{TrafficRoutingRef: routing}
	return r
}

// Who writes thousands of finalizers makes a pass ask for a few of them only, and all go in the end.
func TestUsers(t *testing.T) {
	r, gets := reading(t, []client.Object{naming("new", "gate")}, []client.Object{naming("a", "gate"), naming("b", "other")})
	o := &v1alpha1.TrafficRouting{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "gate"}}
	for _, name := range []string{"a", "b", "new"} {
		o.Finalizers = append(o.Finalizers, shared.FinalizerInUse+name)
	}
	for i := range 3 * mostLooks {
		o.Finalizers = append(o.Finalizers, fmt.Sprintf("%sghost-%d", shared.FinalizerInUse, i))
	}
	for left := 3*mostLooks - (mostLooks - 1); ; left -= mostLooks - 1 {
		*gets = 0
		users, err := r.users(t.Context(), o)
		if err != nil || *gets > mostLooks || !slices.Contains(users, "a") || !slices.Contains(users, "new") || slices.Contains(users, "b") {
			t.Fatalf("%d reads: %v, %v", *gets, users, err)
		}
		if len(users) != 2+max(0, left) {
			t.Fatalf("%d users, want %d ghosts", len(users), left)
		}
		if left <= 0 {
			return
		}
		o.Finalizers = plan.Plan(o, plan.Snapshot{Users: users}).Finalizers
	}
}

// A subset without a pod that is ready gets no requests.
func TestPodless(t *testing.T) {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}}}
	pod := func(name string, ready corev1.ConditionStatus, labels map[string]string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: labels}}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
		return p
	}
	gray := map[string]string{"app": "web", "istio.service.tag": "gray"}
	o := &v1alpha1.TrafficRouting{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "gate"}}
	o.Spec.ObjectRef = []v1beta1.TrafficRoutingRef{{Service: "web"}}
	rule := func(subsets ...any) []routes.Place {
		return []routes.Place{{Route: routing.Route{First: true}, Object: map[string]any{"spec": map[string]any{"subsets": subsets}}}}
	}
	own := map[string]any{"name": "canary", "labels": map[string]any{"version": "v2"}}
	for name, tc := range map[string]struct {
		objects []client.Object
		places  []routes.Place
		goal    traffic.Goal
		want    string
	}{
		"no DestinationRule":    {places: []routes.Place{{Object: map[string]any{}}}, goal: traffic.Route},
		"on the way back":       {places: rule(), goal: traffic.Return},
		"no Service":            {places: rule(), goal: traffic.Route, want: "there is no Service web"},
		"only old pods":         {[]client.Object{service, pod("old", "True", map[string]string{"app": "web"})}, rule(), traffic.Route, "is ready"},
		"a pod that starts":     {[]client.Object{service, pod("new", "False", gray)}, rule(), traffic.Route, "is ready"},
		"a pod that is ready":   {[]client.Object{service, pod("new", "True", gray)}, rule(), traffic.Route, ""},
		"the user's own subset": {[]client.Object{service, pod("new", "True", map[string]string{"app": "web", "version": "v2"})}, rule(own), traffic.Route, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := reading(t, tc.objects, nil)
			got, err := r.podless(t.Context(), o, tc.goal, tc.places)
			if err != nil || !strings.HasSuffix(got, tc.want) || (got == "") != (tc.want == "") {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}
