// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
)

// denialLasts is how long a refused read counts. An informer tries again within half of it.
const denialLasts = time.Minute

// Denied are the resources the server does not let the cache read. Their informers retry
// silently, and everything in need of the objects waits. It is safe for concurrent use; nil
// denies nothing.
type Denied struct {
	clock clock.PassiveClock

	mu sync.Mutex
	by map[schema.GroupResource]denial
}

type denial struct {
	message string
	at      time.Time
	// version is the informer's at the refusal; read is its current one. If they differ, it
	// may read again.
	version string
	read    func() string
}

// NewDenied returns an empty Denied.
func NewDenied(c clock.PassiveClock) *Denied {
	return &Denied{clock: c, by: map[schema.GroupResource]denial{}}
}

// Handle handles errors of informers: beside the default it notes refusals.
func (d *Denied) Handle(ctx context.Context, r *toolscache.Reflector, err error) {
	toolscache.DefaultWatchErrorHandler(ctx, r, err)
	if d.note(err, r.LastSyncResourceVersion) {
		ctrl.Log.WithName("cache").Info("The operator may not read what it needs; install its roles again", "err", err.Error())
	}
}

// note keeps a refusal to read, and is true if it is news. read is the informer's version.
func (d *Denied) note(err error, read func() string) bool {
	var status apierrors.APIStatus
	if !apierrors.IsForbidden(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	details := status.Status().Details
	d.mu.Lock()
	defer d.mu.Unlock()
	resource := schema.GroupResource{Group: details.Group, Resource: details.Kind}
	_, known := d.by[resource]
	d.by[resource] = denial{message: status.Status().Message, at: d.clock.Now(), version: read(), read: read}
	return !known
}

// Of is the server's refusal to let the resource be read; empty if there is none.
func (d *Denied) Of(resource schema.GroupResource) string {
	return d.current()[resource]
}

// Messages are the server's refusals of all unreadable resources, sorted.
func (d *Denied) Messages() []string {
	return slices.Sorted(maps.Values(d.current()))
}

// current forgets refusals too old, or read since.
func (d *Denied) current() map[schema.GroupResource]string {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	messages := map[schema.GroupResource]string{}
	for resource, denied := range d.by {
		if d.clock.Since(denied.at) > denialLasts || denied.read() != denied.version {
			delete(d.by, resource)
			continue
		}
		messages[resource] = denied.message
	}
	return messages
}
