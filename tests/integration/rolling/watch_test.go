// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package rolling_test

import (
	"fmt"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/kruise-operator/kruise-operator/internal/engine/rolling/testutil"
)

// watcher checks every change of pods and ReplicaSets.
type watcher struct {
	mu     sync.Mutex
	broken []string
	// limit is how many pods of version may be new (-1: no version yet), least how many have to be ready.
	version, limit, least int
	// free: a change of replicas or the end of the release makes new pods, too.
	free bool
	// excused: a change of replicas takes pods, too.
	excused bool
	sizes   [testutil.Versions]int
	ready   map[types.UID]bool
	// oldest counts pods of the first version that went before those of the second.
	oldest int
}

// set changes what is allowed.
func (w *watcher) set(change func(*watcher)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(w)
}

// start watches until the test ends.
func (d *deployment) start(w *watcher) {
	d.Helper()
	pods, err := d.client.CoreV1().Pods(d.namespace).Watch(d.Context(), metav1.ListOptions{})
	if err != nil {
		d.Fatal(err)
	}
	sets, err := d.client.AppsV1().ReplicaSets(d.namespace).Watch(d.Context(), metav1.ListOptions{})
	if err != nil {
		d.Fatal(err)
	}
	w.ready = map[types.UID]bool{}
	d.Cleanup(func() { pods.Stop(); sets.Stop() })
	go follow(w, pods, w.pod)
	go follow(w, sets, w.replicaSet)
}

func follow(w *watcher, events watch.Interface, see func(watch.Event)) {
	for event := range events.ResultChan() {
		w.mu.Lock()
		see(event)
		w.mu.Unlock()
	}
}

func (w *watcher) pod(event watch.Event) {
	pod, ok := event.Object.(*corev1.Pod)
	if !ok {
		return
	}
	gone := event.Type == watch.Deleted || pod.DeletionTimestamp != nil
	ready := false
	for _, c := range pod.Status.Conditions {
		ready = ready || c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	}
	was := w.ready[pod.UID]
	if ready && !gone {
		w.ready[pod.UID] = true
	} else {
		delete(w.ready, pod.UID)
	}
	if was && gone && len(w.ready) < w.least && !w.excused {
		w.broken = append(w.broken, fmt.Sprintf("%d pods are ready, and %d have to be", len(w.ready), w.least))
	}
}

func (w *watcher) replicaSet(event watch.Event) {
	set, ok := event.Object.(*appsv1.ReplicaSet)
	if !ok || event.Type == watch.Deleted {
		return
	}
	v, was := version(&set.Spec.Template), w.sizes
	w.sizes[v] = int(*set.Spec.Replicas)
	if v == w.version && w.sizes[v] > was[v] && w.sizes[v] > w.limit && !w.free {
		w.broken = append(w.broken, fmt.Sprintf("%d new pods, and the step allows %d", w.sizes[v], w.limit))
	}
	if v == 0 && w.version == 2 && w.sizes[1] > 0 && w.sizes[0] < was[0] && !w.free {
		w.oldest += was[0] - w.sizes[0]
	}
}
