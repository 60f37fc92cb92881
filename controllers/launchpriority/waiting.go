// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package launchpriority

import (
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// waitTimeout is how long a pod may wait at one priority without an event.
const waitTimeout = 2 * time.Minute

// waiting remembers the priorities pods wait for, and since when. Losing it costs a second event.
type waiting struct {
	mutex sync.Mutex
	pods  map[types.NamespacedName]*wait
}

type wait struct {
	uid types.UID
	// at is the lowest released priority.
	at    int
	since time.Time
	told  bool
}

func newWaiting() *waiting { return &waiting{pods: map[types.NamespacedName]*wait{}} }

// saw records a waiting pod, and returns if to report it now and when to check again; 0: on a change.
func (w *waiting) saw(key types.NamespacedName, uid types.UID, at int, now time.Time) (warn bool, again time.Duration) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	one := w.pods[key]
	if one == nil || one.uid != uid || one.at != at {
		one = &wait{uid: uid, at: at, since: now}
		w.pods[key] = one
	}
	left := one.since.Add(waitTimeout).Sub(now)
	if left > 0 {
		return false, left
	}
	warn, one.told = !one.told, true
	return warn, 0
}

func (w *waiting) forget(key types.NamespacedName) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	delete(w.pods, key)
}

// count counts the waiting pods: told of, and not yet.
func (w *waiting) count(set func(value float64, labels ...string)) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	counts := map[bool]int{}
	for _, one := range w.pods {
		counts[one.told]++
	}
	for _, long := range []bool{false, true} {
		set(float64(counts[long]), strconv.FormatBool(long))
	}
}
