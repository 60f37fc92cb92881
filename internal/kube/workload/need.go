// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/kruise-operator/kruise-operator/internal/engine/inplace"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

const (
	// needLasts is how long a need counts without being repeated: its object may be gone.
	needLasts = 5 * time.Minute
	// maxNeeds is how many of them are remembered.
	maxNeeds = 1 << 16
	// needRepeats is how often an object repeats its need of the node daemon.
	needRepeats = time.Minute
)

// DaemonNeeds are objects in need of the node daemon although their kind is not: workloads
// whose pods wait for it, and NodeImages with handwritten tags. The controllers of all
// kinds share one. A nil one takes none.
type DaemonNeeds struct {
	added  chan event.GenericEvent
	needed *cache.LRUExpireCache
}

// NewDaemonNeeds returns needs without any object.
func NewDaemonNeeds(c clock.PassiveClock) *DaemonNeeds {
	return &DaemonNeeds{added: make(chan event.GenericEvent, 1), needed: cache.NewLRUExpireCacheWithClock(maxNeeds, c)}
}

// Added gets an event when an object begins to need the daemon.
func (n *DaemonNeeds) Added() <-chan event.GenericEvent { return n.added }

// Any is true if an object needs the daemon.
func (n *DaemonNeeds) Any() bool { return n != nil && len(n.needed.Keys()) > 0 }

// note remembers an object's need of the daemon.
func (n *DaemonNeeds) note(object types.UID, needs bool) {
	_, known := n.needed.Get(object)
	if !needs {
		n.needed.Remove(object)
		return
	}
	n.needed.Add(object, nil, needLasts)
	if !known {
		select {
		case n.added <- event.GenericEvent{}:
		default: // one is on its way
		}
	}
}

// needNodeDaemon has the node daemon deployed while pods wait for it, and says when to come back.
func (p *Pass) needNodeDaemon(pods []podset.Pod) time.Duration {
	needs := false
	for i := range pods {
		needs = needs || pods[i].Update.Reason == inplace.ReasonNodeDaemon && !pods[i].Terminating
	}
	return p.NoteDaemonNeed(needs)
}

// NoteDaemonNeed has the node daemon deployed while the object needs it, and says when to come back.
func (p *Pass) NoteDaemonNeed(needs bool) time.Duration {
	if p.DaemonNeeds == nil {
		return 0
	}
	p.DaemonNeeds.note(p.Stored.GetUID(), needs)
	if needs {
		return needRepeats
	}
	return 0
}
