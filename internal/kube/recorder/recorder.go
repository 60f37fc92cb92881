// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package recorder bounds events. An event costs the API server about as much as the write it reports.
//
// Warnings, and an object's first events, go out unchanged. Later events lose their related
// object: client-go counts events equal but for the note as a series, at the cost of two
// writes.
//
// Notes are cut to the server's limit: it refuses longer events, such as a webhook's long
// answer.
package recorder

import (
	"fmt"
	"strings"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/lru"
)

const (
	// objectBurst events of an object go out as they are, and one more for every ten seconds since: a person may be watching.
	objectBurst     = 25
	objectPerSecond = 0.1
	// All objects together send this many at once, and so many a second, for the same reason when hundreds of sets start.
	burst     = 100
	perSecond = 2
	// remembered is how many objects are remembered.
	remembered = 4096
	// longest is the server's limit of an event's note, in bytes.
	longest = 1024
)

// Recorder bounds the events to another recorder.
type Recorder struct {
	next events.EventRecorder
	all  *rate.Limiter
	// objects are the limits of objects, by UID.
	objects *lru.Cache
}

// New returns a Recorder in front of next.
func New(next events.EventRecorder) *Recorder {
	return &Recorder{next: next, all: rate.NewLimiter(perSecond, burst), objects: lru.New(remembered)}
}

// Eventf implements events.EventRecorder. It never waits.
func (r *Recorder) Eventf(regarding, related runtime.Object, eventtype, reason, action, format string, args ...any) {
	if eventtype != corev1.EventTypeWarning && (!r.limiter(regarding).Allow() || !r.all.Allow()) {
		related = nil
	}
	note := fmt.Sprintf(format, args...)
	r.next.Eventf(regarding, related, eventtype, reason, action, "%s", strings.ToValidUTF8(note[:min(len(note), longest)], ""))
}

// limiter is one object's.
func (r *Recorder) limiter(object runtime.Object) *rate.Limiter {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return r.all
	}
	known, _ := r.objects.Get(accessor.GetUID())
	limiter, ok := known.(*rate.Limiter)
	if !ok {
		limiter = rate.NewLimiter(objectPerSecond, objectBurst)
		r.objects.Add(accessor.GetUID(), limiter)
	}
	return limiter
}
