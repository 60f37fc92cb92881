// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kruise-operator/kruise-operator/internal/platform/metrics"
)

// OpenKruise's Lease has its own namespace, wherever the operator runs.
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=kruise-manager,verbs=get;delete
// For counting, once, objects without a controller.
// +kubebuilder:rbac:groups=apps.kruise.io,resources=advancedcronjobs;broadcastjobs;clonesets;containerrecreaterequests;daemonsets;ephemeraljobs;imagelistpulljobs;imagepulljobs;persistentpodstates;podprobemarkers;resourcedistributions;sidecarsets;statefulsets;uniteddeployments;workloadspreads,verbs=list
// +kubebuilder:rbac:groups=policy.kruise.io,resources=podunavailablebudgets,verbs=list

// Reason says why reconcilers wait. It is a label of the metric kruise_takeover_waiting.
type Reason string

// The reasons.
const (
	// Acting: nothing is waited for.
	Acting Reason = ""
	// LeaseUnknown: OpenKruise's Lease could not be read yet.
	LeaseUnknown Reason = "LeaseUnknown"
	// OpenKruiseRuns: OpenKruise renews its Lease.
	OpenKruiseRuns Reason = "OpenKruiseRuns"
	// UnservedKinds: OpenKruise has stopped, and objects would have no controller.
	UnservedKinds Reason = "UnservedKinds"
)

// State is the answer of the guard.
type State struct {
	// Reason is why reconcilers wait, or Acting.
	Reason Reason
	// Message is for people, with the next step. It stays the same as long as nothing changes.
	Message string
}

const (
	// attempt is the deadline of one check.
	attempt = 10 * time.Second
	// refusedEvery is how often a refused takeover counts again.
	refusedEvery = 30 * time.Second
	// again requeues a waiting pass, so it begins with a whole deadline.
	again = time.Millisecond
)

// Options are for NewGuard.
type Options struct {
	// Reader reads past any cache; Writer deletes the expired Lease.
	Reader client.Reader
	Writer client.Writer
	// Mapper knows the served kinds.
	Mapper meta.RESTMapper
	// Served are the kinds of this operator.
	Served []string
	// AcceptUnserved takes over although objects of other kinds exist.
	AcceptUnserved bool
	// Changed is called when the state has changed.
	Changed func()

	Metrics *metrics.Metrics
	Clock   clock.WithTicker
	Log     logr.Logger
}

// Guard lets reconcilers act only when nobody else does. OpenKruise's Lease opens and closes it. Its only write
// is to delete an expired Lease, once. Every replica has one, so a standby knows already.
//
// Passes under way when it closes are finished: at most one for each worker.
type Guard struct {
	options  Options
	observer LeaseObserver
	// counted is when objects of other kinds were last counted.
	counted time.Time

	mutex sync.Mutex
	state State
	// changed is closed, and replaced, when the state changes.
	changed chan struct{}
}

// NewGuard returns a closed guard.
func NewGuard(o Options) *Guard {
	g := &Guard{
		options: o,
		state:   State{Reason: LeaseUnknown, Message: "OpenKruise's Lease has not been read yet"},
		changed: make(chan struct{}),
	}
	g.measure(g.state.Reason)
	return g
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica checks.
func (g *Guard) NeedLeaderElection() bool { return false }

// Start reads the Lease again and again until ctx is done.
func (g *Guard) Start(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-g.options.Clock.After(g.check(ctx)):
		}
	}
}

// State is the present state.
func (g *Guard) State() State {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	return g.state
}

// Reconciler lets passes wait until this operator acts.
func (g *Guard) Reconciler(next reconcile.Reconciler) reconcile.Reconciler {
	return g.guarded(next, Acting)
}

// Registrar makes the registrar of hooks wait for OpenKruise alone. Objects without a controller must not cost
// new pods their sidecars.
func (g *Guard) Registrar(next reconcile.Reconciler) reconcile.Reconciler {
	return g.guarded(next, Acting, UnservedKinds)
}

// guarded passes in some states only. A waiting pass holds just its worker: the queue keeps one entry per object.
func (g *Guard) guarded(next reconcile.Reconciler, in ...Reason) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		g.mutex.Lock()
		reason, changed := g.state.Reason, g.changed
		g.mutex.Unlock()
		if slices.Contains(in, reason) {
			return next.Reconcile(ctx, request)
		}
		select {
		case <-changed:
		case <-ctx.Done(): // the pass has used up its time, or the manager stops
		}
		return reconcile.Result{RequeueAfter: again}, nil
	})
}

