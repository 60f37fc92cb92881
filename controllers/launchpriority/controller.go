// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package launchpriority

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/controllers/launchpriority/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/launch"
	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/kube/writer"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
)

// Name is the controller's name, and the reportingController of its events.
const Name = "launchpriority-controller"

const (
	// workers limits the pods looked at at once. A namespace with hanging writes does not get all.
	workers = 4
	// workerRetry is when to come back when the pod's namespace may not have another worker just now.
	workerRetry = 200 * time.Millisecond
	// blockedRetry is the wait while a ConfigMap is in the way.
	blockedRetry = 30 * time.Second
	// reportedAge limits the age of pods reported as unordered. Older ones were reported, or existed before.
	reportedAge = 5 * time.Minute
)

// Reasons of events.
const (
	reasonReleased = "LaunchPriorityReleased"
	reasonWaiting  = "LaunchPriorityWaiting"
	reasonBlocked  = "LaunchPriorityBlocked"
	reasonNotKept  = "LaunchPriorityNotKept"
)

// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// NeedsWholePod reports if the pod waits at its barrier, or asks for an order it may lack.
func NeedsWholePod(pod *corev1.Pod) bool {
	return launch.Waits(pod) || wantsOrder(pod)
}

// wantsOrder: the pod asks for an order, readable or not.
func wantsOrder(pod *corev1.Pod) bool {
	priorities, fault := launch.Priorities(pod.Annotations, pod.Spec.Containers, nil)
	return priorities != nil || fault != nil
}

type reconciler struct {
	workload.Dependencies
	writer  *writer.Writer
	waiting *waiting
}

// Setup makes the manager run the controller.
func Setup(_ context.Context, mgr ctrl.Manager, d workload.Dependencies, _ *config.Config) error {
	r := &reconciler{
		Dependencies: d, writer: &writer.Writer{Client: d.Client, Live: d.Live, Timeout: d.WriteTimeout}, waiting: newWaiting(),
	}
	d.Metrics.LaunchWaiting.Add(r.waiting.count)
	_, err := workload.NewPodController(mgr, d, Name, workers, r, due())
	return err
}

// due passes events of pods that may need work.
func due() predicate.Predicate {
	looks := func(object client.Object) bool {
		pod, ok := object.(*corev1.Pod)
		return ok && (plan.NeedsPass(pod) || notKept(pod))
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return looks(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			old, isPod := e.ObjectOld.(*corev1.Pod)
			pod, ok := e.ObjectNew.(*corev1.Pod)
			return isPod && ok && plan.Changed(old, pod) && (plan.NeedsPass(pod) || plan.NeedsPass(old))
		},
		DeleteFunc: func(e event.DeleteEvent) bool {
			pod, ok := e.Object.(*corev1.Pod)
			return ok && launch.Waits(pod) // to forget it
		},
	}
}

// notKept: a pod asked for an order and was made without.
func notKept(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && !launch.Waits(pod) && wantsOrder(pod)
}

// Reconcile brings one pod closer to the start of all of its containers.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pod := &corev1.Pod{}
	if err := r.Cache.Get(ctx, req.NamespacedName, pod, client.UnsafeDisableDeepCopy); err != nil {
		r.waiting.forget(req.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if notKept(pod) {
		r.warnNotKept(pod)
		return ctrl.Result{}, nil
	}
	if !plan.NeedsPass(pod) {
		r.waiting.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	leave, ok := r.Pool.Enter(Name, workers, req.NamespacedName, func() {})
	if !ok {
		return ctrl.Result{RequeueAfter: workerRetry}, nil
	}
	defer leave()
	result, err := r.serve(ctx, pod)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) {
		return ctrl.Result{RequeueAfter: workload.Busy}, nil // the view is out of date
	}
	return result, err
}

// serve decides and writes. Every write is tied to the barrier as read, or to the pod.
func (r *reconciler) serve(ctx context.Context, pod *corev1.Pod) (ctrl.Result, error) {
	found, err := r.barrier(ctx, pod)
	if err != nil {
		return ctrl.Result{}, err
	}
	todo := plan.Plan(pod, found)
	if todo.Blocked != "" {
		r.event(pod, corev1.EventTypeWarning, reasonBlocked, todo.Blocked)
		return ctrl.Result{RequeueAfter: blockedRetry}, nil
	}
	if err := r.apply(ctx, pod, found, todo); err != nil {
		return ctrl.Result{}, err
	}
	if pod.DeletionTimestamp != nil || todo.Complete {
		r.waiting.forget(client.ObjectKeyFromObject(pod))
		return ctrl.Result{}, nil
	}
	return ctrl.Result{RequeueAfter: r.warnWaiting(pod)}, nil
}

func (r *reconciler) barrier(ctx context.Context, pod *corev1.Pod) (*corev1.ConfigMap, error) {
	found := &corev1.ConfigMap{}
	err := r.writer.Read(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: launch.BarrierName(pod.Name)}, found)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the barrier: %w", err)
	}
	return found, nil
}

