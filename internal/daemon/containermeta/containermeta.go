// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package containermeta reports what the containers of a pod were made from, in an annotation of the pod, and restarts containers that read labels
// or annotations of their pod through their environment when an update in place has changed these. The operator considers such an update done
// when the report says so.
//
// What it promises:
//
//   - Pods of our kinds and pods with injected sidecars are reported on, no others. The runtime is asked when the pod's status shows another
//     container than the report, and a report is written when it says something new: at most once for each container that is made, never at
//     rest. A daemon that starts looks at pods that have a report already; the others get theirs with the next change of their status.
//   - A container is stopped only while its pod is out of service for such an update, and only when it is known to run with other values. Where
//     the runtime says what it was created with, images without any program work, too. Where it does not, as cri-dockerd, a command in the
//     container says so; when that fails, an event says that the values are not known.
//   - A stop takes as long as the grace period says, and holds up neither the reports of its node nor the stops of other pods.
//   - It is restarted at most three times for the same values. If values still differ then, an event says so. A stop that has failed is no restart;
//     it is tried again, at longer and longer intervals.
//   - It keeps no state in memory that it needs. After a restart it asks the runtime, and finds containers that were restarted meanwhile.
package containermeta

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/daemon/cri"
	"github.com/kruise-operator/kruise-operator/internal/daemon/host"
	"github.com/kruise-operator/kruise-operator/internal/daemon/recreate"
	"github.com/kruise-operator/kruise-operator/internal/engine/inplace"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/engine/restart"
)

const (
	// workers is how many pods of the node are looked at at the same time.
	workers = 10
	// gatherDelay is how long a pod's changes are gathered before it is looked at: its containers start one after the other.
	gatherDelay = time.Second
	// kubeletDelay is how long the kubelet gets to hear of the new values before a container is stopped: one that it makes earlier has the old ones.
	kubeletDelay = 2 * time.Second
	// again is when to look again while an update is under way.
	again = 2 * time.Second
	// maxRestarts is how often a container is restarted for the same values.
	maxRestarts = 3
	// longest is the longest time between two tries of what has failed.
	longest = time.Minute
	// maxDifferences is how many differences are remembered of a pod at most: whoever may change its metadata can make any number of values.
	maxDifferences = 1000
	// maxStopped is how many pods may wait to be looked at again, after a stop of theirs, before stops wait for them.
	maxStopped = 32
	// leastGrace is the grace period of a container whose pod names none.
	leastGrace = 2 * time.Second
	// kubeletHash is the annotation of a container with the hash of its spec.
	kubeletHash = "io.kubernetes.container.hash"
)

// Add adds the feature to the daemon.
func Add(h host.Host) error {
	r := newReconciler(h, h.Manager.GetClient())
	c, err := controller.New("containermeta", h.Manager, controller.Options{
		Reconciler:              r,
		MaxConcurrentReconciles: workers,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](500*time.Millisecond, 50*time.Second),
	})
	if err != nil {
		return fmt.Errorf("creating the controller of container reports: %w", err)
	}
	if err := c.Watch(source.Kind(h.Manager.GetCache(), &corev1.Pod{}, podEvents())); err != nil {
		return fmt.Errorf("watching pods: %w", err)
	}
	if err := c.Watch(source.Channel(r.stopped, looksAgain())); err != nil {
		return fmt.Errorf("watching what is stopped: %w", err)
	}
	return nil
}

// looksAgain looks at a pod whose stop is over. The kubelet needs a moment to make the new instance.
func looksAgain() handler.Funcs {
	return handler.Funcs{GenericFunc: func(_ context.Context, e event.GenericEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		q.AddAfter(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e.Object)}, again)
	}}
}

// podEvents says which events of pods are looked at: at once while containers have to restart, after a while when the report is about others than there are.
func podEvents() handler.TypedFuncs[*corev1.Pod, reconcile.Request] {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	enqueue := func(q queue, pod *corev1.Pod, stale bool) {
		request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(pod)}
		switch {
		case restarts(pod):
			q.Add(request)
		case reported(pod) && stale && !inplace.ReportIsCurrent(pod):
			q.AddAfter(request, gatherDelay)
		}
	}
	return handler.TypedFuncs[*corev1.Pod, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*corev1.Pod], q queue) {
			_, has := e.Object.Annotations[shared.AnnotationRuntimeContainersMeta]
			enqueue(q, e.Object, has)
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*corev1.Pod], q queue) { enqueue(q, e.ObjectNew, true) },
	}
}