// check reads the Lease once and returns when to read it again.
func (g *Guard) check(ctx context.Context) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	lease, err := ReadLease(ctx, g.options.Reader, Lease())
	if err != nil {
		// An API server without an answer takes no writes either: the state stays.
		if g.State().Reason == LeaseUnknown {
			g.set(State{Reason: LeaseUnknown, Message: fmt.Sprintf("OpenKruise's Lease %s cannot be read, so it is not known whether it acts: %v", Lease(), err)})
		}
		return presentEvery
	}
	switch g.observer.Observe(lease, g.options.Clock.Now()) {
	case NoLease:
		g.set(State{})
	case Renewed:
		g.counted = time.Time{}
		g.set(State{Reason: OpenKruiseRuns, Message: fmt.Sprintf(
			"OpenKruise acts in this cluster: %s renews Lease %s. This operator begins by itself when that ends; `kruise-preflight` says how", g.observer.Holder(), Lease())})
	case Expired:
		g.takeOver(ctx, lease)
	case Unknown:
	}
	return g.observer.Next()
}

// takeOver opens the guard, unless objects would lose their controller. An open guard stays open.
func (g *Guard) takeOver(ctx context.Context, lease *coordinationv1.Lease) {
	now := g.options.Clock.Now()
	if g.State().Reason != Acting && !g.options.AcceptUnserved {
		if !g.counted.IsZero() && now.Sub(g.counted) < refusedEvery {
			return
		}
		orphans, err := g.orphans(ctx)
		if err != nil {
			g.set(State{Reason: UnservedKinds, Message: "OpenKruise has stopped, and it is not known what no controller would manage: " + err.Error()})
			return
		}
		g.counted = now
		if orphans != "" {
			g.set(State{Reason: UnservedKinds, Message: fmt.Sprintf(
				"OpenKruise has stopped, and no controller would manage %s. Delete these objects, or start with --accept-unserved-kinds; `kruise-preflight` says what each of them loses", orphans)})
			return
		}
	}
	g.set(State{})
	err := g.options.Writer.Delete(ctx, lease, client.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion})
	switch {
	case err == nil:
		g.options.Log.Info("Took over from OpenKruise", "lease", Lease().String(), "holder", g.observer.Holder())
	case !apierrors.IsNotFound(err) && !apierrors.IsConflict(err):
		g.options.Log.V(1).Info("The expired lease stays", "lease", Lease().String(), "err", err.Error())
	}
}

// orphans names the kinds with objects and no controller.
func (g *Guard) orphans(ctx context.Context) (string, error) {
	var found []string
	for _, kind := range Unserved(g.options.Served) {
		n, err := Count(ctx, g.options.Reader, g.options.Mapper, kind.GroupKind, "")
		if err != nil {
			return "", fmt.Errorf("counting %s: %w", kind.Resource, err)
		}
		if n > 0 {
			found = append(found, fmt.Sprintf("%d %s", n, kind.Resource))
		}
	}
	return strings.Join(found, ", "), nil
}

// Count counts the objects of a kind in the first readable version; "" is the one preferred by the server.
func Count(ctx context.Context, reader client.Reader, mapper meta.RESTMapper, kind schema.GroupKind, versions ...string) (int64, error) {
	var failed error
	for _, version := range versions {
		mapping, err := mapper.RESTMapping(kind, version)
		if err == nil {
			list := &metav1.PartialObjectMetadataList{}
			list.SetGroupVersionKind(mapping.GroupVersionKind.GroupVersion().WithKind(kind.Kind + "List"))
			if err = reader.List(ctx, list, client.Limit(1)); err == nil {
				return int64(len(list.Items)) + ptr.Deref(list.RemainingItemCount, 0), nil
			}
			if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) { // the kind has just gone
				return 0, nil
			}
		}
		if !meta.IsNoMatchError(err) {
			failed = err
		}
	}
	return 0, failed
}

// set makes a state the present one: reconcilers go or wait.
func (g *Guard) set(state State) {
	g.mutex.Lock()
	before := g.state
	g.state = state
	if state != before {
		close(g.changed)
		g.changed = make(chan struct{})
	}
	g.mutex.Unlock()
	if state == before {
		return
	}
	g.options.Changed()
	g.measure(state.Reason)
	if state.Reason == Acting {
		g.options.Log.V(1).Info("Acting: nobody else manages the workloads", "before", cmp.Or(before.Reason, "Acting"))
		return
	}
	g.options.Log.Info("Not acting", "reason", string(state.Reason), "message", state.Message)
}

func (g *Guard) measure(reason Reason) {
	for _, known := range []Reason{LeaseUnknown, OpenKruiseRuns, UnservedKinds} {
		value := 0.0
		if known == reason {
			value = 1
		}
		g.options.Metrics.TakeoverWaiting.WithLabelValues(string(known)).Set(value)
	}
}

// ReadLease reads a Lease; nil when there is none.
func ReadLease(ctx context.Context, reader client.Reader, name client.ObjectKey) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{}
	if err := reader.Get(ctx, name, lease); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return lease, nil
}
