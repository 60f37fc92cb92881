// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

// rawWorkers is how many requests the bare client has in flight, as many as the operator.
const rawWorkers = 32

// raw is the bare client: it does the least that has to be written for the same result, decides nothing and keeps no status. What
// it needs is the limit of this machine.
//
// It watches pods as the operator does, so that the price of watching is in both figures.
type raw struct {
	client    *kubernetes.Clientset
	namespace string

	mu   sync.Mutex
	pods map[string]*corev1.Pod
	// ready counts ready pods by the image of their first container. It is kept along, so that waiting costs nothing for each pod.
	ready map[string]int
	// flying counts pods that are not ready, or whose node has not done what was written. It is kept along as well.
	flying int
	// gone are the pods that were seen to go.
	gone map[types.UID]bool
	// waiters are told of one pod each, so that an event costs the same however many pods are in flight.
	waiters map[string]waiter
}

// waiter waits until a condition holds for one pod.
type waiter struct {
	holds func(*corev1.Pod) bool
	done  chan struct{}
}

func newRaw(ctx context.Context, cfg *rest.Config, namespace string) (*raw, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.ContentType, cfg.AcceptContentTypes = "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf,application/json"
	cfg.UserAgent = "kruise-bench-raw"
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	r := &raw{client: client, namespace: namespace, pods: map[string]*corev1.Pod{}, ready: map[string]int{}, gone: map[types.UID]bool{}, waiters: map[string]waiter{}}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	informer := factory.Core().V1().Pods().Informer()
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { r.saw(obj, false) },
		UpdateFunc: func(_, obj any) { r.saw(obj, false) },
		DeleteFunc: func(obj any) { r.saw(obj, true) },
	}); err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, fmt.Errorf("listing pods of namespace %s: %w", namespace, context.Cause(ctx))
	}
	return r, nil
}

func (r *raw) saw(obj any, deleted bool) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		tombstone, ok := obj.(cache.DeletedFinalStateUnknown)
		if !ok {
			return
		}
		if pod, ok = tombstone.Obj.(*corev1.Pod); !ok {
			return
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.pods[pod.Name]; old != nil {
		r.count(old, -1)
	}
	if deleted {
		delete(r.pods, pod.Name)
		r.gone[pod.UID] = true
	} else {
		r.pods[pod.Name] = pod
		r.count(pod, 1)
	}
	if w, waits := r.waiters[pod.Name]; waits && w.holds(pod) {
		delete(r.waiters, pod.Name)
		close(w.done)
	}
}

// count adds n for each state that a pod is in.
func (r *raw) count(pod *corev1.Pod, n int) {
	ready := isReady(pod)
	if ready {
		r.ready[pod.Spec.Containers[0].Image] += n
	}
	if !ready || pod.Status.ObservedGeneration < pod.Generation {
		r.flying += n
	}
}

// start creates n pods and writes the conditions of their gates: two writes each. It returns when all exist, and when all are ready.
func (r *raw) start(ctx context.Context, n int, template corev1.PodTemplateSpec) (created, ready time.Duration, err error) {
	began := time.Now()
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("raw-%d", i)
	}
	err = parallel(ctx, names, func(ctx context.Context, name string) error {
		pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
		pod.Name, pod.Namespace = name, r.namespace
		if _, err := r.client.CoreV1().Pods(r.namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating pod %s: %w", name, err)
		}
		return r.patchConditions(ctx, name, corev1.ConditionTrue, "", shared.GateInPlaceUpdateReady, shared.GateKruisePodReady)
	})
	if err != nil {
		return 0, 0, err
	}
	created = time.Since(began)
	_, err = r.awaitReady(ctx, n, template.Spec.Containers[0].Image)
	return created, time.Since(began), err
}

