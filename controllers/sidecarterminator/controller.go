// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarterminator

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarterminator/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/engine/restart"
	"github.com/kruise-operator/kruise-operator/internal/engine/virtualnode"
	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/kube/writer"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
)

// Name is the controller's name, and the reportingController of its events.
const Name = "sidecarterminator-controller"

// workers is how many pods are looked at at the same time.
const workers = 3

// Reasons of events.
const (
	reasonTerminator = "SidecarTerminator"
)

// +kubebuilder:rbac:groups=apps.kruise.io,resources=containerrecreaterequests,verbs=get;list;watch;create
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=pods/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

type reconciler struct {
	workload.Dependencies
	writer *writer.Writer
}

func newReconciler(d workload.Dependencies) *reconciler {
	return &reconciler{d, &writer.Writer{Client: d.Client, Live: d.Live, Timeout: d.WriteTimeout}}
}

// Setup makes the manager run the controller.
func Setup(_ context.Context, mgr ctrl.Manager, d workload.Dependencies, _ *config.Config) error {
	r := newReconciler(d)
	due := predicate.NewPredicateFuncs(func(object client.Object) bool {
		pod, ok := object.(*corev1.Pod)
		return ok && plan.Due(pod)
	})
	due.UpdateFunc = func(e event.UpdateEvent) bool {
		was, ok := e.ObjectOld.(*corev1.Pod)
		is, also := e.ObjectNew.(*corev1.Pod)
		if !ok || !also {
			return false
		}
		r.measure(was, is)
		return plan.Due(is)
	}
	c, err := workload.NewPodController(mgr, d, Name, workers, r, due)
	if err != nil {
		return err
	}
	requests := workload.Object(appsv1beta1.GroupVersion().WithKind("ContainerRecreateRequest"))
	owner := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		of := metav1.GetControllerOfNoCopy(object)
		if of == nil || of.Kind != "Pod" || of.APIVersion != "v1" {
			return byName(object)
		}
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: object.GetNamespace(), Name: of.Name}}}
	})
	if err := c.Watch(source.Kind(d.Cache, client.Object(requests), owner)); err != nil {
		return fmt.Errorf("watching requests: %w", err)
	}
	return nil
}

// byName finds the pod of a request with our name and no owner: its end makes room for ours.
func byName(object client.Object) []reconcile.Request {
	request, ok := object.(*unstructured.Unstructured)
	if !ok || !strings.HasPrefix(request.GetName(), restart.TerminationPrefix) {
		return nil
	}
	pod, _, _ := unstructured.NestedString(request.Object, "spec", "podName")
	if pod == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: request.GetNamespace(), Name: pod}}}
}

// Reconcile stops the sidecars of a pod, if it is due.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pod := &corev1.Pod{}
	if err := r.Cache.Get(ctx, req.NamespacedName, pod, client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !plan.Due(pod) {
		return ctrl.Result{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.WriteTimeout)
	defer cancel()
	snapshot, err := r.observe(ctx, pod)
	if err != nil {
		return ctrl.Result{}, err
	}
	todo := plan.Plan(snapshot)
	if err := r.apply(ctx, pod, todo, snapshot.Now); err != nil {
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) {
			return ctrl.Result{RequeueAfter: workload.Busy}, nil // the view is out of date
		}
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, nil
}

func (r *reconciler) observe(ctx context.Context, pod *corev1.Pod) (plan.Snapshot, error) {
	snapshot := plan.Snapshot{Now: r.Clock.Now(), Pod: pod}
	node := &corev1.Node{}
	err := r.Live.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, node)
	if client.IgnoreNotFound(err) != nil { // one that is gone is not virtual
		return snapshot, fmt.Errorf("reading the node: %w", err)
	}
	snapshot.Virtual = virtualnode.Is(node)
	if snapshot.Virtual {
		return snapshot, nil
	}
	request := &appsv1beta1.ContainerRecreateRequest{}
	err = r.Live.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: plan.RequestName(pod)}, request)
	switch {
	case err == nil:
		snapshot.Request = request
	case !apierrors.IsNotFound(err):
		return snapshot, fmt.Errorf("reading the request: %w", err)
	}
	return snapshot, nil
}

