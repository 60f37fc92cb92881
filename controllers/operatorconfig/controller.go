// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package operatorconfig

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	libhandler "github.com/operator-framework/operator-lib/handler"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	operatorv1alpha1 "github.com/kruise-operator/kruise-operator/api/operator/v1alpha1"
	"github.com/kruise-operator/kruise-operator/internal/brief"
	"github.com/kruise-operator/kruise-operator/internal/kube/cache"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
)

// Name is the controller's name.
const Name = "operatorconfig-controller"

const (
	// syncing is the wait between looks at kinds still being read.
	syncing = 500 * time.Millisecond
	// working is the wait between looks at work an upgrade should not cut off.
	working = 5 * time.Second
	// missing is the wait between looks for a missing CRD.
	missing = 5 * time.Second
	// longestNote is how long the note of an event may be, in bytes: the API server's limit.
	longestNote = 1024
)

// +kubebuilder:rbac:groups=operator.kruise.io,resources=kruises,verbs=get;list;watch
// +kubebuilder:rbac:groups=operator.kruise.io,resources=kruises/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler makes the operator run as the Kruise object says.
type Reconciler struct {
	Dependencies

	// appeared is when a CRD missing at the start was seen; zero: never.
	appeared time.Time
	// replicas are as their pods showed them when they were last observed.
	replicas []Replica
	observed time.Time
	// moving: others have yet to take over a change.
	moving bool
	// kept: webhooks are those of the kinds.
	kept bool
	// announced is the role on the own pod.
	announced operatorv1alpha1.ReplicaRole
	// endsAt is when this replica ends, once it is its turn; ended: it does.
	endsAt time.Time
	ended  bool
	// busy is the last work seen.
	busy Work
	// deployed is the last apply of the operands, and its generation.
	deployed    time.Time
	deployedFor int64
	// daemonRecheck is when to look at the node daemon again; zero: when something changes.
	daemonRecheck time.Duration
}

// Cache limits the manager's cache to the one Kruise object.
func Cache(options ctrlcache.Options) ctrlcache.Options {
	if options.ByObject == nil {
		options.ByObject = map[client.Object]ctrlcache.ByObject{}
	}
	options.ByObject[&operatorv1alpha1.Kruise{}] = ctrlcache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", operatorv1alpha1.KruiseName)}
	return options
}

// New returns a Reconciler without watches.
func New(d Dependencies) *Reconciler { return &Reconciler{Dependencies: d} }

// SetupWithManager makes the manager run the reconciler on every replica.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	c, err := controller.New(Name, mgr, controller.Options{
		Reconciler:              r,
		MaxConcurrentReconciles: 1,
		NeedLeaderElection:      ptr.To(false),
		ReconciliationTimeout:   r.Flags.ReconcileTimeout,
	})
	if err != nil {
		return fmt.Errorf("creating the controller: %w", err)
	}
	if err := c.Watch(source.Func(r.enqueue)); err != nil {
		return fmt.Errorf("watching for the lease: %w", err)
	}
	if err := r.watchNeeds(c); err != nil {
		return err
	}
	if !r.Watch {
		return nil
	}
	if err := c.Watch(cache.Source(r.Cache, &operatorv1alpha1.Kruise{}, &libhandler.InstrumentedEnqueueRequestForObject[client.Object]{})); err != nil {
		return fmt.Errorf("watching the configuration: %w", err)
	}
	return nil
}

// request is the one for a pass.
func request() reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKey{Name: operatorv1alpha1.KruiseName}}
}

// enqueue asks for a pass at the start, on becoming the leader, and when there may be work an upgrade should not cut off.
func (r *Reconciler) enqueue(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	only := request()
	queue.Add(only)
	for _, changes := range []<-chan struct{}{r.WorkChanged, r.Elected} {
		go func() {
			for open := true; open; queue.Add(only) {
				select {
				case <-ctx.Done():
					return
				case _, open = <-changes: // Elected closes
				}
			}
		}()
	}
	return nil
}

