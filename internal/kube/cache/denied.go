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

// denialLasts is for how long the server's word counts that something may not be read. An informer tries again within half of it.
const denialLasts = time.Minute

// Denied are the resources that the server does not let the cache read. An informer of such a resource retries silently, and everything that
// needs its objects waits. It is safe for concurrent use; nil denies nothing.
type Denied struct {
	clock clock.PassiveClock

	mu sync.Mutex
	by map[schema.GroupResource]denial
}

type denial struct {
	message string
	at      time.Time
	// version is what the informer had read when it was refused; read says what it has read by now. Another version: it may read again.
	version string
	read    func() string
}

// NewDenied returns a Denied that has seen nothing yet.
func NewDenied(c clock.PassiveClock) *Denied {
	return &Denied{clock: c, by: map[schema.GroupResource]denial{}}
}

// Handle is the handler of errors of informers: beside what they do without one, it keeps what the server refuses.
func (d *Denied) Handle(ctx context.Context, r *toolscache.Reflector, err error) {
	toolscache.DefaultWatchErrorHandler(ctx, r, err)
	if d.note(err, r.LastSyncResourceVersion) {
		ctrl.Log.WithName("cache").Info("The operator may not read what it needs; install its roles again", "err", err.Error())
	}
}

// note keeps an error that says that something may not be read, and says whether it is news. read is the version that the informer has read.
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

// Of is what the server said when it refused to let the resource be read; empty when it does not refuse.
func (d *Denied) Of(resource schema.GroupResource) string {
	return d.current()[resource]
}

// Messages are the server's answers about all resources that the operator may not read, sorted.
func (d *Denied) Messages() []string {
	return slices.Sorted(maps.Values(d.current()))
}

// current forgets what was refused too long ago, or was read since.
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