// apply writes the decision, each part tied to the pod as read.
func (r *reconciler) apply(ctx context.Context, pod *corev1.Pod, todo plan.Decision, now time.Time) error {
	metadata := map[string]any{"uid": pod.UID, "resourceVersion": pod.ResourceVersion}
	if len(todo.Images) > 0 {
		var containers []map[string]any
		for _, name := range todo.Stopped {
			containers = append(containers, map[string]any{"name": name, "image": todo.Images[name]})
		}
		body := map[string]any{"metadata": metadata, "spec": map[string]any{"containers": containers}}
		if err := r.count("image", r.patch(ctx, pod, "", body)); err != nil {
			return fmt.Errorf("exchanging images: %w", err)
		}
		r.emit(pod, "Exchanged the images of sidecars, so that they end: "+strings.Join(todo.Stopped, ", "))
	}
	if todo.Phase != "" {
		status := map[string]any{"phase": todo.Phase, "conditions": []corev1.PodCondition{plan.Terminated(now)}}
		if err := r.count("phase", r.patch(ctx, pod, "status", map[string]any{"metadata": metadata, "status": status})); err != nil {
			return fmt.Errorf("writing the phase: %w", err)
		}
		r.emit(pod, fmt.Sprintf("The main containers are done, and the pod is %s whatever its sidecars end with", todo.Phase))
	}
	if todo.Taken {
		// The end of the other request enqueues it.
		r.Recorder.Eventf(pod, nil, corev1.EventTypeWarning, reasonTerminator, "Terminate",
			"Sidecars cannot be stopped: ContainerRecreateRequest %s has this name and does not belong to the pod; delete it", plan.RequestName(pod))
	}
	if todo.Create != nil {
		kind := appsv1beta1.GroupVersion().WithKind("ContainerRecreateRequest")
		if err := r.count("request", r.writer.Create(ctx, freshness.Owner{}, kind, todo.Create, "")); err != nil {
			if !apierrors.IsAlreadyExists(err) {
				r.Recorder.Eventf(pod, nil, corev1.EventTypeWarning, reasonTerminator, "Terminate", "Sidecars cannot be stopped: %s", err.Error())
			}
			return fmt.Errorf("creating the request: %w", err)
		}
		r.emit(pod, "Stopping sidecars by ContainerRecreateRequest "+todo.Create.Name+": "+strings.Join(todo.Stopped, ", "))
	}
	return nil
}

func (r *reconciler) patch(ctx context.Context, pod *corev1.Pod, subresource string, body map[string]any) error {
	ref := freshness.RefOf(corev1.SchemeGroupVersion.WithKind("Pod"), pod)
	_, err := r.writer.Patch(ctx, freshness.Owner{}, ref, writer.Patch{Subresource: subresource, Type: types.StrategicMergePatchType, Content: body})
	return err
}

// count counts an action by method and result, and returns err unchanged.
func (r *reconciler) count(method string, err error) error {
	result := "ok"
	switch {
	case err == nil:
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		result = "conflict"
	case apierrors.IsNotFound(err):
		result = "gone"
	case freshness.Judge(err) == freshness.InDoubt:
		result = "doubt"
	default:
		result = "refused"
	}
	r.Metrics.SidecarStops.WithLabelValues(method, result).Inc()
	return err
}

// measure records the time from the end of a pod's main containers to the pod's.
func (r *reconciler) measure(was, is *corev1.Pod) {
	if !plan.Due(was) || podstate.Finished(was) || !podstate.Finished(is) || is.UID != was.UID {
		return
	}
	if took, ok := plan.SinceMain(is, r.Clock.Now()); ok {
		r.Metrics.SidecarLatency.Observe(took.Seconds())
	}
}

func (r *reconciler) emit(pod *corev1.Pod, message string) {
	r.Recorder.Eventf(pod, nil, corev1.EventTypeNormal, reasonTerminator, "Terminate", "%s", message)
}
