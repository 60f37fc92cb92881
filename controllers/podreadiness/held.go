// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podreadiness

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

// otherHolder stands for foreign writers, so metrics have few labels.
const otherHolder = "other"

// holderNames are the metrics' names of holders.
func holderNames() []string { return []string{"ContainerRecreateRequest", "Lifecycle", otherHolder} }

// held counts the pods held out of service for the metrics, our own workloads' included.
type held struct {
	pods, since *prometheus.GaugeVec

	mutex sync.Mutex
	// by is the start of each pod's hold, by holder.
	by map[string]map[types.NamespacedName]time.Time
}

func newHeld(pods, since *prometheus.GaugeVec) *held {
	h := &held{pods: pods, since: since, by: map[string]map[types.NamespacedName]time.Time{}}
	for _, name := range holderNames() {
		h.by[name] = map[types.NamespacedName]time.Time{}
		h.tell(name)
	}
	return h
}

// saw notes who holds a pod.
func (h *held) saw(pod *corev1.Pod) { h.note(client.ObjectKeyFromObject(pod), pod) }

func (h *held) forget(pod *corev1.Pod) { h.note(client.ObjectKeyFromObject(pod), nil) }

func (h *held) note(key types.NamespacedName, pod *corev1.Pod) {
	var now []string
	var since time.Time
	if pod != nil {
		now, since = holding(pod)
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	for name, pods := range h.by {
		was, known := pods[key]
		switch is := slices.Contains(now, name); {
		case is && (!known || !was.Equal(since)):
			pods[key] = since
			h.tell(name)
		case !is && known:
			delete(pods, key)
			h.tell(name)
		}
	}
}

// holding is who holds a pod out of service, as metrics say it, and since when; nobody when it is not held.
func holding(pod *corev1.Pod) (names []string, since time.Time) {
	condition := podstate.Condition(pod, shared.GateKruisePodReady)
	if condition == nil || condition.Status != corev1.ConditionFalse || !podstate.HasGate(pod, shared.GateKruisePodReady) {
		return nil, time.Time{}
	}
	holders := podstate.Holders(pod)
	if len(holders) == 0 {
		names = append(names, otherHolder)
	}
	for _, holder := range holders {
		name := holder.UserAgent
		if !slices.Contains(holderNames(), name) {
			name = otherHolder
		}
		names = append(names, name)
	}
	return names, condition.LastTransitionTime.Time
}

// tell writes the metrics of a holder. The lock is held, or nobody else knows h yet.
func (h *held) tell(name string) {
	oldest := 0.0
	for _, since := range h.by[name] {
		if at := float64(since.Unix()); oldest == 0 || at < oldest {
			oldest = at
		}
	}
	h.pods.WithLabelValues(name).Set(float64(len(h.by[name])))
	h.since.WithLabelValues(name).Set(oldest)
}
