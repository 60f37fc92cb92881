// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package operatorconfig

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	libhandler "github.com/operator-framework/operator-lib/handler"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/retry"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	operatorv1alpha1 "github.com/kruise-operator/kruise-operator/api/operator/v1alpha1"
	"github.com/kruise-operator/kruise-operator/internal/kube/cache"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
)

// Name is the controller's name.
const Name = "operatorconfig-controller"

const (
	// syncing is when to look again at kinds whose objects are being read.
	syncing = 500 * time.Millisecond
	// working is when to look again at work that an upgrade should not cut off.
	working = 5 * time.Second
	// missing is when to look again for a CRD that was not there.
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

	mu sync.Mutex
	// wanted, generation and appeared are what was wanted last, and since when.
	since      time.Time
	wanted     string
	generation int64
	appeared   string
	// busy is the work that was under way last.
	busy Work
	// deployed is when the operands were last applied, and for which generation.
	deployed    time.Time
	deployedFor int64
	// daemonRecheck is when to look at the node daemon again; zero: when something changes.
	daemonRecheck time.Duration
	// looked is when it was last asked of every reported replica whether it still exists.
	looked time.Time
	// restarting is set once Restart has been called.
	restarting bool
}

// Cache adds to what the manager's cache keeps: of Kruise objects the one that counts.
func Cache(options ctrlcache.Options) ctrlcache.Options {
	if options.ByObject == nil {
		options.ByObject = map[client.Object]ctrlcache.ByObject{}
	}
	options.ByObject[&operatorv1alpha1.Kruise{}] = ctrlcache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", operatorv1alpha1.KruiseName)}
	return options
}

