// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package cloneset

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podtemplate"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
)

func (p *planner) podName(slot podset.Slot) string { return podName(p.set, slot) }

func podName(set *appsv1beta1.CloneSet, slot podset.Slot) string {
	return set.Name + "-" + string(slot)
}

// freshSlots are n slots for new pods, fewer if there are not enough candidates: those whose claims wait for another pod,
// then candidates that neither a pod nor a claim uses.
func (p *planner) freshSlots(n int) []podset.Slot {
	slots := p.reusable()
	slots = slots[:min(n, len(slots))]
	if len(slots) == n || p.s.FreshSlots == nil {
		return slots
	}
	taken := map[podset.Slot]bool{}
	for slot := range p.s.FreshSlots {
		if p.existing[slot] || taken[slot] || len(p.claimsOf[slot]) > 0 {
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
func (p *planner) newPod(slot podset.Slot, rev revision.Revision) *corev1.Pod {
	pod := podtemplate.ForPod(rev.Template)
	podset.Equip(pod, p.set.Namespace, p.podName(slot), p.controller())
	p.claims.Mount(&pod.Spec, pod.Name)
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	hash := hashOf(rev.Name)
	pod.Labels[shared.LabelControllerRevisionHash] = rev.Name
	if p.o.InPlace.ShortHash {
		pod.Labels[shared.LabelControllerRevisionHash] = hash
	}
	pod.Labels[shared.LabelPodTemplateHash] = hash
	pod.Labels[shared.LabelInstanceID] = string(slot)
	// Without a hook there is nothing to wait for, and the pod needs no second write for its label.
	state := shared.StateNormal
	if hooks := p.set.Spec.Lifecycle; hooks != nil && hooks.PreNormal != nil {
		state = shared.StatePreparingNormal
	}
	pod.Labels[shared.LabelLifecycleState] = string(state)
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[shared.AnnotationLifecycleTimestamp] = p.s.Now.UTC().Format(time.RFC3339)
	return pod
}

// controller is the reference by which the set owns pods and claims.
func (p *planner) controller() metav1.OwnerReference {
	return *metav1.NewControllerRef(p.set, appsv1beta1.GroupVersion().WithKind("CloneSet"))
}

// RemainingPodsToDelete is scaleStrategy.podsToDelete without the names of pods that no longer exist, and whether that changes
// anything. Pods are all that the set owns.
func RemainingPodsToDelete(set *appsv1beta1.CloneSet, pods []podset.Pod) (remaining []string, changed bool) {
	for _, name := range set.Spec.ScaleStrategy.PodsToDelete {
		if slices.ContainsFunc(pods, func(pod podset.Pod) bool { return pod.Object.Name == name }) {
			remaining = append(remaining, name)
		}
	}
	return remaining, len(remaining) < len(set.Spec.ScaleStrategy.PodsToDelete)
}