type reconciler struct {
	host.Host
	// client reads the pods of the node and writes.
	client client.Client
	stops  recreate.Stops
	// stopped has the pods of containers that were stopped, or could not be.
	stopped chan event.GenericEvent

	mu sync.Mutex
	// known is what is remembered of pods whose update is under way.
	known map[types.NamespacedName]*memory
}

// memory is what is remembered of a pod while its update is under way. Losing it costs time, and another restart at most.
type memory struct {
	uid types.UID
	// wanted are the containers that were seen to differ from some values, by both.
	wanted map[string]*difference
	// asked are the containers that were asked for their environment by a command, by name.
	asked map[string]*asked
}

// difference is a container that was seen to differ from the values that it should have.
type difference struct {
	// since is when it was seen first.
	since time.Time
	// instance is the one that was to be stopped for it last; restarts counts those that others have taken the place of.
	instance string
	restarts int
	// told says that the restarts are used up, and that an event said so.
	told bool
	retry
}

// retry says when to try again what was tried in vain: after intervals that get longer.
type retry struct {
	tries int
	next  time.Time
}

// tried counts a try.
func (r *retry) tried(now time.Time) {
	r.next = now.Add(min(again<<min(r.tries, 10), longest))
	r.tries++
}

func newReconciler(h host.Host, c client.Client) *reconciler {
	return &reconciler{Host: h, client: c, stopped: make(chan event.GenericEvent, maxStopped), known: map[types.NamespacedName]*memory{}}
}

// Reconcile reports on a pod. While containers of it have to restart for other values, it has the first that runs with others stopped, before.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pod := &corev1.Pod{}
	err := r.client.Get(ctx, req.NamespacedName, pod)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("reading the pod: %w", err)
	}
	restarting := err == nil && restarts(pod)
	if !restarting {
		r.forget(req.NamespacedName)
		if err != nil || !reported(pod) || inplace.ReportIsCurrent(pod) {
			return ctrl.Result{}, nil
		}
	}
	from := r.RuntimeOf(ctx, r.client, pod)
	runtime, err := from.Status(ctx)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("asking the container runtime: %w", err)
	}
	containers, err := from.ListContainers(ctx, cri.ContainerFilter{PodUID: string(pod.UID)})
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("listing containers: %w", err)
	}
	newest := cri.Newest(containers)
	var m *memory
	if restarting {
		m = r.remembered(pod)
	}
	var report []inplace.Reported
	for i := range pod.Spec.Containers {
		container := &pod.Spec.Containers[i]
		instance, found := newest[container.Name]
		if !found {
			continue
		}
		id := runtime.Name + "://" + instance.ID
		if before, known := inplace.ReportedOn(pod, container.Name); known && before.ContainerID == id && !restarting {
			report = append(report, before) // what a container was made from never changes
			continue
		}
		seen, err := r.look(ctx, from, pod, container, instance.ID, m)
		if err != nil {
			return ctrl.Result{}, err
		}
		if restarting {
			if wait, stopping, err := r.stop(ctx, pod, container, id, seen, m); err != nil || stopping || wait > 0 {
				return ctrl.Result{RequeueAfter: wait}, err
			}
		}
		report = append(report, inplace.Reported{
			Name: container.Name, ContainerID: id, RestartCount: instance.Attempt,
			Hashes: inplace.ReportedHashes{Plain: plainHash(&instance), Environment: seen.hash},
		})
	}
	result := ctrl.Result{}
	if restarting {
		result.RequeueAfter = again
	}
	return result, r.report(ctx, pod, report)
}

// ours says that a workload of ours, or of OpenKruise, runs the pod.
func ours(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && strings.HasPrefix(owner.APIVersion, appsv1beta1.GroupVersion().Group+"/")
}

// restarts says that containers of the pod have to restart because of metadata that they read.
func restarts(pod *corev1.Pod) bool { return inplace.RestartsForMetadata(pod) && ours(pod) }

// reported says that the pod is reported on: one of ours, or one with sidecars of a SidecarSet, until it ends or is deleted.
func reported(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && !podstate.Finished(pod) && (ours(pod) || pod.Annotations[shared.AnnotationSidecarSetHash] != "")
}

func (r *reconciler) remembered(pod *corev1.Pod) *memory {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := client.ObjectKeyFromObject(pod)
	if known := r.known[name]; known == nil || known.uid != pod.UID {
		r.known[name] = &memory{uid: pod.UID, wanted: map[string]*difference{}, asked: map[string]*asked{}}
	}
	return r.known[name]
}

func (r *reconciler) forget(name types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, name)
}