// New returns a Reconciler that watches nothing yet.
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
	if err := r.watchWithoutObjects(c); err != nil {
		return err
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

// enqueue asks for a pass at the start, when this replica becomes the leader, and when there may be work that an upgrade should not cut off.
func (r *Reconciler) enqueue(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	request := reconcile.Request{NamespacedName: client.ObjectKey{Name: operatorv1alpha1.KruiseName}}
	queue.Add(request)
	go func() {
		elected := r.Elected
		for {
			select {
			case <-ctx.Done():
				return
			case <-elected:
				elected = nil // it stays closed
			case <-r.WorkChanged:
			}
			queue.Add(request)
		}
	}()
	return nil
}

// Reconcile takes the operator a step closer to running as the object says.
func (r *Reconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.restarting {
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
	view, err := r.view(ctx, object, merged.Config.Hash(), leads)
	if err != nil {
		return ctrl.Result{}, err
	}
	step := Plan(view)

	upgrade := UpgradeDuring(r.work(), r.Clock.Now())
	var failures []string
	if leads {
		failures = r.lead(ctx, object, upgrade)
	}
	statusErr := r.report(ctx, object, merged, step, failures, leads, upgrade)
	if apierrors.IsConflict(statusErr) {
		return ctrl.Result{RequeueAfter: 100 * time.Millisecond}, nil
	}
	if step.Restart {
		again, err := r.restart(ctx, view, object != nil)
		if err := errors.Join(statusErr, err); err != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{RequeueAfter: again}, nil
	}
	if len(failures) > 0 {
		statusErr = errors.Join(statusErr, errors.New(strings.Join(failures, "; ")))
	}
	if statusErr != nil {
		if ctx.Err() != nil {
			return ctrl.Result{}, nil // The process ends; whoever leads next looks again.
		}
		return ctrl.Result{}, statusErr
	}
	return ctrl.Result{RequeueAfter: earliest(step.Recheck, upgrade.Recheck, r.recheck(leads))}, nil
}

// recheck is when to look again at what makes no event; 0 for not at all.
func (r *Reconciler) recheck(leads bool) time.Duration {
	var recheck time.Duration
	if leads && r.busy.Reason != "" {
		recheck = earliest(recheck, working)
	}
	if leads && (r.Operands != nil || r.HookFaults != nil) {
		recheck = earliest(recheck, lookAgain)
	}
	if r.Appeared != nil {
		recheck = earliest(recheck, missing)
	}
	if leads {
		recheck = earliest(recheck, r.kindsRecheck(), r.daemonRecheck)
	}
	return recheck
}

// lead does what only the leader does, and returns what could not be done.
func (r *Reconciler) lead(ctx context.Context, object *operatorv1alpha1.Kruise, upgrade Upgrade) (failures []string) {
	failed := func(err error) {
		if err != nil && !apierrors.IsConflict(err) {
			failures = append(failures, err.Error())
		}
	}
	if r.KeepWebhooks != nil {
		failed(r.KeepWebhooks(ctx, resourcesOf(r.Flags.Table, r.disabled())))
	}
	failed(r.reportUpgradeable(ctx, upgrade))
	failed(r.deploy(ctx, object))
	if r.Acts != nil && !r.Acts() {
		r.daemonRecheck = 0 // WorkChanged tells when that ends
		return failures
	}
	if r.HookFaults != nil {
		failures = append(failures, r.HookFaults()...)
	}
	if r.NodeDaemon != nil {
		var err error
		r.daemonRecheck, err = r.NodeDaemon.Settle(ctx, object)
		failed(err)
	}
	return failures
}

// deploy applies what the operator deploys for itself, when the object has changed and from time to time.
func (r *Reconciler) deploy(ctx context.Context, object *operatorv1alpha1.Kruise) error {
	if r.Operands == nil {
		return nil
	}
	generation, settings := int64(0), (*operatorv1alpha1.ManagerSettings)(nil)
	if spec := config.SpecOf(object); spec != nil {
		generation, settings = object.Generation, spec.Manager
	}
	now := r.Clock.Now()
	if !r.deployed.IsZero() && generation == r.deployedFor && now.Sub(r.deployed) < lookAgain {
		return nil
	}
	deployment, err := r.Operands.deployment(ctx)
	if err != nil {
		return err
	}
	err = r.Operands.Apply(ctx, deployment)
	if !r.UnderOLM {
		err = errors.Join(err, r.Operands.settle(ctx, deployment, settings))
	}
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

// leads says whether this replica is the leader.
func (r *Reconciler) leads() bool {
	select {
	case <-r.Elected:
		return true
	default:
		return false
	}
}

// view observes what decides about a restart.
func (r *Reconciler) view(ctx context.Context, object *operatorv1alpha1.Kruise, wanted string, leads bool) (View, error) {
	now := r.Clock.Now()
	generation := int64(0)
	if object != nil {
		generation = object.Generation
	}
	appeared := ""
	if r.Appeared != nil {
		var err error
		if appeared, err = r.Appeared(ctx); err != nil {
			return View{}, fmt.Errorf("looking for CRDs that were missing: %w", err)
		}
	}
	if appeared == "" {
		var err error
		if appeared, err = r.firstWithObjects(ctx); err != nil {
			return View{}, err
		}
	}
	if wanted != r.wanted || generation != r.generation || appeared != r.appeared {
		r.wanted, r.generation, r.appeared, r.since = wanted, generation, appeared, now
	}
	v := View{
		Now: now, Since: r.since, Self: r.Self, Leads: leads, Alone: r.Alone, Blind: object == nil,
		Running: r.Running, Wanted: wanted, Generation: generation, Appeared: appeared,
	}
	if object == nil {
		return v, nil
	}
	v.Replicas = object.Status.Replicas
	if !leads || r.Exists == nil {
		return v, nil
	}
	// Those that have followed hold nobody up, and are asked about from time to time: the status has room for some reports only.
	all := r.looked.IsZero() || now.Sub(r.looked) >= lookAgain
	for _, replica := range v.Replicas {
		if replica.Name == r.Self || replica.ObservedGeneration >= generation && !all {
			continue
		}
		exists, err := r.Exists(ctx, replica.Name)
		if err != nil {
			return v, err
		}
		if !exists {
			v.Gone = append(v.Gone, replica.Name)
		}
	}
	if all {
		r.looked = now
	}
	return v, nil
}

// restart ends the manager, unless the API server itself says that the cache was behind.
func (r *Reconciler) restart(ctx context.Context, view View, exists bool) (again time.Duration, err error) {
	if view.Appeared != "" {
		ctrl.LoggerFrom(ctx).Info("Restarting to take up a kind", "kind", view.Appeared, "leader", view.Leads)
		r.restarting = true
		r.Restart()
		return 0, nil
	}
	live, _, err := config.Load(ctx, r.Live)
	if err != nil {
		return 0, err
	}
	merged, err := config.Merge(r.Flags, r.Given, config.SpecOf(live))
	if err != nil {
		return 0, fmt.Errorf("merging the configuration: %w", err)
	}
	if hash := merged.Config.Hash(); hash != view.Wanted || exists != (live != nil) {
		return pollInterval, nil
	}
	ctrl.LoggerFrom(ctx).Info("Restarting to take over a change of the configuration", "running", r.Running, "wanted", view.Wanted, "leader", view.Leads)
	r.restarting = true
	r.Restart()
	return 0, nil
}

// report writes the status, if it changed.
func (r *Reconciler) report(ctx context.Context, object *operatorv1alpha1.Kruise, merged config.Merged, step Step, failures []string, leads bool, upgrade Upgrade) error {
	if object == nil || object.DeletionTimestamp != nil {
		return nil
	}
	facts := Facts{
		Now: r.Clock.Now(), Generation: object.Generation, Self: r.Self, Leads: leads, Running: r.Running, Step: step, Current: merged.Config.Hash() == r.Running,
		Faults: merged.Faults, Failures: failures, Gates: r.Gates, Versions: r.Versions, Upgrade: upgrade,
	}
	if facts.Current {
		facts.Faults = append(facts.Faults, r.Faults...)
	}
	for _, kind := range r.Kinds {
		facts.Kinds = append(facts.Kinds, ready(kind, r.denied()))
	}
	facts.Ignored, facts.IgnoredReason = r.ignored(object)
	if leads && (r.Acts == nil || r.Acts()) {
		facts.DaemonConflict = r.NodeDaemon.Conflict()
	}
	status := Status(object.Status, facts)
	if equality.Semantic.DeepEqual(object.Status, status) {
		return nil
	}
	next := object.DeepCopy()
	next.Status = status
	// Replicas write beside each other: a report must not bring back what another one has just replaced.
	patch := client.MergeFromWithOptions(object, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, next, patch); err != nil {
		return fmt.Errorf("writing the status: %w", client.IgnoreNotFound(err))
	}
	if message := newly(operatorv1alpha1.KruiseConfirmationRequired, object.Status, status); message != "" {
		r.Recorder.Eventf(object, nil, corev1.EventTypeWarning, "ConfirmationRequired", "Configure", "%s", short(message, longestNote))
	}
	if message := newly(operatorv1alpha1.KruiseNodeDaemonConflict, object.Status, status); message != "" {
		r.Recorder.Eventf(object, nil, corev1.EventTypeWarning, "NodeDaemonConflict", "Configure", "%s", short(message, longestNote))
	}
	return nil
}

// newly is the message of a condition that is present only while it is True, when the status before did not have that message; empty otherwise.
func newly(condition string, before, after operatorv1alpha1.KruiseStatus) string {
	said := meta.FindStatusCondition(before.Conditions, condition)
	says := meta.FindStatusCondition(after.Conditions, condition)
	if says == nil || said != nil && said.Message == says.Message {
		return ""
	}
	return says.Message
}

// Leave takes the report of a replica that ends out of the status, so that nobody waits for it.
func Leave(ctx context.Context, direct client.Client, self string) error {
	// Others write at the same time, above all in an upgrade.
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error { return leave(ctx, direct, self) })
}

func leave(ctx context.Context, direct client.Client, self string) error {
	object, _, err := config.Load(ctx, direct)
	if err != nil || object == nil {
		return err
	}
	next := object.DeepCopy()
	next.Status.Replicas = slices.DeleteFunc(next.Status.Replicas, func(r operatorv1alpha1.ReplicaStatus) bool { return r.Name == self })
	if len(next.Status.Replicas) == len(object.Status.Replicas) {
		return nil
	}
	if err := direct.Status().Patch(ctx, next, client.MergeFromWithOptions(object, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("taking the own report out of the status: %w", client.IgnoreNotFound(err))
	}
	return nil
}

// disabled are the kinds that are not managed.
func (r *Reconciler) disabled() sets.Set[string] {
	names := sets.New[string]()
	for _, kind := range r.Kinds {
		if !kind.Enabled {
			names.Insert(kind.Name)
		}
	}
	return names
}

// work is what an upgrade should not cut off, with the time since which it is under way.
func (r *Reconciler) work() Work {
	if r.Work == nil {
		return Work{}
	}
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

// earliest returns the shortest of the waits that are above zero.
func earliest(waits ...time.Duration) time.Duration {
	waits = slices.DeleteFunc(waits, func(d time.Duration) bool { return d <= 0 })
	if len(waits) == 0 {
		return 0
	}
	return slices.Min(waits)
}
