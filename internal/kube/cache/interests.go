// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
)

const (
	// readers is how many owners' pods are read at a time.
	readers = 4
	// attempt is the deadline of one page: its list, and its way into the store.
	attempt = 30 * time.Second
	// retryFirst and retryMost bound the back-off of failed reads.
	retryFirst, retryMost = 200 * time.Millisecond, time.Minute
	pageSize              = 500
)

// Interests are live objects' label selectors. The cache keeps matching pods whole. A new
// selector's pods are read again, since the cache has them trimmed; the reads enter the
// watch, where versions order them. It is safe for concurrent use. A nil one suits caches
// of whole pods.
type Interests struct {
	queue workqueue.TypedRateLimitingInterface[string]
	relay relay
	// list and shows are the pod informer's; see New.
	list  func(context.Context, string, metav1.ListOptions) (*corev1.PodList, error)
	shows func(namespace, name string) *corev1.Pod

	mu sync.RWMutex
	of map[string]*interest
	in map[string]map[string]*interest
}

// interest is what one owner wants.
type interest struct {
	namespace string
	selectors map[string]labels.Selector
	// unread are the selectors with trimmed pods in the cache.
	unread []string
}

// NewInterests returns no interests. They need [New], and Start.
func NewInterests() *Interests {
	limit := workqueue.NewTypedItemExponentialFailureRateLimiter[string](retryFirst, retryMost)
	return &Interests{
		queue: workqueue.NewTypedRateLimitingQueue(limit), relay: newRelay(),
		of: map[string]*interest{}, in: map[string]map[string]*interest{},
	}
}

// Set keeps whole the pods of namespace that match any selector. It replaces the owner's
// earlier ones. It returns true once the cache shows all these pods whole. An owner's name
// is unique among all kinds.
func (i *Interests) Set(owner, namespace string, selectors ...labels.Selector) (complete bool) {
	if i == nil {
		return true
	}
	wanted := &interest{namespace: namespace, selectors: byText(selectors)}
	i.mu.Lock()
	defer i.mu.Unlock()
	had := i.of[owner]
	for text := range wanted.selectors {
		if !had.shows(namespace, text) {
			wanted.unread = append(wanted.unread, text)
		}
	}
	if had.is(wanted) {
		return len(had.unread) == 0 // A read may be under way.
	}
	i.forget(owner)
	i.of[owner] = wanted
	if i.in[namespace] == nil {
		i.in[namespace] = map[string]*interest{}
	}
	i.in[namespace][owner] = wanted
	if len(wanted.unread) > 0 {
		i.queue.Add(owner)
	}
	return len(wanted.unread) == 0
}

// byText leaves out selectors of nothing.
func byText(selectors []labels.Selector) map[string]labels.Selector {
	texts := make(map[string]labels.Selector, len(selectors))
	for _, selector := range selectors {
		if _, some := selector.Requirements(); some {
			texts[selector.String()] = selector
		}
	}
	return texts
}

func (i *interest) is(other *interest) bool {
	return i != nil && i.namespace == other.namespace && maps.EqualFunc(i.selectors, other.selectors, func(_, _ labels.Selector) bool { return true })
}

// shows is true if the pods of the selector have been read.
func (i *interest) shows(namespace, text string) bool {
	if i == nil || i.namespace != namespace {
		return false
	}
	_, found := i.selectors[text]
	return found && !slices.Contains(i.unread, text)
}

// Forget ends an owner's interest. Its pods are trimmed at their next event.
func (i *Interests) Forget(owner string) {
	if i == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.forget(owner)
}

func (i *Interests) forget(owner string) {
	had := i.of[owner]
	if had == nil {
		return
	}
	delete(i.of, owner)
	delete(i.in[had.namespace], owner)
	if len(i.in[had.namespace]) == 0 {
		delete(i.in, had.namespace)
	}
}

// show makes the informer's store known.
func (i *Interests) show(store toolscache.Store) {
	i.shows = func(namespace, name string) *corev1.Pod {
		stored, _, _ := store.GetByKey(namespace + "/" + name)
		pod, _ := stored.(*corev1.Pod)
		return pod
	}
}

// Complete is true if the cache shows the owner's pods whole; false without an interest.
func (i *Interests) Complete(owner string) bool {
	if i == nil {
		return true
	}
	i.mu.RLock()
	defer i.mu.RUnlock()
	had := i.of[owner]
	return had != nil && len(had.unread) == 0
}

// Keeps is true for pods of interest.
func (i *Interests) Keeps(pod *corev1.Pod) bool {
	i.mu.RLock()
	defer i.mu.RUnlock()
	for _, interest := range i.in[pod.Namespace] {
		for _, selector := range interest.selectors {
			if selector.Matches(labels.Set(pod.Labels)) {
				return true
			}
		}
	}
	return false
}

// NeedLeaderElection lets it run on every replica.
func (i *Interests) NeedLeaderElection() bool { return false }

// Start reads pods until the context ends.
func (i *Interests) Start(ctx context.Context) error {
	var running sync.WaitGroup
	for range readers {
		running.Go(func() {
			for i.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	i.queue.ShutDown()
	running.Wait()
	return nil
}

func (i *Interests) next(ctx context.Context) bool {
	owner, end := i.queue.Get()
	if end {
		return false
	}
	defer i.queue.Done(owner)
	if err := i.read(ctx, owner); err != nil {
		if ctx.Err() == nil && !errors.Is(err, errListedAnew) {
			ctrl.Log.WithName("cache").Info("Pods could not be read again; trying once more", "owner", owner, "err", err.Error())
		}
		i.queue.AddRateLimited(owner)
		return true
	}
	i.queue.Forget(owner)
	return true
}

// read brings the pods of an owner's unread selectors into the store.
func (i *Interests) read(ctx context.Context, owner string) error {
	i.mu.RLock()
	of := i.of[owner]
	var unread []string
	if of != nil {
		unread = slices.Clone(of.unread)
	}
	i.mu.RUnlock()
	for _, text := range unread {
		if err := i.readAll(ctx, of.namespace, text); err != nil {
			return fmt.Errorf("reading the pods of namespace %s with labels %q: %w", of.namespace, text, err)
		}
		i.mu.Lock()
		of.unread = slices.DeleteFunc(of.unread, func(s string) bool { return s == text })
		i.mu.Unlock()
	}
	return nil
}

func (i *Interests) readAll(ctx context.Context, namespace, selector string) error {
	reading := i.relay.begin(namespace)
	defer i.relay.end(namespace)
	options := metav1.ListOptions{LabelSelector: selector, Limit: pageSize}
	for {
		next, err := i.readPage(ctx, reading, options)
		if err != nil || next == "" {
			return err
		}
		options.Continue = next
	}
}

// readPage returns when the store shows the page.
func (i *Interests) readPage(ctx context.Context, reading reading, options metav1.ListOptions) (next string, err error) {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	page, err := i.list(ctx, reading.namespace, options)
	if err != nil {
		return "", err
	}
	if err := i.relay.offer(ctx, reading, page); err != nil {
		return "", err
	}
	return page.Continue, i.relay.await(ctx, reading, page, i.shows)
}