// replace moves all pods to another image by replacing them, with at most surge more pods than there were: three writes for each, two
// for the new pod and one to delete the old one, once the new one is ready. It returns when the old ones are gone.
func (r *raw) replace(ctx context.Context, surge int, template corev1.PodTemplateSpec) (time.Duration, error) {
	began := time.Now()
	err := r.each(ctx, surge, func(ctx context.Context, name string, write func(func() error) error) error {
		fresh := name + "-new"
		err := write(func() error {
			pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
			pod.Name, pod.Namespace = fresh, r.namespace
			if _, err := r.client.CoreV1().Pods(r.namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
				return err
			}
			return r.patchConditions(ctx, fresh, corev1.ConditionTrue, "", shared.GateInPlaceUpdateReady, shared.GateKruisePodReady)
		})
		if err != nil {
			return err
		}
		if err := r.awaitPod(ctx, fresh, isReady); err != nil {
			return err
		}
		return write(func() error {
			return r.client.CoreV1().Pods(r.namespace).Delete(ctx, name, metav1.DeleteOptions{})
		})
	})
	if err != nil {
		return 0, err
	}
	image := template.Spec.Containers[0].Image
	err = r.await(ctx, func(pods int, ready map[string]int) bool { return pods == ready[image] })
	return time.Since(began), err
}

// update changes the image of all pods in place, with at most window of them in flight: three writes each, the last one only
// after the node has reported the new container. The tail is tailOf.
func (r *raw) update(ctx context.Context, window int, image string) (took time.Duration, tail float64, err error) {
	began := time.Now()
	halves := make(chan time.Time, 1)
	n := r.total()
	go func() {
		half, _ := r.awaitReady(ctx, n, image)
		halves <- half
	}()
	err = r.each(ctx, window, func(ctx context.Context, name string, write func(func() error) error) error {
		return r.updateOne(ctx, name, image, write)
	})
	if err != nil {
		return 0, 0, err
	}
	took = time.Since(began)
	return took, tailOf(began, <-halves, took), nil
}

// total is how many pods there are.
func (r *raw) total() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.pods)
}

// tailOf is how much longer than the first half of the pods the second half took, as a ratio.
func tailOf(began, half time.Time, took time.Duration) float64 {
	first := half.Sub(began)
	return (took - first).Seconds() / max(first.Seconds(), 0.001)
}

