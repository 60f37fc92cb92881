// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podset

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/inplace"
	"github.com/kruise-operator/kruise-operator/internal/engine/lifecycle"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
)

// RevisionOf is the full name of a pod's revision; empty without its label. The label has that or the hash alone.
func RevisionOf(workload string, pod *corev1.Pod) string {
	label := pod.Labels[shared.LabelControllerRevisionHash]
	if label == "" {
		return ""
	}
	return revision.Name(workload, revision.HashOf(label))
}

// Identity is the workload's own knowledge about a pod.
type Identity struct {
	Slot     planning.Slot
	Revision string
	Unwanted Unwanted
}

// FactRules are the same for all pods of a workload.
type FactRules struct {
	Now      time.Time
	MinReady time.Duration
	InPlace  inplace.Options
}

// Observe derives the facts about one pod.
//
// A pod is available when it is ready for the minimum time and nothing is done to it: it is at no hook, not terminating, and no
// update in place holds it out of service.
func Observe(object *corev1.Pod, id Identity, rules FactRules) Pod {
	pod := Pod{
		Object:      object,
		Slot:        id.Slot,
		Revision:    id.Revision,
		Unwanted:    id.Unwanted,
		State:       lifecycle.StateOf(object),
		Update:      inplace.Check(object, rules.InPlace, rules.Now),
		Terminating: object.DeletionTimestamp != nil,
		Ready:       podstate.RunningAndReady(object),
	}
	pod.Trouble = TroubleOf(object, pod.Update, func() time.Time { return inplace.Began(object) }, rules.Now)
	if pod.Ready && !pod.Terminating && lifecycle.IsNormal(pod.State) && !underUpdate(&pod) {
		pod.Available, pod.AvailableIn = podstate.Availability(object, rules.MinReady, rules.Now)
	}
	return pod
}

// underUpdate says that an update in place holds the pod out of service. A finished update still does, until
// the condition of its readiness gate is True again. A pod without the gate has no such condition.
func underUpdate(pod *Pod) bool {
	switch pod.Update.Progress {
	case inplace.None:
		return false
	case inplace.Done:
		condition := podstate.Condition(pod.Object, shared.GateInPlaceUpdateReady)
		return podstate.HasGate(pod.Object, shared.GateInPlaceUpdateReady) && (condition == nil || condition.Status != corev1.ConditionTrue)
	default:
		return true
	}
}

// InService is a pod that is available, or only short of the minimum time. Its deletion or update takes
// capacity away. Any other pod is unavailable already and may go at once.
func (p *Pod) InService() bool { return p.Available || p.AvailableIn > 0 }

// Counts are the pods in numbers.
type Counts struct {
	// Replicas are all pods, terminating ones included.
	Replicas int32
	// Ready and Available are the ready and the available ones.
	Ready, Available int32
	// Current and Updated are the pods at either revision, without terminating ones.
	Current, Updated int32
	// UpdatedReady and UpdatedAvailable are the updated ones, ready and available. A pod in the middle of an
	// update in place, for example in its grace period, is neither. Without the gate it would stay ready.
	UpdatedReady, UpdatedAvailable int32
}

// CountsOf counts the pods. An object without a phase was never stored by a server and does not count.
func CountsOf(s *Snapshot) Counts {
	var c Counts
	for i := range s.Pods {
		pod := &s.Pods[i]
		if pod.Object.Status.Phase == "" {
			continue
		}
		c.Replicas++
		c.Ready += one(pod.Ready)
		c.Available += one(pod.Available)
		if pod.Terminating {
			continue
		}
		c.Current += one(pod.Revision == s.Current.Name)
		if pod.Revision == s.Update.Name {
			c.Updated++
			c.UpdatedReady += one(pod.Ready && (pod.Update.Progress == inplace.None || pod.Update.Progress == inplace.Done))
			c.UpdatedAvailable += one(pod.Available)
		}
	}
	return c
}

func one(yes bool) int32 {
	if yes {
		return 1
	}
	return 0
}

// NewestOld is the newest stored revision of pods before update, without terminating ones; update if there is none.
func NewestOld(pods []Pod, update revision.Revision, stored map[string]revision.Revision) revision.Revision {
	newest := update
	for i := range pods {
		old, found := stored[pods[i].Revision]
		if found && !pods[i].Terminating && old.Name != update.Name && (newest.Name == update.Name || revision.ByAge(newest, old) < 0) {
			newest = old
		}
	}
	return newest
}

// FailedUpdatesFirst compares pods. Victims of an earlier update come first: they are neither at the current
// nor at the update revision, and only this update can repair them. No partition may keep them, in whatever
// order: they would use up maxUnavailable for ever.
func (s *Snapshot) FailedUpdatesFirst(a, b *Pod) int {
	victim := func(pod *Pod) int32 {
		return one(pod.Revision != s.Current.Name && pod.Revision != s.Update.Name && !pod.InService())
	}
	return int(victim(b) - victim(a))
}
