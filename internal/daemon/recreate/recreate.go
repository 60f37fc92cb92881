// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package recreate carries out ContainerRecreateRequests for pods of its node. Package
// restart of the engine decides; this package reads, writes and stops containers.
//
// A pass is about one pod and does not wait for a stop: this runs in the background, for up
// to the grace period, and the next pass continues. So waiting pods delay nobody, and an
// ended or deleted request makes room at once; a stop already begun goes on.
package recreate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/daemon/cri"
	"github.com/kruise-operator/kruise-operator/internal/daemon/host"
	"github.com/kruise-operator/kruise-operator/internal/engine/restart"
)

const (
	// workers is how many pods of the node are looked at at the same time.
	workers = 32
	// after is when to look again after something was stopped, or when the view was out of date.
	after = 100 * time.Millisecond
	// maxTold is how many waiting requests are told so in one pass.
	maxTold = 20
	// remembered is how many requests are remembered.
	remembered = 4096
	// turn is when to look again while too many other containers are being stopped.
	turn = time.Second
	// asking is how long one question to the runtime, and one write, may take.
	asking = 10 * time.Second
	// starting is how long a request waits for the container runtime of its containers while the node does not have it, lookAgain when to look for it
	// again.
	starting  = 30 * time.Second
	lookAgain = 5 * time.Second
	// forcing is how long the runtime may take to end a container by force, beyond its grace period.
	forcing = 30 * time.Second
)

// Selector selects the node's unfinished requests.
func Selector(node string) labels.Selector {
	return labels.SelectorFromSet(labels.Set{appsv1beta1.LabelRequestNode: node, appsv1beta1.LabelRequestActive: "true"})
}

// Add adds the feature to the daemon.
func Add(h host.Host) error {
	r := &reconciler{Host: h, client: h.Manager.GetClient(), times: lru.New(remembered), stopped: make(chan event.GenericEvent, maxStops)}
	requests := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		request, ok := object.(*appsv1beta1.ContainerRecreateRequest)
		if !ok {
			return nil
		}
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: request.Namespace, Name: request.Spec.PodName}}}
	})
	cache := h.Manager.GetCache()
	return h.AddController("recreate", workers, r,
		source.Kind[client.Object](cache, &appsv1beta1.ContainerRecreateRequest{}, requests),
		source.Kind[client.Object](cache, &corev1.Pod{}, &handler.EnqueueRequestForObject{}),
		source.Channel(r.stopped, &handler.EnqueueRequestForObject{}))
}

type reconciler struct {
	host.Host
	// client reads the objects of the node and writes.
	client client.Client
	stops  Stops
	// times are those of the requests, by UID.
	times *lru.Cache
	// stopped has the pods of ended or failed stops.
	stopped chan event.GenericEvent
}

// Reconcile brings the current request for a pod one step further, and marks the others as waiting.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pod := &corev1.Pod{}
	if err := r.client.Get(ctx, req.NamespacedName, pod, client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err) // without its pod the operator ends a request
	}
	var list appsv1beta1.ContainerRecreateRequestList
	// There may be thousands for other pods: copy only this pod's.
	if err := r.client.List(ctx, &list, client.InNamespace(req.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, fmt.Errorf("listing requests: %w", err)
	}
	var all []*appsv1beta1.ContainerRecreateRequest
	for i := range list.Items {
		request := &list.Items[i]
		if request.Spec.PodName == req.Name && request.Labels[appsv1beta1.LabelRequestPodUID] == string(pod.UID) {
			all = append(all, request.DeepCopy())
		}
	}
	queue := restart.Queue(all)
	if len(queue) == 0 {
		return ctrl.Result{}, nil
	}
	for _, request := range queue {
		r.note(request)
	}
	more, refused := r.tell(ctx, queue[1:])
	result, err := r.carryOut(ctx, queue[0], pod, r.note(queue[0]))
	if err := errors.Join(err, refused); err != nil {
		return ctrl.Result{}, err
	}
	if more {
		result.RequeueAfter = after
	}
	return result, nil
}

// times are since when this node knows a request, and since when its pod is out of service;
// zero if it is not. By this node's clock.
type times struct{ known, held time.Time }

// note returns the times of a request, now or as they were noted before.
func (r *reconciler) note(request *appsv1beta1.ContainerRecreateRequest) times {
	of := times{known: r.Clock.Now()}
	if before, seen := r.times.Get(request.UID); seen {
		of = before.(times)
	}
	if of.held.IsZero() && !restart.HeldSince(request).IsZero() {
		of.held = r.Clock.Now()
	}
	r.times.Add(request.UID, of)
	return of
}

