// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
)

// storePoll is how often the store is looked at for pods read again.
const storePoll = 10 * time.Millisecond

// errListedAnew: the informer began a list after a read. The read may be older.
var errListedAnew = errors.New("the informer lists all pods anew")

// relay carries the pods' watch to the informer, with pods read again in between. In
// namespaces under reading it keeps each pod's newest version and lets nothing older pass.
type relay struct {
	offers chan offer

	mu sync.Mutex
	// lists counts the informer's lists.
	lists int
	by    map[string]*passed
}

// passed is what went by of one namespace.
type passed struct {
	readers int
	// until is the version of the latest read: later events are newer than all of it.
	until string
	pods  map[string]version
}

type version struct {
	resource string
	deleted  bool
	// read is the pod itself if it was read again.
	read *corev1.Pod
}

// reading is one read of a namespace.
type reading struct {
	namespace string
	lists     int
}

// offer is a page for the informer.
type offer struct {
	reading
	page *corev1.PodList
	done chan<- error
}

func newRelay() relay { return relay{offers: make(chan offer), by: map[string]*passed{}} }

// isOlder is false for versions that cannot be compared.
func isOlder(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}

// begin remembers what passes of a namespace. A list after it knows all that passed before.
func (r *relay) begin(namespace string) reading {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by[namespace] == nil {
		r.by[namespace] = &passed{pods: map[string]version{}}
	}
	r.by[namespace].readers++
	return reading{namespace: namespace, lists: r.lists}
}

func (r *relay) end(namespace string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if of := r.by[namespace]; of.readers > 1 || of.until != "" {
		of.readers--
		return
	}
	delete(r.by, namespace)
}

// listing: the informer begins a list. What follows it starts from there.
func (r *relay) listing() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lists++
	for namespace, of := range r.by {
		of.until = ""
		clear(of.pods)
		if of.readers == 0 {
			delete(r.by, namespace)
		}
	}
}

// passes is true for events that are not older than what passed of their pod.
func (r *relay) passes(e watch.Event) bool {
	pod, ok := e.Object.(*corev1.Pod)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !ok || len(r.by) == 0 {
		return true
	}
	for namespace, of := range r.by {
		if of.readers == 0 && !isOlder(pod.ResourceVersion, of.until) {
			delete(r.by, namespace)
		}
	}
	of := r.by[pod.Namespace]
	if of == nil || e.Type == watch.Bookmark {
		return true
	}
	last := of.pods[pod.Name]
	if isOlder(pod.ResourceVersion, last.resource) || last.read != nil && pod.ResourceVersion == last.resource {
		return false
	}
	of.pods[pod.Name] = version{resource: pod.ResourceVersion, deleted: e.Type == watch.Deleted}
	return true
}

// current leaves out of a page what has passed in a newer version.
func (r *relay) current(o offer) ([]*corev1.Pod, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o.lists != r.lists {
		return nil, errListedAnew
	}
	of := r.by[o.namespace]
	if of.until == "" || isOlder(of.until, o.page.ResourceVersion) {
		of.until = o.page.ResourceVersion
	}
	var pods []*corev1.Pod
	for i := range o.page.Items {
		pod := &o.page.Items[i]
		if isOlder(pod.ResourceVersion, of.pods[pod.Name].resource) {
			continue
		}
		of.pods[pod.Name] = version{resource: pod.ResourceVersion, read: pod}
		pods = append(pods, pod)
	}
	return pods, nil
}

// offer returns when the informer has the page.
func (r *relay) offer(ctx context.Context, of reading, page *corev1.PodList) error {
	done := make(chan error, 1)
	select {
	case r.offers <- offer{reading: of, page: page, done: done}:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// await returns when the store shows the page, or what is newer.
func (r *relay) await(ctx context.Context, of reading, page *corev1.PodList, shows func(namespace, name string) *corev1.Pod) error {
	next := 0
	return wait.PollUntilContextCancel(ctx, storePoll, true, func(context.Context) (bool, error) {
		for ; next < len(page.Items); next++ {
			pod := &page.Items[next]
			shown, err := r.isShown(of, pod, shows(pod.Namespace, pod.Name))
			if !shown {
				return false, err
			}
		}
		return true, nil
	})
}

// isShown is true if what is stored is the pod read again, or newer. At the same version it
// may still be the trimmed one.
func (r *relay) isShown(of reading, pod, stored *corev1.Pod) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lists != of.lists {
		return false, errListedAnew
	}
	last := r.by[of.namespace].pods[pod.Name]
	if stored == nil {
		return last.deleted, nil
	}
	return stored == last.read || isOlder(pod.ResourceVersion, stored.ResourceVersion), nil
}

// watch relays a watch. Pods read again join in after the initial events of a streamed list.
func (r *relay) watch(from watch.Interface, options metav1.ListOptions) watch.Interface {
	to := make(chan watch.Event)
	proxy := watch.NewProxyWatcher(to)
	streams := options.SendInitialEvents != nil && *options.SendInitialEvents
	go func() {
		defer close(to)
		defer from.Stop()
		s := relayed{relay: r, to: to, stop: proxy.StopChan(), position: options.ResourceVersion, initial: streams}
		for s.step(from.ResultChan()) {
		}
	}()
	return proxy
}

// relayed is one relayed watch.
type relayed struct {
	relay *relay
	to    chan<- watch.Event
	stop  <-chan struct{}
	// position is where a watch after this one must go on.
	position string
	initial  bool
}

func (s *relayed) step(from <-chan watch.Event) bool {
	offers := s.relay.offers
	if s.initial || s.position == "" {
		offers = nil
	}
	select {
	case <-s.stop:
		return false
	case e, open := <-from:
		return open && s.event(e)
	case o := <-offers:
		return s.inject(o)
	}
}

func (s *relayed) event(e watch.Event) bool {
	if pod, ok := e.Object.(*corev1.Pod); ok {
		s.position = pod.ResourceVersion
		if e.Type == watch.Bookmark && pod.Annotations[metav1.InitialEventsAnnotationKey] == "true" {
			s.initial = false
		}
	}
	return !s.relay.passes(e) || s.send(e)
}

// inject sends a page, and a bookmark, so that the informer goes on from its own position.
func (s *relayed) inject(o offer) bool {
	pods, err := s.relay.current(o)
	defer func() { o.done <- err }()
	for _, pod := range pods {
		if !s.send(watch.Event{Type: watch.Modified, Object: pod}) {
			return false
		}
	}
	if len(pods) == 0 {
		return true
	}
	at := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: s.position}}
	return s.send(watch.Event{Type: watch.Bookmark, Object: at})
}

func (s *relayed) send(e watch.Event) bool {
	select {
	case s.to <- e:
		return true
	case <-s.stop:
		return false
	}
}
