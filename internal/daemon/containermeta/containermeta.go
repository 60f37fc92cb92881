// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package containermeta reports, in an annotation of the pod, how its containers were made.
// It restarts containers whose environment reads labels or annotations changed by an update
// in place. The operator waits for the report before it considers the update done.
//
// Its promises:
//
//   - Only pods of our kinds and pods with injected sidecars get a report. The runtime is
//     asked when the pod's status shows a container not in the report; a report is written
//     at most once per container made, never at rest. A starting daemon looks only at pods
//     with a report; the others get theirs at the next change of status.
//   - A container is stopped only while its pod is out of service for the update, and only
//     if it is known to run with other values. Some runtimes tell the values a container
//     was created with, so images without any program work, too. For others, as
//     cri-dockerd, a command in the container tells; if it fails, an event says the values
//     are unknown.
//   - A stop takes as long as the grace period says, and holds up neither the reports of its node nor the stops of other pods.
//   - A container is restarted at most three times for the same values; then an event tells
//     of the difference. A failed stop is no restart; it is retried at growing intervals.
//   - It needs no state in memory. After a restart it asks the runtime, and so finds
//     containers restarted meanwhile.
package containermeta

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
	// kubeletDelay lets the kubelet hear of the new values before a stop: earlier it would
	// make the container with the old ones.
	kubeletDelay = 2 * time.Second
	// again is when to look again while an update is under way.
	again = 2 * time.Second
	// maxRestarts is how often a container is restarted for the same values.
	maxRestarts = 3
	// longest is the longest time between two tries.
	longest = time.Minute
	// remembered is how many pods are remembered.
	remembered = 1000
	// maxStopped is how many pods may wait to be looked at again, after a stop of theirs, before stops wait for them.
	maxStopped = 32
	// leastGrace is the grace period if the pod names none.
	leastGrace = 2 * time.Second
	// kubeletHash is the annotation of a container with the hash of its spec.
	kubeletHash = "io.kubernetes.container.hash"
)

// Add adds the feature to the daemon.
func Add(h host.Host) error {
	r := newReconciler(h, h.Manager.GetClient())
	return h.AddController("containermeta", workers, r,
		source.Kind(h.Manager.GetCache(), &corev1.Pod{}, podEvents()), source.Channel(r.stopped, looksAgain()))
}

// looksAgain looks at a pod once its stop is over. The kubelet needs a moment to make the
// new instance.
func looksAgain() handler.Funcs {
	return handler.Funcs{GenericFunc: func(_ context.Context, e event.GenericEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		q.AddAfter(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e.Object)}, again)
	}}
}

// podEvents filters events of pods: at once while containers have to restart, after a while
// for a report on outdated containers.
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
	// stopped has the pods of ended or failed stops.
	stopped chan event.GenericEvent

	// known remembers pods with an update under way, by UID.
	known *lru.Cache
}

// memory is kept of a pod during its update. Losing it costs time, and at most another
// restart.
type memory struct {
	// differ are the containers with other values than they should have, by name.
	differ map[string]*difference
	// asked are the containers asked for their environment by a command, by name.
	asked map[string]*asked
}

// difference is a container seen with other values than it should have.
type difference struct {
	// wanted is the hash of the values that it should have.
	wanted uint64
	// since is when it was seen first.
	since time.Time
	// instance was to be stopped last; restarts counts replaced instances.
	instance string
	restarts int
	// told is true once an event told of the used-up restarts.
	told bool
	retry
}

// retry is the time of the next try, at growing intervals.
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
	return &reconciler{Host: h, client: c, stopped: make(chan event.GenericEvent, maxStopped), known: lru.New(remembered)}
}