// tell writes to waiting requests that they wait, to at most maxTold in one pass. Neither
// their number nor a failing write delays the current one. more: some are left. refused is
// the last write's error.
func (r *reconciler) tell(ctx context.Context, waiting []*appsv1beta1.ContainerRecreateRequest) (more bool, refused error) {
	untold := slices.DeleteFunc(waiting, func(request *appsv1beta1.ContainerRecreateRequest) bool { return request.Status.Phase != "" })
	for _, request := range untold[:min(len(untold), maxTold)] {
		status := request.Status.DeepCopy()
		status.Phase = appsv1beta1.RecreatePending
		if _, err := r.write(ctx, request, status, 0); err != nil {
			refused = err
		}
	}
	return len(untold) > maxTold, refused
}

// carryOut does the next step of the current request.
func (r *reconciler) carryOut(ctx context.Context, request *appsv1beta1.ContainerRecreateRequest, pod *corev1.Pod, since times) (ctrl.Result, error) {
	snapshot, err := r.observe(ctx, request, pod)
	snapshot.Known, snapshot.Held = since.known, since.held
	var missing *cri.NoRuntimeError
	switch {
	case errors.As(err, &missing) && r.Clock.Since(since.known) < starting:
		return ctrl.Result{RequeueAfter: lookAgain}, nil
	case missing != nil:
		snapshot.Runtime = strings.Join(missing.Answering, ", ") // its IDs are of none of them, which completes the request
	case err != nil:
		return ctrl.Result{}, err
	}
	todo := restart.Plan(request, snapshot)
	switch {
	case todo.Changed:
		return r.write(ctx, request, todo.Status, todo.RecheckAfter)
	case todo.Kill == nil:
		return ctrl.Result{RequeueAfter: todo.RecheckAfter}, nil
	}
	return r.stop(ctx, request, pod, todo.Kill, todo.RecheckAfter)
}

// stop stops a container in the background. A failure goes into the status. Passes have no
// time limit, so ctx ends with the daemon.
func (r *reconciler) stop(
	ctx context.Context, request *appsv1beta1.ContainerRecreateRequest, pod *corev1.Pod, kill *restart.Kill, recheck time.Duration,
) (ctrl.Result, error) {
	order := Order{Pod: pod.DeepCopy(), Kill: kill, Related: request, Why: "for ContainerRecreateRequest " + request.Name, Reason: "request"}
	is, err := r.stops.Try(ctx, r.Host, Attempt{request.UID, pod.Namespace, kill.ID}, order, r.stopped)
	switch {
	case is == Begun:
		return ctrl.Result{RequeueAfter: recheck}, nil
	case is == Waits:
		return ctrl.Result{RequeueAfter: turn}, nil
	case errors.Is(err, cri.ErrUnavailable), ctx.Err() != nil:
		return ctrl.Result{}, fmt.Errorf("stopping container %s: %w", kill.Container.Name, err)
	}
	return r.write(ctx, request, restart.NotStopped(request, kill.Container.Name, err), after)
}

// write sets the request's status by a patch tied to the version it was decided on, and says
// when to come back.
func (r *reconciler) write(
	ctx context.Context, request *appsv1beta1.ContainerRecreateRequest, status *appsv1beta1.ContainerRecreateRequestStatus, recheck time.Duration,
) (ctrl.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, asking)
	defer cancel()
	changed := request.DeepCopy()
	changed.Status = *status
	err := r.client.Status().Patch(ctx, changed, client.MergeFromWithOptions(request, client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err): // there is a newer version
		return ctrl.Result{RequeueAfter: after}, nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("writing the status of request %s: %w", request.Name, err)
	}
	return ctrl.Result{RequeueAfter: recheck}, nil
}

// observe asks the runtime for the newest instances of the requested containers.
func (r *reconciler) observe(ctx context.Context, request *appsv1beta1.ContainerRecreateRequest, pod *corev1.Pod) (restart.Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, asking)
	defer cancel()
	snapshot := restart.Snapshot{Now: r.Clock.Now(), Pod: pod, Instances: map[string]restart.Instance{}}
	of := r.RuntimeOf(ctx, r.client, pod)
	runtime, err := of.Status(ctx)
	if err != nil {
		return snapshot, fmt.Errorf("asking the container runtime: %w", err)
	}
	snapshot.Runtime = runtime
	containers, err := of.ListContainers(ctx, string(pod.UID))
	if err != nil {
		return snapshot, fmt.Errorf("listing containers: %w", err)
	}
	newest := cri.Newest(containers)
	for i := range request.Spec.Containers {
		name := request.Spec.Containers[i].Name
		container, found := newest[name]
		if !found {
			continue
		}
		status, err := of.ContainerStatus(ctx, container.ID)
		if errors.Is(err, cri.ErrNotFound) {
			continue
		}
		if err != nil {
			return snapshot, fmt.Errorf("asking for container %s: %w", name, err)
		}
		snapshot.Instances[name] = restart.Instance{
			ID: runtime + "://" + container.ID, Running: status.Running, Exited: status.Exited, Started: status.Started, ExitCode: status.ExitCode,
		}
	}
	return snapshot, nil
}
