// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// shown is how many violations a failing test prints.
const shown = 20

// Watcher records a set's and its pods' changes.
type Watcher struct {
	t         testing.TB
	client    client.WithWatch
	namespace string
	set       string
	ours      *regexp.Regexp
	judge     func(events []Event, foreign map[types.UID]bool) Verdict
	// sets lists sets of the watched kind; nil: StatefulSets.
	sets func() client.ObjectList

	mutex   sync.Mutex
	events  []Event
	seen    map[types.UID]uint64
	foreign map[types.UID]bool
	err     error
}

// Watch begins to record. The set need not exist yet. When the test ends, everything recorded is judged, and the test fails when
// a rule was broken.
func Watch(t testing.TB, c client.WithWatch, namespace, set string, rules Rules) *Watcher {
	t.Helper()
	return watch(t, &Watcher{
		client: c, namespace: namespace, set: set,
		ours:  regexp.MustCompile("^" + regexp.QuoteMeta(set) + "-[0-9]+$"),
		judge: func(events []Event, foreign map[types.UID]bool) Verdict { return Judge(events, rules, foreign) },
	})
}

// watch makes a Watcher record.
func watch(t testing.TB, w *Watcher) *Watcher {
	t.Helper()
	w.t, w.seen, w.foreign = t, map[types.UID]uint64{}, map[types.UID]bool{}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	t.Cleanup(func() {
		w.Verify()
		cancel()
		running.Wait()
	})
	if w.sets == nil {
		w.sets = func() client.ObjectList { return &v1beta1.StatefulSetList{} }
	}
	for _, list := range []client.ObjectList{&corev1.PodList{}, w.sets()} {
		stream, err := w.start(ctx, list)
		if err != nil {
			t.Fatalf("watching set %s: %v", w.set, err)
		}
		running.Go(func() { w.follow(ctx, stream) })
	}
	return w
}

// Foreign announces deletions of pods by another hand than the operator's. Call it before
// deleting.
func (w *Watcher) Foreign(uids ...types.UID) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for _, uid := range uids {
		w.foreign[uid] = true
	}
}

// Verify judges everything up to now and fails the test for a broken rule.
func (w *Watcher) Verify() Verdict {
	w.t.Helper()
	if err := w.catchUp(); err != nil {
		w.t.Errorf("watching set %s: %v", w.set, err)
	}
	w.mutex.Lock()
	events, foreign := w.events, maps.Clone(w.foreign)
	w.mutex.Unlock()
	verdict := w.judge(events, foreign)
	if n := len(verdict.Violations); n > 0 {
		w.t.Errorf("set %s: %d times a limit was broken:\n%s", w.set, n, strings.Join(verdict.Violations[:min(n, shown)], "\n"))
	}
	return verdict
}

func (w *Watcher) start(ctx context.Context, list client.ObjectList) (apiwatch.Interface, error) {
	if err := w.client.List(ctx, list, client.InNamespace(w.namespace)); err != nil {
		return nil, fmt.Errorf("listing: %w", err)
	}
	objects, err := objectsOf(list)
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		w.record(o, true, false)
	}
	// The server ends the watch of a slow client. It resumes, so nothing is missed.
	return watchtools.NewRetryWatcherWithContext(ctx, list.GetResourceVersion(), &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
			return w.client.Watch(ctx, list, &client.ListOptions{Namespace: w.namespace, Raw: &options})
		},
	})
}

func (w *Watcher) follow(ctx context.Context, stream apiwatch.Interface) {
	defer stream.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case event, open := <-stream.ResultChan():
			object, isObject := event.Object.(client.Object)
			if !open || event.Type == apiwatch.Error || !isObject {
				if ctx.Err() == nil {
					w.mutex.Lock()
					w.err = fmt.Errorf("the watch ended: %s %v", event.Type, event.Object)
					w.mutex.Unlock()
				}
				return
			}
			w.record(object, false, event.Type == apiwatch.Deleted)
		}
	}
}

func (w *Watcher) record(object client.Object, initial, deleted bool) {
	version, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if err != nil {
		w.err = fmt.Errorf("the resource version of %s: %w", object.GetName(), err)
		return
	}
	e := Event{Version: version, At: time.Now(), Initial: initial, Deleted: deleted}
	switch o := object.(type) {
	case *corev1.Pod:
		if !w.ours.MatchString(o.Name) {
			return
		}
		e.Pod = o
	case *v1beta1.StatefulSet:
		if o.Name != w.set {
			return
		}
		e.Set = o
	case *v1beta1.CloneSet:
		if o.Name != w.set {
			return
		}
		e.CloneSet = o
	default:
		return
	}
	w.events = append(w.events, e)
	w.seen[object.GetUID()] = version
}

// catchUp waits until the server's present state was recorded.
func (w *Watcher) catchUp() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.t.Context()), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	wanted, err := w.present(ctx)
	if err != nil {
		return err
	}
	for {
		w.mutex.Lock()
		err := w.err
		missing := 0
		for uid, version := range wanted {
			if w.seen[uid] < version {
				missing++
			}
		}
		w.mutex.Unlock()
		if err != nil || missing == 0 {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%d changes were not reported: %w", missing, ctx.Err())
		}
	}
}

func (w *Watcher) present(ctx context.Context) (map[types.UID]uint64, error) {
	var objects []client.Object
	for _, list := range []client.ObjectList{&corev1.PodList{}, w.sets()} {
		if err := w.client.List(ctx, list, client.InNamespace(w.namespace)); err != nil {
			return nil, fmt.Errorf("listing: %w", err)
		}
		all, err := objectsOf(list)
		if err != nil {
			return nil, err
		}
		for _, o := range all {
			if _, isPod := o.(*corev1.Pod); isPod && w.ours.MatchString(o.GetName()) || !isPod && o.GetName() == w.set {
				objects = append(objects, o)
			}
		}
	}
	versions := map[types.UID]uint64{}
	for _, o := range objects {
		version, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("the resource version of %s: %w", o.GetName(), err)
		}
		versions[o.GetUID()] = version
	}
	return versions, nil
}

// objectsOf are the items of a list.
func objectsOf(list client.ObjectList) ([]client.Object, error) {
	items, err := meta.ExtractList(list)
	if err != nil {
		return nil, fmt.Errorf("reading %T: %w", list, err)
	}
	objects := make([]client.Object, 0, len(items))
	for _, item := range items {
		if o, is := item.(client.Object); is {
			objects = append(objects, o)
		}
	}
	return objects, nil
}
