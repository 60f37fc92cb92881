// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package statefulset

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/kube/executor"
	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
	"github.com/kruise-operator/kruise-operator/internal/kube/history"
	"github.com/kruise-operator/kruise-operator/internal/kube/ownership"
	"github.com/kruise-operator/kruise-operator/internal/kube/pacing"
	"github.com/kruise-operator/kruise-operator/internal/kube/statuspatch"
	"github.com/kruise-operator/kruise-operator/internal/platform/metrics"
)

const (
	// Name is the controller's name, and the reportingController of its events.
	Name = "statefulset-controller"

	// busy is when to come back when the set's namespace may not have another worker just now, or when its view has changed.
	busy = 100 * time.Millisecond
	// historyLimit is revisionHistoryLimit when it is omitted.
	historyLimit = 10
)

// Kind is the kind that is reconciled, in the version that is stored.
func Kind() schema.GroupVersionKind { return appsv1beta1.GroupVersion().WithKind("StatefulSet") }

// +kubebuilder:rbac:groups=apps.kruise.io,resources=statefulsets,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=statefulsets/status,verbs=patch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=statefulsets/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods/status;pods/resize,verbs=patch
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Dependencies are what the reconciler is made from.
type Dependencies struct {
	// Client writes, and reads the cache.
	Client client.Client
	// Cache is the cache behind Client; sets are read from it as they are stored.
	Cache cache.Cache
	// Live reads past the cache.
	Live client.Reader
	// Recorder takes events.
	Recorder events.EventRecorder
	// Metrics are the operator's.
	Metrics *metrics.Metrics
	// Pool is shared with the other controllers of the manager.
	Pool *executor.Pool
	// Clock is the time.
	Clock clock.PassiveClock
	// Options are the feature gates.
	Options Options
	// Workers is how many sets are reconciled at the same time.
	Workers int
	// WriteTimeout and ReconcileTimeout are deadlines.
	WriteTimeout     time.Duration
	ReconcileTimeout time.Duration
}

// Reconciler reconciles StatefulSets.
type Reconciler struct {
	Dependencies

	tracker  *freshness.Tracker
	executor *executor.Executor
	history  *history.Store
	claimer  *ownership.Claimer
	status   *statuspatch.Writer
	pacer    *pacing.Pacer
	// templates remembers what the server said of templates.
	templates verdicts

	controller controller.Controller
	// claims guards the start of the claim watch; claimInformer is nil before.
	claims        sync.Mutex
	claimInformer cache.Informer
}

// New returns a Reconciler that watches nothing yet.
func New(d Dependencies) *Reconciler {
	tracker := freshness.New(freshness.Options{Live: d.Live, Clock: d.Clock, Timeout: d.WriteTimeout})
	return &Reconciler{
		Dependencies: d,
		tracker:      tracker,
		executor: executor.New(executor.Options{
			Kind: Kind().Kind, Client: d.Client, Live: d.Live, Tracker: tracker, Pool: d.Pool, Recorder: d.Recorder,
			Metrics: d.Metrics, Clock: d.Clock, WriteTimeout: d.WriteTimeout,
		}),
		history: &history.Store{Client: d.Client, Live: d.Live, Tracker: tracker, Timeout: d.WriteTimeout},
		claimer: &ownership.Claimer{Client: d.Client, Live: d.Live, Tracker: tracker, Timeout: d.WriteTimeout},
		status: &statuspatch.Writer{
			Client: d.Client, Tracker: tracker, Clock: d.Clock, Interval: statuspatch.DefaultInterval, Timeout: d.WriteTimeout,
		},
		pacer: pacing.New(d.Clock),
	}
}

// SetupWithManager makes the manager run the reconciler.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	var err error
	r.controller, err = controller.New(Name, mgr, controller.Options{
		Reconciler:              r,
		MaxConcurrentReconciles: r.Workers,
		ReconciliationTimeout:   r.ReconcileTimeout,
		EnableWarmup:            ptr.To(true),
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](50*time.Millisecond, time.Minute),
	})
	if err != nil {
		return fmt.Errorf("creating the controller: %w", err)
	}
	return r.watch(ctx)
}

