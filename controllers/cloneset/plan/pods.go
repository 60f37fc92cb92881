// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/lifecycle"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
)

// Pods derives the facts about the pods of the set, in the order of their names. Finished pods are
// unwanted, although only their garbage collector deletes them, or their user: they count for
// nothing. With an unreadable spec, no other pod is. known is the last pass's knowledge; nil is
// none.
func Pods(spec *Spec, objects []*corev1.Pod, known *podset.AtRest, now time.Time) []podset.Pod {
	pods := known.Observe(spec.Set.Generation, podset.ByName(objects), spec.FactRules(now), spec.identityOf)
	for i := range pods {
		// An update in place takes a pod out of service before the kubelet says so.
		if pod := &pods[i]; pod.Ready && !pod.Available {
			condition := podstate.Condition(pod.Object, shared.GateInPlaceUpdateReady)
			pod.Ready = condition == nil || condition.Status == corev1.ConditionTrue
		}
	}
	return pods
}

func (s *Spec) identityOf(pod *corev1.Pod) podset.Identity {
	id := podset.Identity{Slot: SlotOf(s.Set.Name, pod), Revision: podset.RevisionOf(s.Set.Name, pod)}
	switch {
	case podstate.Finished(pod):
		id.Unwanted = podset.UnwantedFinished
	case s.Invalid == nil && s.userDeletes(pod):
		id.Unwanted = podset.UnwantedSpecified
	}
	return id
}

// SlotOf is the instance ID of a pod of the set; the end of the pod's name without its label.
func SlotOf(set string, pod *corev1.Pod) planning.Slot {
	if id := pod.Labels[shared.LabelInstanceID]; id != "" {
		return planning.Slot(id)
	}
	return planning.Slot(strings.TrimPrefix(pod.Name, set+"-"))
}

func (p *planner) podName(slot planning.Slot) string { return p.Set.Name + "-" + string(slot) }

// freshSlots are n slots for new pods, or fewer: those with claims for another pod, then candidates
// without pod and claim, or with claims of a pod never created. The first pods, as many as old,
// are at the current revision.
func (p *planner) freshSlots(n, old int) []planning.Slot {
	slots := p.reusable()
	slots = slots[:min(n, len(slots))]
	if len(slots) == n || p.s.FreshSlots == nil {
		return slots
	}
	taken := map[planning.Slot]bool{}
	for _, slot := range slots {
		taken[slot] = true
	}
	for slot := range p.s.FreshSlots {
		rev := p.s.Update
		if len(slots) < old {
			rev = p.s.Current
		}
		if p.existing[slot] || taken[slot] || !p.retriable(slot, rev) {
			continue
		}
		taken[slot] = true
		if slots = append(slots, slot); len(slots) == n {
			break
		}
	}
	return slots
}

// newPod is the pod of a slot as it is sent to the server.
func (p *planner) newPod(slot planning.Slot, rev revision.Revision) *corev1.Pod {
	pod := p.NewPod(p.podName(slot), rev)
	p.draft.ClaimsAt(p.Claims, rev.Name).Mount(&pod.Spec, pod.Name)
	hash := revision.HashOf(rev.Name)
	if p.InPlace.ShortHash {
		pod.Labels[shared.LabelControllerRevisionHash] = hash
	}
	pod.Labels[shared.LabelPodTemplateHash] = hash
	pod.Labels[shared.LabelInstanceID] = string(slot)
	// Without a hook there is nothing to wait for, and the pod needs no second write for its label.
	lifecycle.Begin(pod, p.Lifecycle.PreNormal == nil, p.s.Now)
	return pod
}

// RemainingPodsToDelete is scaleStrategy.podsToDelete without lost pods, and whether there were
// any. Pods are all of the set.
func RemainingPodsToDelete(spec *Spec, pods []podset.Pod) (remaining []string, changed bool) {
	named := spec.Set.Spec.ScaleStrategy.PodsToDelete
	if len(named) == 0 {
		return nil, false
	}
	exist := make(sets.Set[string], len(pods))
	for i := range pods {
		exist.Insert(pods[i].Object.Name)
	}
	remaining = slices.DeleteFunc(slices.Clone(named), func(name string) bool { return !exist.Has(name) })
	return remaining, len(remaining) < len(named)
}