// stop has a container stopped that runs with other values, once the kubelet has had the time to hear of these. It says how long to wait for that, or that
// the container is being stopped: then the pod is looked at again when that is over.
func (r *reconciler) stop(
	ctx context.Context, pod *corev1.Pod, container *corev1.Container, id string, seen seen, m *memory,
) (wait time.Duration, stopping bool, err error) {
	if !seen.differs {
		return 0, false, nil
	}
	key := container.Name + "/" + strconv.FormatUint(seen.wanted, 16)
	now := r.Clock.Now()
	of := m.wanted[key]
	if of == nil {
		if len(m.wanted) >= maxDifferences {
			clear(m.wanted)
		}
		of = &difference{since: now}
		m.wanted[key] = of
	}
	if left := kubeletDelay - now.Sub(of.since); left > 0 {
		return left, false, nil
	}
	// The runtime may end a container and report a failure, so what counts is that another instance runs.
	if of.instance != "" && of.instance != id {
		of.instance, of.retry = "", retry{}
		of.restarts++
	}
	if of.restarts >= maxRestarts {
		if !of.told {
			of.told = true
			r.Events.Eventf(pod, nil, corev1.EventTypeWarning, "EnvironmentDiffers", "Restart",
				"Container %s was restarted %d times and still does not have the values of the pod's labels and annotations", container.Name, of.restarts)
		}
		return 0, false, nil
	}
	at := recreate.Attempt{Reason: pod.UID, Namespace: pod.Namespace, Instance: id}
	switch is, err := r.stops.Look(at); is {
	case recreate.Begun:
		return 0, true, nil
	case recreate.Failed:
		return 0, false, fmt.Errorf("stopping container %s: %w", container.Name, err)
	}
	if left := of.next.Sub(now); left > 0 {
		return left, false, nil
	}
	if !r.begin(ctx, pod, container, at) {
		return again, false, nil // too many others are being stopped
	}
	of.instance = id
	of.tried(now)
	return 0, true, nil
}

// begin has an instance stopped in the background, unless that has to wait. The controller sets no limit on passes, so ctx ends with the daemon, and not
// with the pass.
func (r *reconciler) begin(ctx context.Context, pod *corev1.Pod, container *corev1.Container, at recreate.Attempt) bool {
	kill := &restart.Kill{
		Container: appsv1beta1.ContainerRecreateRequestContainer{Name: container.Name, PreStop: hookOf(container), Ports: container.Ports},
		ID:        at.Instance, Grace: graceOf(pod),
	}
	is, _ := r.stops.Try(at, r.Clock.Now, func() error {
		err := recreate.Stop(ctx, r.Host, pod, kill, nil, "because labels or annotations have changed that its environment refers to")
		switch {
		case errors.Is(err, cri.ErrNotFound):
			return nil // it is gone
		case !errors.Is(err, cri.ErrUnavailable) && ctx.Err() == nil:
			r.Metrics.Stopped("environment", err)
		}
		return err
	}, func() {
		select {
		case r.stopped <- event.GenericEvent{Object: pod}:
		case <-ctx.Done():
		}
	})
	return is == recreate.Begun
}

// graceOf is how long the hook of a container and it itself have together.
func graceOf(pod *corev1.Pod) time.Duration {
	if pod.Spec.TerminationGracePeriodSeconds == nil {
		return leastGrace
	}
	return max(inplace.Termination(pod), leastGrace)
}

func hookOf(container *corev1.Container) *appsv1beta1.ProbeHandler {
	if container.Lifecycle == nil || container.Lifecycle.PreStop == nil {
		return nil
	}
	hook := container.Lifecycle.PreStop
	return &appsv1beta1.ProbeHandler{Exec: hook.Exec, HTTPGet: hook.HTTPGet, TCPSocket: hook.TCPSocket, Sleep: hook.Sleep}
}

// plainHash is the hash of its spec with which the kubelet made a container; 0 when it does not say.
func plainHash(instance *cri.Container) uint64 {
	hash, err := strconv.ParseUint(instance.Annotations[kubeletHash], 16, 64)
	if err != nil {
		return 0
	}
	return hash
}

// report writes what the containers run with, when that is not what the pod says already.
func (r *reconciler) report(ctx context.Context, pod *corev1.Pod, containers []inplace.Reported) error {
	value := inplace.Report(pod, containers)
	if value == "" {
		return nil
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "annotations": map[string]string{shared.AnnotationRuntimeContainersMeta: value},
	}})
	if err != nil {
		return fmt.Errorf("rendering the report: %w", err)
	}
	target := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	if err := r.client.Status().Patch(ctx, target, client.RawPatch(types.MergePatchType, body)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}