// Reconcile takes one StatefulSet a step closer to its spec, when it is its turn and the view of it is complete.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	stored := &unstructured.Unstructured{}
	stored.SetGroupVersionKind(Kind())
	if err := r.Cache.Get(ctx, req.NamespacedName, stored); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(req.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if wait := r.pacer.WaitFor(req.NamespacedName, stored.GetGeneration()); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	leave, ok := r.Pool.Enter(Name, r.Workers, req.Namespace)
	if !ok {
		return ctrl.Result{RequeueAfter: busy}, nil
	}
	defer leave()

	wait, err := r.tracker.Ready(ctx, freshness.OwnerOf(stored))
	if wait > 0 {
		r.Metrics.StaleViews.WithLabelValues(Kind().Kind).Inc()
		if err != nil {
			ctrl.LoggerFrom(ctx).Info("Waiting: a write is in doubt", "err", err.Error())
		}
		return ctrl.Result{RequeueAfter: wait}, nil
	}

	set, err := decode(stored)
	if err != nil {
		return r.reportUndecodable(ctx, stored, err)
	}
	return r.pass(ctx, stored, set)
}

// decode reads a set as it is stored. The error names the field that does not fit.
func decode(stored *unstructured.Unstructured) (*appsv1beta1.StatefulSet, error) {
	set := &appsv1beta1.StatefulSet{}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(stored.Object, set)
	if err == nil {
		return set, nil
	}
	// The converter is the faster one, but only JSON says where.
	if body, marshalErr := json.Marshal(stored.Object); marshalErr == nil {
		err = cmp.Or(json.Unmarshal(body, &appsv1beta1.StatefulSet{}), err)
	}
	return nil, err
}

// pass is one pass over a set: observe, plan, apply, report.
func (r *Reconciler) pass(ctx context.Context, stored *unstructured.Unstructured, set *appsv1beta1.StatefulSet) (ctrl.Result, error) {
	began := r.Clock.Now()
	seen, err := r.observe(ctx, set)
	if errors.Is(err, errViewChanged) || errors.Is(err, errNotSynced) {
		return ctrl.Result{RequeueAfter: busy}, nil
	}
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return ctrl.Result{RequeueAfter: time.Second}, nil // the set goes with its namespace
	}
	if err != nil {
		return ctrl.Result{}, errors.Join(fmt.Errorf("observing: %w", err), r.reportRefused(ctx, stored, err))
	}
	var plan podset.Plan
	if set.DeletionTimestamp == nil {
		plan = Plan(set, seen.snapshot, r.Options)
	}
	cost := r.Clock.Since(began)

	// The status is written even when some action failed: it is how the user learns about it.
	outcome := r.executor.Apply(ctx, set, plan)
	found := r.templateConditions(ctx, set, seen.snapshot.Update.Name, outcome)

	began = r.Clock.Now()
	status := Status(set, seen.snapshot, plan, outcome, r.Options, found...)
	status.CollisionCount = ptr.To(ptr.Deref(seen.collisionCount, 0))
	cost += r.Clock.Since(began)
	statusWait, statusErr := r.status.Write(ctx, stored, status, urgent(set.Status, status))
	var trimErr error
	if statusErr == nil && statusWait == 0 {
		r.announce(set, status)
		trimErr = r.trim(ctx, set, seen, status)
	}
	r.pacer.Passed(client.ObjectKeyFromObject(set), set.Generation, cost)

	if err := errors.Join(seen.failed, statusErr, trimErr); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: earliest(plan.RecheckAfter, outcome.RecheckAfter, statusWait)}, nil
}

// announce emits the events about a status that has just been written.
func (r *Reconciler) announce(set *appsv1beta1.StatefulSet, status appsv1beta1.StatefulSetStatus) {
	const longest = 1000 // The server takes 1024 bytes.
	for _, event := range announcements(set, status) {
		note := strings.ToValidUTF8(event.Message[:min(len(event.Message), longest)], "")
		r.Recorder.Eventf(set, nil, corev1.EventTypeWarning, event.Reason, "Update", "%s", note)
	}
}

// urgent says whether a changed status is more than moving counters, in fields or in the messages of conditions.
func urgent(before, after appsv1beta1.StatefulSetStatus) bool {
	return before.ObservedGeneration != after.ObservedGeneration ||
		before.CurrentRevision != after.CurrentRevision ||
		before.UpdateRevision != after.UpdateRevision ||
		before.LabelSelector != after.LabelSelector ||
		ptr.Deref(before.CollisionCount, 0) != ptr.Deref(after.CollisionCount, 0) ||
		!slices.EqualFunc(before.Conditions, after.Conditions, func(a, b appsv1.StatefulSetCondition) bool {
			return a.Type == b.Type && a.Status == b.Status && a.Reason == b.Reason
		})
}