// each calls f for every pod there is, for at most window of them at a time. What f passes to write is done by one of rawWorkers.
func (r *raw) each(ctx context.Context, window int, f func(ctx context.Context, name string, write func(func() error) error) error) error {
	r.mu.Lock()
	var names []string
	for name := range r.pods {
		names = append(names, name)
	}
	r.mu.Unlock()

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	room := make(chan struct{}, window)        // one token for each pod in flight
	writers := make(chan struct{}, rawWorkers) // one token for each request in flight
	write := func(request func() error) error {
		writers <- struct{}{}
		defer func() { <-writers }()
		return request()
	}
	var all sync.WaitGroup
	for _, name := range names {
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		all.Go(func() {
			defer func() { <-room }()
			if err := f(ctx, name, write); err != nil {
				cancel(fmt.Errorf("updating pod %s: %w", name, err))
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

func (r *raw) updateOne(ctx context.Context, name, image string, write func(func() error) error) error {
	r.mu.Lock()
	old := r.pods[name].Status.ContainerStatuses[0].ContainerID
	r.mu.Unlock()
	err := write(func() error {
		if err := r.patchConditions(ctx, name, corev1.ConditionFalse, shared.ReasonStartInPlaceUpdate, shared.GateInPlaceUpdateReady); err != nil {
			return err
		}
		patch := fmt.Appendf(nil, `{"spec":{"containers":[{"name":"main","image":%q}]}}`, image)
		_, err := r.client.CoreV1().Pods(r.namespace).Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		return err
	})
	if err != nil {
		return err
	}
	err = r.awaitPod(ctx, name, func(pod *corev1.Pod) bool {
		status := pod.Status.ContainerStatuses[0]
		return pod.Status.ObservedGeneration >= pod.Generation && pod.Spec.Containers[0].Image == image && status.ContainerID != old && status.State.Running != nil
	})
	if err != nil {
		return err
	}
	err = write(func() error {
		return r.patchConditions(ctx, name, corev1.ConditionTrue, "", shared.GateInPlaceUpdateReady)
	})
	if err != nil {
		return err
	}
	return r.awaitPod(ctx, name, isReady)
}

func (r *raw) patchConditions(ctx context.Context, name string, status corev1.ConditionStatus, reason string, gates ...corev1.PodConditionType) error {
	var conditions []corev1.PodCondition
	now := metav1.Now()
	for _, gate := range gates {
		conditions = append(conditions, corev1.PodCondition{Type: gate, Status: status, Reason: reason, LastTransitionTime: now})
	}
	body, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": conditions}})
	if err != nil {
		return err
	}
	_, err = r.client.CoreV1().Pods(r.namespace).Patch(ctx, name, types.StrategicMergePatchType, body, metav1.PatchOptions{}, "status")
	return err
}

// await returns when the condition holds for how many pods there are and how many are ready, by image. It looks every few
// milliseconds: often enough for seconds.
func (r *raw) await(ctx context.Context, holds func(pods int, ready map[string]int) bool) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		r.mu.Lock()
		done := holds(len(r.pods), r.ready)
		r.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// awaitReady returns when there are n pods, all ready with that image, and says when half of them were.
func (r *raw) awaitReady(ctx context.Context, n int, image string) (half time.Time, err error) {
	err = r.await(ctx, func(pods int, ready map[string]int) bool {
		if half.IsZero() && ready[image] >= n/2 {
			half = time.Now()
		}
		return pods == n && ready[image] == n
	})
	return half, err
}

// any returns one of the pods.
func (r *raw) any() *corev1.Pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, pod := range r.pods {
		return pod
	}
	return &corev1.Pod{}
}

// awaitOther returns when the pod with that UID is gone and there are n pods again.
func (r *raw) awaitOther(ctx context.Context, uid types.UID, n int) error {
	return r.await(ctx, func(pods int, _ map[string]int) bool {
		return pods == n && r.gone[uid]
	})
}

// awaitAllReady returns when there are n pods, all ready.
func (r *raw) awaitAllReady(ctx context.Context, n int) error {
	return r.await(ctx, func(pods int, ready map[string]int) bool {
		all := 0
		for _, some := range ready {
			all += some
		}
		return pods == n && all == n
	})
}

// awaitPod returns when the condition holds for one pod.
func (r *raw) awaitPod(ctx context.Context, name string, holds func(*corev1.Pod) bool) error {
	w := waiter{holds: holds, done: make(chan struct{})}
	r.mu.Lock()
	if pod := r.pods[name]; pod != nil && holds(pod) {
		r.mu.Unlock()
		return nil
	}
	r.waiters[name] = w
	r.mu.Unlock()
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// parallel calls f for every name, rawWorkers at a time, and stops at the first error.
func parallel(ctx context.Context, names []string, f func(context.Context, string) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	queue := make(chan string)
	var workers sync.WaitGroup
	for range rawWorkers {
		workers.Go(func() {
			for name := range queue {
				if err := f(ctx, name); err != nil {
					cancel(err)
				}
			}
		})
	}
	for _, name := range names {
		select {
		case queue <- name:
		case <-ctx.Done():
		}
	}
	close(queue)
	workers.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func isReady(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && podstate.Ready(pod)
}

// clear deletes every pod of the namespace at once and waits until they are gone.
func (r *raw) clear(ctx context.Context) error {
	none := int64(0)
	all := metav1.ListOptions{LabelSelector: labels.Everything().String()}
	// Of thousands of pods the server deletes as many as it can in a minute and breaks off, by one error or another.
	err := errors.New("not asked yet")
	for range 5 {
		if err = r.client.CoreV1().Pods(r.namespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &none}, all); err == nil {
			break
		}
	}
	if err != nil {
		return err
	}
	return r.await(ctx, func(pods int, _ map[string]int) bool { return pods == 0 })
}