// Reconcile takes the operator a step closer to running as the object says.
func (r *Reconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	if r.ended {
		return ctrl.Result{}, nil
	}
	object, err := r.read(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	merged, err := config.Merge(r.Flags, r.Given, config.SpecOf(object))
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("merging the configuration: %w", err)
	}
	if err := r.Levels.Set(merged.Config.LogLevel, Levels(&merged.Config, r.Kinds)); err != nil {
		return ctrl.Result{}, fmt.Errorf("setting the log levels: %w", err)
	}
	leads := r.leads()
	step, err := r.step(ctx, merged.Config.Hash(), leads)
	if err != nil {
		return ctrl.Result{}, err
	}
	upgrade := UpgradeDuring(r.work(), r.Clock.Now())
	var failures []string
	if leads {
		failures = r.lead(ctx, object, upgrade)
		err = r.report(ctx, object, merged, step, failures, upgrade)
	}
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: 100 * time.Millisecond}, nil
	}
	if !step.Current {
		return ctrl.Result{RequeueAfter: r.end(ctx, step.Wanted, leads, step.WaitsFor)}, err
	}
	r.stay()
	if len(failures) > 0 {
		err = errors.Join(err, errors.New(strings.Join(failures, "; ")))
	}
	if err != nil && ctx.Err() == nil { // else the process ends; whoever leads next looks again
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: workload.Earliest(upgrade.Recheck, r.recheck(leads))}, nil
}

// step says how far the replicas are with a configuration.
func (r *Reconciler) step(ctx context.Context, wanted string, leads bool) (Step, error) {
	step := Step{Wanted: wanted, Current: wanted == r.Running && r.appeared.IsZero()}
	if step.Current && r.Appeared != nil {
		kind, err := r.Appeared(ctx)
		if err != nil {
			return step, fmt.Errorf("looking for CRDs that were missing: %w", err)
		}
		if kind != "" {
			r.appeared, step.Current = r.Clock.Now(), false
		}
	}
	if err := r.announce(ctx, leads); err != nil {
		return step, err
	}
	if !step.Current || leads && (r.moving || r.Clock.Since(r.observed) >= restEvery) {
		if err := r.observe(ctx); err != nil {
			return step, err
		}
	}
	step.WaitsFor = ahead(r.replicas, r.Self, leads, step)
	r.moving = leads && len(step.WaitsFor) > 0
	return step, nil
}

// recheck is the wait before looking at state without events; 0: never.
func (r *Reconciler) recheck(leads bool) time.Duration {
	var waits []time.Duration
	if r.Appeared != nil {
		waits = append(waits, missing)
	}
	if leads {
		waits = append(waits, lookAgain, r.kindsRecheck(), r.daemonRecheck)
	}
	if leads && r.Pods != "" {
		waits = append(waits, restEvery) // replicas come and go
	}
	if leads && r.busy.Reason != "" {
		waits = append(waits, working)
	}
	if r.moving {
		waits = append(waits, poll)
	}
	return workload.Earliest(waits...)
}

// lead does the leader's part, and returns its failures.
func (r *Reconciler) lead(ctx context.Context, object *operatorv1alpha1.Kruise, upgrade Upgrade) (failures []string) {
	failed := func(err error) {
		if err != nil && !apierrors.IsConflict(err) {
			failures = append(failures, err.Error())
		}
	}
	if r.KeepWebhooks != nil && !r.kept {
		if err := r.KeepWebhooks(ctx); err != nil {
			failures = append(failures, err.Error()) // a conflict, too: it is tried again
		}
		r.kept = len(failures) == 0
	}
	failed(r.reportUpgradeable(ctx, upgrade))
	failed(r.deploy(ctx, object))
	if !r.Acts() {
		r.daemonRecheck = 0 // WorkChanged tells when that ends
		return failures
	}
	failures = append(failures, r.HookFaults()...)
	if r.NodeDaemon != nil {
		var err error
		r.daemonRecheck, err = r.NodeDaemon.Settle(ctx, object)
		failed(err)
	}
	return failures
}

