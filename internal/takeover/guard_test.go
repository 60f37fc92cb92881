// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kruise-operator/kruise-operator/internal/platform/metrics"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
)

// guarded is a guard with its simulation.
type guarded struct {
	*Guard
	client client.Client
	clock  *clocktesting.FakeClock
	// fail makes reads of the Lease fail, changes counts calls of Changed.
	fail    error
	changes int
}

func newGuarded(t *testing.T, accept bool, objects ...client.Object) *guarded {
	t.Helper()
	types, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	distributions := schema.GroupVersionKind{Group: "apps.kruise.io", Version: "v1beta1", Kind: "ResourceDistribution"}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{distributions.GroupVersion()})
	mapper.Add(distributions, meta.RESTScopeRoot)
	g := &guarded{clock: clocktesting.NewFakeClock(time.Unix(1_000_000_000, 0))}
	g.client = fake.NewClientBuilder().WithScheme(types).WithRESTMapper(mapper).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			if g.fail != nil {
				return g.fail
			}
			return c.Get(ctx, key, o, options...)
		},
	}).Build()
	g.Guard = NewGuard(Options{
		Reader: g.client, Writer: g.client, Mapper: mapper, Served: []string{"StatefulSet"}, AcceptUnserved: accept,
		Metrics: metrics.New(prometheus.NewRegistry()), Clock: g.clock, Log: logr.Discard(), Changed: func() { g.changes++ },
	})
	return g
}

// pass lets time go by in the guard's steps, and checks after each.
func (g *guarded) pass(t *testing.T, period time.Duration) {
	t.Helper()
	for end := g.clock.Now().Add(period); ; {
		wait := g.check(t.Context())
		if wait <= 0 {
			t.Fatalf("looks again after %s", wait)
		}
		if g.clock.Now().Add(wait).After(end) {
			return
		}
		g.clock.Step(wait)
	}
}

func (g *guarded) renew(t *testing.T, renewal int) {
	t.Helper()
	lease := &coordinationv1.Lease{}
	if err := g.client.Get(t.Context(), Lease(), lease); err != nil {
		t.Fatal(err)
	}
	lease.Spec = held(renewal).Spec
	if err := g.client.Update(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
}

func (g *guarded) want(t *testing.T, reason Reason) {
	t.Helper()
	if got := g.State(); got.Reason != reason {
		t.Fatalf("the guard says %q (%s), want %q", got.Reason, got.Message, reason)
	}
}

func lease(renewal int) client.Object {
	l := held(renewal)
	l.ResourceVersion = ""
	return l
}

func distribution() client.Object {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: "apps.kruise.io", Version: "v1beta1", Kind: "ResourceDistribution"})
	object.SetName("copies")
	return object
}

func TestGuardOpensAtOnceWithoutALease(t *testing.T) {
	g := newGuarded(t, false, distribution())
	g.want(t, LeaseUnknown)
	g.check(t.Context())
	g.want(t, Acting)
}

func TestGuardStaysClosedWhileItCannotLook(t *testing.T) {
	g := newGuarded(t, false)
	g.fail = errors.New("no answer")
	g.pass(t, time.Minute)
	g.want(t, LeaseUnknown)
	if !strings.Contains(g.State().Message, "no answer") {
		t.Errorf("it says %q", g.State().Message)
	}
	g.fail = nil
	g.check(t.Context())
	g.want(t, Acting)
	g.fail = errors.New("no answer")
	g.pass(t, time.Minute)
	g.want(t, Acting)
}

func TestGuardFollowsTheLease(t *testing.T) {
	g := newGuarded(t, false, lease(1))
	for renewal := range 20 {
		g.renew(t, 2+renewal)
		g.pass(t, 10*time.Second)
		g.want(t, OpenKruiseRuns)
	}
	g.pass(t, 20*time.Second)
	g.want(t, Acting)
	if err := g.client.Get(t.Context(), Lease(), &coordinationv1.Lease{}); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the lapsed lease is still there: %v", err)
	}
	// OpenKruise comes back.
	if err := g.client.Create(t.Context(), lease(50)); err != nil {
		t.Fatal(err)
	}
	g.pass(t, absentEvery)
	g.want(t, OpenKruiseRuns)
}