// Reconcile reports on a pod. If containers have to restart for new values, it first stops
// the first with old ones.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pod := &corev1.Pod{}
	err := r.client.Get(ctx, req.NamespacedName, pod)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("reading the pod: %w", err)
	}
	restarting := err == nil && restarts(pod)
	if !restarting {
		r.known.Remove(pod.UID)
		if err != nil || !reported(pod) || inplace.ReportIsCurrent(pod) {
			return ctrl.Result{}, nil
		}
	}
	from := r.RuntimeOf(ctx, r.client, pod)
	runtime, err := from.Status(ctx)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("asking the container runtime: %w", err)
	}
	containers, err := from.ListContainers(ctx, string(pod.UID))
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
		id := runtime + "://" + instance.ID
		if before, known := inplace.ReportedOn(pod, container.Name); known && before.ContainerID == id && !restarting {
			report = append(report, before) // what a container was made from never changes
			continue
		}
		is, err := r.look(ctx, from, pod, container, instance.ID, m)
		if err != nil {
			return ctrl.Result{}, err
		}
		if restarting {
			if wait, stopping, err := r.stop(ctx, pod, container, id, is, m); err != nil || stopping || wait > 0 {
				return ctrl.Result{RequeueAfter: wait}, err
			}
		}
		plain, _ := strconv.ParseUint(instance.Annotations[kubeletHash], 16, 64) // 0 if unknown
		report = append(report, inplace.Reported{
			Name: container.Name, ContainerID: id, RestartCount: instance.Attempt,
			Hashes: inplace.ReportedHashes{Plain: plain, Environment: is.hash},
		})
	}
	result := ctrl.Result{}
	if restarting {
		result.RequeueAfter = again
	}
	return result, r.report(ctx, pod, report)
}

// ours is true for pods run by a workload of ours or of OpenKruise.
func ours(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && strings.HasPrefix(owner.APIVersion, appsv1beta1.GroupVersion().Group+"/")
}

// restarts is true if containers of the pod have to restart for metadata they read.
func restarts(pod *corev1.Pod) bool { return inplace.RestartsForMetadata(pod) && ours(pod) }

// reported is true for our pods and those with sidecars of a SidecarSet, until they end or
// are deleted.
func reported(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && !podstate.Finished(pod) && (ours(pod) || pod.Annotations[shared.AnnotationSidecarSetHash] != "")
}

func (r *reconciler) remembered(pod *corev1.Pod) *memory {
	if known, ok := r.known.Get(pod.UID); ok {
		return known.(*memory)
	}
	m := &memory{differ: map[string]*difference{}, asked: map[string]*asked{}}
	r.known.Add(pod.UID, m)
	return m
}

// stop stops a container with old values, once the kubelet has had time to hear of the new.
// It returns the time to wait, or that a stop is under way: the pod is looked at again
// afterwards.
func (r *reconciler) stop(
	ctx context.Context, pod *corev1.Pod, container *corev1.Container, id string, is environment, m *memory,
) (wait time.Duration, stopping bool, err error) {
	if !is.differs {
		return 0, false, nil
	}
	now := r.Clock.Now()
	of := m.differ[container.Name]
	if of == nil || of.wanted != is.wanted {
		of = &difference{wanted: is.wanted, since: now}
		m.differ[container.Name] = of
	}
	if left := kubeletDelay - now.Sub(of.since); left > 0 {
		return left, false, nil
	}
	// The runtime may end a container and report a failure: only another instance counts.
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
	if left := of.next.Sub(now); left > 0 {
		return left, false, nil
	}
	switch is, err := r.begin(ctx, pod, container, id); is {
	case recreate.Waits:
		return again, false, nil // too many others are being stopped
	case recreate.Failed:
		return 0, false, fmt.Errorf("stopping container %s: %w", container.Name, err)
	}
	of.instance = id
	of.tried(now)
	return 0, true, nil
}

// begin stops an instance in the background, unless it is being stopped or has to wait. Passes have no time
// limit, so ctx ends with the daemon.
func (r *reconciler) begin(ctx context.Context, pod *corev1.Pod, container *corev1.Container, id string) (recreate.Progress, error) {
	kill := &restart.Kill{
		Container: appsv1beta1.ContainerRecreateRequestContainer{Name: container.Name, PreStop: restart.HookOf(container), Ports: container.Ports},
		ID:        id, Grace: graceOf(pod),
	}
	order := recreate.Order{Pod: pod, Kill: kill, Why: "because labels or annotations have changed that its environment refers to", Reason: "environment"}
	return r.stops.Try(ctx, r.Host, recreate.Attempt{Reason: pod.UID, Namespace: pod.Namespace, Instance: id}, order, r.stopped)
}

// graceOf is how long the hook of a container and it itself have together.
func graceOf(pod *corev1.Pod) time.Duration {
	if pod.Spec.TerminationGracePeriodSeconds == nil {
		return leastGrace
	}
	return max(inplace.Termination(pod), leastGrace)
}

// report writes the containers' values unless the pod has them already.
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