// deploy applies the operands when the object has changed, and from time to time.
func (r *Reconciler) deploy(ctx context.Context, object *operatorv1alpha1.Kruise) error {
	if r.Operands == nil {
		return nil
	}
	generation := int64(0)
	if object != nil {
		generation = object.Generation
	}
	now := r.Clock.Now()
	if !r.deployed.IsZero() && generation == r.deployedFor && now.Sub(r.deployed) < lookAgain {
		return nil
	}
	err := r.Operands.Apply(ctx)
	if err == nil {
		r.deployed, r.deployedFor = now, generation
	}
	return err
}

// read returns the object as the cache has it; nil when there is none.
func (r *Reconciler) read(ctx context.Context) (*operatorv1alpha1.Kruise, error) {
	if !r.Watch {
		return nil, nil
	}
	object := &operatorv1alpha1.Kruise{}
	err := r.Client.Get(ctx, client.ObjectKey{Name: operatorv1alpha1.KruiseName}, object)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	return object, nil
}

func (r *Reconciler) leads() bool {
	select {
	case <-r.Elected:
		return true
	default:
		return false
	}
}

func (r *Reconciler) report(ctx context.Context, object *operatorv1alpha1.Kruise, merged config.Merged, step Step, failures []string, upgrade Upgrade) error {
	if object == nil || object.DeletionTimestamp != nil {
		return nil
	}
	facts := Facts{
		Now: r.Clock.Now(), Generation: object.Generation, Self: r.Self, Running: r.Running, Step: step, Replicas: r.replicas,
		Faults: merged.Faults, Failures: failures, Gates: r.Gates, Versions: r.Versions, Upgrade: upgrade, Ignored: Ignored(&object.Spec),
	}
	if step.Current {
		facts.Faults = append(facts.Faults, r.Faults...)
	}
	for _, kind := range r.Kinds {
		facts.Kinds = append(facts.Kinds, ready(kind, r.Denied()))
	}
	if r.Acts() {
		facts.DaemonConflict = r.NodeDaemon.Conflict()
	}
	status := Status(object.Status, facts)
	if equality.Semantic.DeepEqual(object.Status, status) {
		return nil
	}
	next := object.DeepCopy()
	next.Status = status
	// Replicas write beside each other: a report must not undo another's.
	patch := client.MergeFromWithOptions(object, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, next, patch); err != nil {
		return fmt.Errorf("writing the status: %w", client.IgnoreNotFound(err))
	}
	if message := newly(operatorv1alpha1.KruiseConfirmationRequired, object.Status, status); message != "" {
		r.Recorder.Eventf(object, nil, corev1.EventTypeWarning, "ConfirmationRequired", "Configure", "%s", brief.Text(message, longestNote))
	}
	if message := newly(operatorv1alpha1.KruiseNodeDaemonConflict, object.Status, status); message != "" {
		r.Recorder.Eventf(object, nil, corev1.EventTypeWarning, "NodeDaemonConflict", "Configure", "%s", brief.Text(message, longestNote))
	}
	return nil
}

// newly is a condition's message if it is True now and had another message before; empty otherwise.
func newly(condition string, before, after operatorv1alpha1.KruiseStatus) string {
	said := meta.FindStatusCondition(before.Conditions, condition)
	says := meta.FindStatusCondition(after.Conditions, condition)
	if says == nil || said != nil && said.Message == says.Message {
		return ""
	}
	return says.Message
}

// work is anything an upgrade should not cut off, and since when.
func (r *Reconciler) work() Work {
	now := r.Work()
	if now.Since.IsZero() {
		now.Since = r.busy.Since
		if now.Reason != r.busy.Reason {
			now.Since = r.Clock.Now()
		}
	}
	r.busy = now
	return now
}

// Levels are the log levels of controllers by their names.
func Levels(c *config.Config, kinds []Kind) map[string]string {
	levels := map[string]string{}
	for _, kind := range kinds {
		if level, ok := c.KindLogLevels[kind.Name]; ok {
			levels[kind.Controller] = level
		}
	}
	return levels
}
