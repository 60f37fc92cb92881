// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package recorder aggregates events. client-go sends every event at once and drops events beyond its queue of a thousand, so that the writes of
// a large workload would compete with its events for the API server, and some events would be lost.
//
// Warnings go out at once. Other events do too while those of an object are few. Beyond that, events of an object with the same content are
// gathered for some seconds and sent as one, which has the full message of the first and names the others. Events that still wait at the end
// are sent then, up to a limit; more are dropped and counted.
//
// Notes are cut off at what the server takes: it refuses an event with a longer one, such as the long answer of somebody's webhook.
package recorder

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	ref "k8s.io/client-go/tools/reference"

	"github.com/kruise-operator/kruise-operator/internal/platform/metrics"
)

const (
	// An object's first events go out at once, and one more for every ten seconds that have passed since: events that a person watches are sent
	// at once. An event costs the API server about as much as the write it reports.
	objectBurst     = 25
	objectPerSecond = 0.1
	// All objects together send this many at once, and so many a second, for the same reason when hundreds of sets start.
	burst     = 100
	perSecond = 2
	// gathering is how long events are gathered before they go out as one.
	gathering = 5 * time.Second
	// gatheredPerSecond is how many of these go out each second.
	gatheredPerSecond = 10
	// waiting is how many of these may wait; more are dropped and counted.
	waiting = 5000
	// remembered is how many objects are remembered before those with nothing to remember are forgotten. When most have something, that is done again
	// only when there are twice as many: each time looks at all of them.
	remembered = 4096
	// longest is the limit of an event's note in bytes, which the server sets.
	longest = 1024
)

// Recorder evens out the events that go to another recorder. It sends those that are gathered while Start runs.
type Recorder struct {
	next    events.EventRecorder
	metrics *metrics.Metrics
	// all limits what goes out at once, rest what was gathered.
	all, rest *rate.Limiter
	gathering time.Duration

	mu      sync.Mutex
	objects map[types.UID]*rate.Limiter
	// sweepAt is how many objects there may be before those with nothing to remember are forgotten.
	sweepAt int
	// gathered are the events that wait, order is the order in which their first ones came.
	gathered map[kind]*group
	order    []kind
}

// kind is what events have in common that are gathered.
type kind struct {
	regarding                 types.UID
	eventtype, reason, action string
}

// group are events of one kind. Only the first is kept.
type group struct {
	since              time.Time
	regarding, related runtime.Object
	note               string
	// more is how many others there are, names what some of them are about.
	more  int
	names []string
	// size is how many bytes the names come to.
	size int
}

// New returns a Recorder in front of next.
func New(next events.EventRecorder, m *metrics.Metrics) *Recorder {
	return &Recorder{
		next: next, metrics: m, gathering: gathering,
		all: rate.NewLimiter(perSecond, burst), rest: rate.NewLimiter(gatheredPerSecond, 1),
		objects: map[types.UID]*rate.Limiter{}, sweepAt: remembered, gathered: map[kind]*group{},
	}
}

// Eventf implements events.EventRecorder. It never waits.
func (r *Recorder) Eventf(regarding, related runtime.Object, eventtype, reason, action, format string, args ...any) {
	uid := uidOf(regarding)
	if eventtype == corev1.EventTypeWarning || r.limiter(uid).Allow() && r.all.Allow() {
		r.next.Eventf(regarding, related, eventtype, reason, action, "%s", cut(fmt.Sprintf(format, args...)))
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	k := kind{uid, eventtype, reason, action}
	if g := r.gathered[k]; g != nil {
		g.add(related)
		return
	}
	if len(r.gathered) >= waiting {
		r.metrics.DroppedEvents.Inc()
		return
	}
	r.gathered[k] = &group{since: time.Now(), regarding: reference(regarding), related: reference(related), note: fmt.Sprintf(format, args...)}
	r.order = append(r.order, k)
}

// cut is what of a note the server takes.
func cut(note string) string {
	return strings.ToValidUTF8(note[:min(len(note), longest)], "")
}

// add counts one more event and, while there is room, remembers what it is about.
func (g *group) add(related runtime.Object) {
	g.more++
	name := nameOf(related)
	if name == "" || len(g.note)+g.size+len(name) > longest-64 {
		return
	}
	g.names = append(g.names, name)
	g.size += len(name) + len(", ")
}

// text is the note of the event that stands for all.
func (g *group) text() string {
	switch {
	case g.more == 0:
		return g.note
	case len(g.names) == 0:
		return fmt.Sprintf("%s; and %d more like it", g.note, g.more)
	case len(g.names) < g.more:
		return fmt.Sprintf("%s; the same for %d more: %s, ...", g.note, g.more, strings.Join(g.names, ", "))
	default:
		return fmt.Sprintf("%s; the same for %d more: %s", g.note, g.more, strings.Join(g.names, ", "))
	}
}

// limiter is that of one object.
func (r *Recorder) limiter(uid types.UID) *rate.Limiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.objects[uid]
	if l == nil {
		if len(r.objects) >= r.sweepAt {
			maps.DeleteFunc(r.objects, func(_ types.UID, l *rate.Limiter) bool { return l.Tokens() >= objectBurst })
			r.sweepAt = max(remembered, 2*len(r.objects))
		}
		l = rate.NewLimiter(objectPerSecond, objectBurst)
		r.objects[uid] = l
	}
	return l
}

func uidOf(object runtime.Object) types.UID {
	if accessor, err := meta.Accessor(object); err == nil {
		return accessor.GetUID()
	}
	return ""
}

func nameOf(object runtime.Object) string {
	if accessor, err := meta.Accessor(object); err == nil {
		return accessor.GetName()
	}
	return ""
}

// reference is the part of an object that an event needs, so that a thousand waiting events do not keep a thousand pods in memory.
func reference(object runtime.Object) runtime.Object {
	if object == nil {
		return nil
	}
	if ref, err := ref.GetReference(scheme.Scheme, object); err == nil {
		return ref
	}
	return object // it is not known here, but may be to the recorder behind
}

// Start sends gathered events until ctx is done, and then those that still wait, as many as all objects may send at once.
func (r *Recorder) Start(ctx context.Context) error {
	tick := time.NewTicker(max(r.gathering/5, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			r.flush()
			return nil
		case <-tick.C:
		}
		for k, g := r.oldest(r.gathering); g != nil; k, g = r.oldest(r.gathering) {
			err := r.rest.Wait(ctx)
			r.send(k, g)
			if err != nil {
				break // ctx is done
			}
		}
	}
}

func (r *Recorder) send(k kind, g *group) {
	r.next.Eventf(g.regarding, g.related, k.eventtype, k.reason, k.action, "%s", cut(g.text()))
}

// flush sends what nobody would send later: the next leader, or the next manager of this process, does not know of it.
func (r *Recorder) flush() {
	for range burst {
		k, g := r.oldest(0)
		if g == nil {
			return
		}
		r.send(k, g)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.metrics.DroppedEvents.Add(float64(len(r.order)))
}

// oldest takes out the oldest group, if it has been gathered for that long.
func (r *Recorder) oldest(gathered time.Duration) (kind, *group) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.order) == 0 || time.Since(r.gathered[r.order[0]].since) < gathered {
		return kind{}, nil
	}
	k := r.order[0]
	g := r.gathered[k]
	delete(r.gathered, k)
	r.order = r.order[1:]
	return k, g
}