func (r *reconciler) apply(ctx context.Context, pod *corev1.Pod, found *corev1.ConfigMap, todo plan.Decision) error {
	kind := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	if todo.Delete {
		if err := r.writer.Delete(ctx, freshness.Owner{}, freshness.RefOf(kind, found), writer.Delete{ExactVersion: true}); err != nil {
			return fmt.Errorf("deleting the barrier: %w", err)
		}
	}
	switch {
	case todo.Create:
		if err := r.writer.Create(ctx, freshness.Owner{}, kind, plan.Barrier(pod, todo.Open), ""); err != nil {
			return fmt.Errorf("creating the barrier: %w", r.refused(pod, err))
		}
	case len(todo.Release) > 0:
		change := map[string]any{"metadata": map[string]any{"uid": found.UID}, "data": plan.Keys(todo.Release)}
		patch := writer.Patch{Type: types.MergePatchType, Content: change}
		if _, err := r.writer.Patch(ctx, freshness.Owner{}, freshness.RefOf(kind, found), patch); err != nil {
			return fmt.Errorf("writing the barrier: %w", r.refused(pod, err))
		}
	}
	for _, level := range todo.Release {
		r.event(pod, corev1.EventTypeNormal, reasonReleased, plan.Released(pod, level.Priority))
	}
	if !todo.Complete {
		return nil
	}
	change := map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "annotations": map[string]string{shared.AnnotationLaunchPriorityCompleted: launch.Released},
	}}
	ref := freshness.RefOf(corev1.SchemeGroupVersion.WithKind("Pod"), pod)
	if _, err := r.writer.Patch(ctx, freshness.Owner{}, ref, writer.Patch{Type: types.MergePatchType, Content: change}); err != nil {
		return fmt.Errorf("marking the pod: %w", err)
	}
	return nil
}

// refused reports a barrier the server refuses, for example by a quota of ConfigMaps. It is tried again.
func (r *reconciler) refused(pod *corev1.Pod, err error) error {
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
		r.event(pod, corev1.EventTypeWarning, reasonBlocked, "No container may start: "+err.Error())
	}
	return err
}

// warnNotKept reports a new pod left without the order it asked for.
func (r *reconciler) warnNotKept(pod *corev1.Pod) {
	if r.Clock.Now().Sub(pod.CreationTimestamp.Time) > reportedAge {
		return
	}
	r.event(pod, corev1.EventTypeWarning, reasonNotKept, "The pod asks for an order in which its containers start, and was created without: "+
		"the feature gate ContainerLaunchPriority was off, or not in force yet, or its namespace is exempt")
}

// warnWaiting warns once of a long wait, and returns when to look again.
func (r *reconciler) warnWaiting(pod *corev1.Pod) time.Duration {
	text, at := plan.Waiting(pod)
	key := client.ObjectKeyFromObject(pod)
	if text == "" {
		r.waiting.forget(key)
		return 0
	}
	warn, wait := r.waiting.saw(key, pod.UID, at, r.Clock.Now())
	if warn {
		r.event(pod, corev1.EventTypeWarning, reasonWaiting, text)
	}
	return wait
}

func (r *reconciler) event(pod *corev1.Pod, eventtype, reason, message string) {
	r.Recorder.Eventf(pod, nil, eventtype, reason, "Launch", "%s", message)
}
