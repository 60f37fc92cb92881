// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package launchpriority

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

// waitTimeout is how long a pod may wait at one priority without an event.
const waitTimeout = 2 * time.Minute

// waiting remembers the priorities pods wait for, and since when. Losing it costs a second event.
type waiting struct {
	gauge *prometheus.GaugeVec

	mutex sync.Mutex
	pods  map[types.NamespacedName]*wait
	// long is how many of them have been told of.
	long int
}

type wait struct {
	uid types.UID
	// at is the lowest released priority.
	at    int
	since time.Time
	told  bool
}

func newWaiting(gauge *prometheus.GaugeVec) *waiting {
	w := &waiting{gauge: gauge, pods: map[types.NamespacedName]*wait{}}
	w.count()
	return w
}

// saw records a waiting pod, and returns if to report it now and when to check again; 0: on a change.
func (w *waiting) saw(key types.NamespacedName, uid types.UID, at int, now time.Time) (warn bool, again time.Duration) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	defer w.count()
	one := w.pods[key]
	if one == nil || one.uid != uid || one.at != at {
		w.drop(key)
		one = &wait{uid: uid, at: at, since: now}
		w.pods[key] = one
	}
	left := one.since.Add(waitTimeout).Sub(now)
	switch {
	case left > 0:
		return false, left
	case one.told:
		return false, 0
	}
	one.told = true
	w.long++
	return true, 0
}

func (w *waiting) forget(key types.NamespacedName) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.drop(key)
	w.count()
}

// drop takes a pod out. The lock is held.
func (w *waiting) drop(key types.NamespacedName) {
	if one := w.pods[key]; one != nil && one.told {
		w.long--
	}
	delete(w.pods, key)
}

// count writes the gauge from running totals: every event of a pod calls it. The lock is held, or nobody else knows w yet.
func (w *waiting) count() {
	w.gauge.WithLabelValues("false").Set(float64(len(w.pods) - w.long))
	w.gauge.WithLabelValues("true").Set(float64(w.long))
}