// trim deletes revisions that nothing needs, beyond the limit. The status must have been written: what it named before may go.
func (r *Reconciler) trim(ctx context.Context, set *appsv1beta1.StatefulSet, seen observation, status appsv1beta1.StatefulSetStatus) error {
	limit := int(ptr.Deref(set.Spec.RevisionHistoryLimit, historyLimit))
	if set.DeletionTimestamp != nil || len(seen.revisions) <= limit {
		return nil
	}
	live := sets.New(status.CurrentRevision, status.UpdateRevision)
	for i := range seen.snapshot.Pods {
		live.Insert(seen.snapshot.Pods[i].Revision)
	}
	return r.history.Trim(ctx, freshness.OwnerOf(set), seen.revisions, live, limit)
}

// reportUndecodable tells the user, once, that nothing is done for a set because it cannot be read.
func (r *Reconciler) reportUndecodable(ctx context.Context, stored *unstructured.Unstructured, cause error) (ctrl.Result, error) {
	condition := appsv1.StatefulSetCondition{
		Type:    appsv1beta1.StatefulSetStalled,
		Status:  corev1.ConditionTrue,
		Reason:  appsv1beta1.ReasonUndecodable,
		Message: fmt.Sprintf("the stored object cannot be decoded, so nothing is done for it: %v", cause),
	}
	// Tools believe the first of Reconciling and Stalled that is True.
	progressing, reconciling := condition, condition
	progressing.Type, progressing.Status = appsv1beta1.StatefulSetProgressing, corev1.ConditionFalse
	reconciling.Type, reconciling.Status = appsv1beta1.StatefulSetReconciling, corev1.ConditionFalse
	written, wait, err := r.addConditions(ctx, stored, progressing, reconciling, condition)
	if written {
		ctrl.LoggerFrom(ctx).Info("Set cannot be decoded", "err", cause.Error())
		r.Recorder.Eventf(stored, nil, corev1.EventTypeWarning, appsv1beta1.ReasonUndecodable, "Decode", "%s", condition.Message)
	}
	return ctrl.Result{RequeueAfter: wait}, err
}

// reportRefused tells the user that the server refuses what has to exist before the set can be planned: the revision of its template.
// Other failures to observe pass by themselves.
func (r *Reconciler) reportRefused(ctx context.Context, stored *unstructured.Unstructured, cause error) error {
	if freshness.Judge(cause) != freshness.Refused || apierrors.IsConflict(cause) || apierrors.IsNotFound(cause) {
		return nil
	}
	condition := appsv1.StatefulSetCondition{
		Type:    appsv1beta1.StatefulSetFailedCreatePod,
		Status:  corev1.ConditionTrue,
		Reason:  appsv1beta1.ReasonRequestFailed,
		Message: cause.Error(),
	}
	written, _, err := r.addConditions(ctx, stored, condition)
	if written {
		r.Recorder.Eventf(stored, nil, corev1.EventTypeWarning, "FailedCreate", "Create", "%s", condition.Message)
	}
	return err
}

// addConditions writes conditions and leaves the rest of the stored status as it is. Written is false when they were there already and
// when the write has to be tried again after wait.
func (r *Reconciler) addConditions(ctx context.Context, stored *unstructured.Unstructured, conditions ...appsv1.StatefulSetCondition) (written bool, wait time.Duration, err error) {
	status, _, _ := unstructured.NestedMap(stored.Object, "status")
	if status == nil {
		status = map[string]any{}
	}
	list, _ := status["conditions"].([]any)
	known := 0
	for _, condition := range conditions {
		at := slices.IndexFunc(list, func(entry any) bool {
			old, ok := entry.(map[string]any)
			return ok && old["type"] == string(condition.Type)
		})
		condition.LastTransitionTime = metav1.NewTime(r.Clock.Now().UTC().Truncate(time.Second))
		if at < 0 {
			list = append(list, condition)
			continue
		}
		old, _ := list[at].(map[string]any)
		if old["status"] == string(condition.Status) && old["reason"] == condition.Reason && old["message"] == condition.Message {
			known++
			continue
		}
		list[at] = condition
	}
	if known == len(conditions) {
		return false, 0, nil
	}
	status["conditions"] = list
	wait, err = r.status.Write(ctx, stored, status, true)
	return wait == 0 && err == nil, wait, err
}

// forget drops all state of a set that is gone.
func (r *Reconciler) forget(name types.NamespacedName) {
	r.tracker.Forget(name)
	r.executor.Forget(name)
	r.status.Forget(name)
	r.pacer.Forget(name)
	r.templates.forget(name)
}

// earliest returns the shortest of the waits that are above zero.
func earliest(waits ...time.Duration) time.Duration {
	waits = slices.DeleteFunc(waits, func(d time.Duration) bool { return d <= 0 })
	if len(waits) == 0 {
		return 0
	}
	return slices.Min(waits)
}