func TestGuardRefusesToOrphanObjects(t *testing.T) {
	g := newGuarded(t, false, lease(1), distribution())
	g.pass(t, 20*time.Second)
	g.want(t, UnservedKinds)
	if !strings.Contains(g.State().Message, "1 resourcedistributions") {
		t.Errorf("it says %q", g.State().Message)
	}
	if err := g.client.Get(t.Context(), Lease(), &coordinationv1.Lease{}); err != nil {
		t.Errorf("the lease of a takeover that is refused: %v", err)
	}
	if err := g.client.Delete(t.Context(), distribution()); err != nil {
		t.Fatal(err)
	}
	g.pass(t, refusedEvery+5*time.Second)
	g.want(t, Acting)
}

// Nothing injected into new pods, silently, for as long as objects without a controller held everything back.
func TestInjectionIsRegisteredWhileObjectsWithoutAControllerHoldTheRestBack(t *testing.T) {
	g := newGuarded(t, false, lease(1), distribution())
	var passed []string
	pass := func(name string) reconcile.Reconciler {
		return reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
			passed = append(passed, name)
			return reconcile.Result{}, nil
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	both := func() string {
		passed = nil
		for _, r := range []reconcile.Reconciler{g.Reconciler(pass("workloads")), g.Registrar(pass("injection"))} {
			if _, err := r.Reconcile(ctx, reconcile.Request{}); err != nil {
				t.Fatal(err)
			}
		}
		return strings.Join(passed, " ")
	}
	g.check(t.Context())
	g.want(t, OpenKruiseRuns)
	if got := both(); got != "" {
		t.Errorf("while OpenKruise runs, passes are made over %q", got)
	}
	g.pass(t, 20*time.Second)
	g.want(t, UnservedKinds)
	if got := both(); got != "injection" {
		t.Errorf("once its Lease has expired, passes are made over %q", got)
	}
}

func TestGuardOrphansObjectsWhenTold(t *testing.T) {
	g := newGuarded(t, true, lease(1), distribution())
	g.pass(t, 20*time.Second)
	g.want(t, Acting)
}

func TestGuardDoesNotDeleteALeaseThatIsTakenAgain(t *testing.T) {
	g := newGuarded(t, false, lease(1))
	stale := &coordinationv1.Lease{}
	if err := g.client.Get(t.Context(), Lease(), stale); err != nil {
		t.Fatal(err)
	}
	g.renew(t, 2)
	g.takeOver(t.Context(), stale)
	if err := g.client.Get(t.Context(), Lease(), &coordinationv1.Lease{}); err != nil {
		t.Errorf("the lease that somebody has just renewed: %v", err)
	}
}

func TestReconcilersWaitForTheGuard(t *testing.T) {
	g := newGuarded(t, false, lease(1))
	passes := 0
	r := g.Reconciler(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		passes++
		return reconcile.Result{}, nil
	}))
	// The pass ends with its deadline, and the object stays in the queue.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	result, err := r.Reconcile(ctx, reconcile.Request{})
	if err != nil || result.RequeueAfter <= 0 || passes != 0 {
		t.Fatalf("a closed guard gives %+v, %v, after %d passes", result, err, passes)
	}
	// A waiting pass is woken.
	woken := make(chan reconcile.Result)
	go func() {
		result, _ := r.Reconcile(t.Context(), reconcile.Request{})
		woken <- result
	}()
	g.pass(t, 20*time.Second)
	g.want(t, Acting)
	if result := <-woken; result.RequeueAfter <= 0 && passes == 0 {
		t.Fatalf("woken, it gives %+v", result)
	}
	passes = 0
	if result, err := r.Reconcile(t.Context(), reconcile.Request{}); err != nil || result.RequeueAfter != 0 || passes != 1 {
		t.Fatalf("an open guard gives %+v, %v, after %d passes", result, err, passes)
	}
}

func TestGuardReportsChangesOfItsState(t *testing.T) {
	g := newGuarded(t, false, lease(0))
	g.check(t.Context())
	g.want(t, OpenKruiseRuns)
	if g.changes != 1 {
		t.Errorf("the lease was found, told %d times", g.changes)
	}
	g.check(t.Context())
	if g.changes != 1 {
		t.Error("told although nothing has changed")
	}
	g.pass(t, maxValidity)
	g.want(t, Acting)
	if g.changes != 2 {
		t.Errorf("the lease has lapsed, told %d times", g.changes)
	}
}
