// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

// Values of the label of reserved pods.
const (
	reservedPod = "true"
	normalPod   = "false"
)

// reserve says whether a subset has room when unschedulable pods get replacements in other subsets.
// Newly reserved and released pods are labeled. A new subset, or one without room before, has to
// prove itself: its new pods count when they have been ready for a while.
func (p *planner) reserve(name string, child *Child) room {
	before := p.conditions[name]
	isNew := before == nil && child == nil && len(p.Set.Status.SubsetStatuses) > 0
	if before == nil && child != nil && p.addedUnseen(name) {
		before = p.schedulable(nil, false, appsv1beta1.ReasonSubsetCreated, messageUnproven)
		p.conditions[name] = before
	}
	r := room{condition: before}
	goesOn, rests := p.update(child)
	why := messageStandIn
	for _, pod := range p.pods[name] {
		value := normalPod
		if pod.Unscheduled {
			why = messageNoNode
		}
		if p.isReserved(pod, isFull(before), goesOn, rests) {
			value = reservedPod
			r.reserved++
			if !pod.Ready && (p.timedOut(pod) || p.stuck(pod, goesOn)) {
				r.unable++
			}
		}
		if pod.Labels[shared.LabelReservedPod] != value {
			p.labels = append(p.labels, p.label(pod, value))
		}
	}
	p.expectPods(child)
	if child != nil && isFull(before) {
		r.absent = max(child.Size-len(p.pods[name]), 0)
	}
	if child != nil {
		// A surge comes beside the wanted pods, and a new pod may only wait for the place of a
		// terminating one.
		r.unable = max(r.unable-max(len(p.pods[name])-child.Size, 0)-p.going[name], 0)
	}
	switch {
	case r.reserved+r.absent > 0:
		r.condition, r.full = p.schedulable(before, false, appsv1beta1.ReasonReschedule, why), true
	case isNew:
		r.condition, r.unproven = p.schedulable(nil, false, appsv1beta1.ReasonSubsetCreated, messageUnproven), true
	case isFull(before):
		r.unproven = true
	default:
		r.condition = p.schedulable(before, true, appsv1beta1.ReasonReschedule, messageAllRun)
	}
	return r
}

// addedUnseen: the status knows subsets and not this one, although it has a workload, created in a
// pass without a written status. The pods of the other subsets count as if it had been written.
func (p *planner) addedUnseen(name string) bool {
	known := p.Set.Status.SubsetStatuses
	return len(known) > 0 && !slices.ContainsFunc(known, func(s appsv1beta1.UnitedDeploymentSubsetStatus) bool { return s.Name == name })
}

// prove decides about the condition of an unproven subset, when its growth is known.
func (p *planner) prove(r *room, grows bool, name string) {
	before := p.conditions[name]
	switch {
	case grows && isFull(before):
		r.condition = p.schedulable(before, false, appsv1beta1.ReasonReschedule, messageUnproven)
	case grows || before == nil:
	case p.kept[name] == nil || p.kept[name].Size == 0 && before.Reason == appsv1beta1.ReasonSubsetCreated:
		r.condition = before // It has had no pod yet.
	default:
		r.condition = p.schedulable(before, true, appsv1beta1.ReasonReschedule, messageAllRun)
	}
}

// update says whether the update of a subset goes on, with more pods at the revision before than
// the partition keeps, or rests: then the partition or the user keeps all. Neither is known before
// the workload's report on the present template.
func (p *planner) update(child *Child) (goesOn, rests bool) {
	if child == nil || !child.Observed || !p.s.isUpdated(child.Revision) {
		return false, false
	}
	held, _ := child.held()
	goesOn = held == "" && child.Replicas-child.Updated > child.Adapter.PartitionOf(child.Object)
	return goesOn, !goesOn
}

// isReserved says whether a pod has replacements in other subsets:
//
//  1. a reserved one does, until it has been ready for long enough, at the updated revision unless
//     the update rests;
//  2. a new one of a subset without room does;
//  3. one without a node for too long does;
//  4. an unready one at another revision does when the update has gone on for too long. While it
//     rests the pod waits for nothing, and may just have been restarted.
func (p *planner) isReserved(pod *Pod, full, goesOn, rests bool) bool {
	updated, reserved := p.isUpdated(pod), pod.Labels[shared.LabelReservedPod]
	if reserved == reservedPod || reserved == "" && full {
		if !pod.Ready || !updated && !rests {
			return true
		}
		left := podstate.Condition(pod.Pod, corev1.PodReady).LastTransitionTime.Add(p.Unschedulable).Sub(p.s.Now)
		p.Recheck(left)
		return left > 0
	}
	return p.timedOut(pod) || p.stuck(pod, goesOn)
}

func (p *planner) isUpdated(pod *Pod) bool {
	return p.s.isUpdated(pod.Labels[shared.LabelUnitedDeploymentRevision])
}

// stuck: a pod at another revision is not ready although the update has gone on for so long.
func (p *planner) stuck(pod *Pod, goesOn bool) bool {
	if p.isUpdated(pod) || pod.Ready || !goesOn || !p.updating {
		return false
	}
	left := p.since.Add(p.Critical).Sub(p.s.Now)
	p.Recheck(left)
	return left <= 0
}

// label labels a pod with replacements in other subsets, or removes the label.
func (p *planner) label(pod *Pod, value string) planning.Action {
	// Texts can always be rendered.
	body, _ := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID, "labels": map[string]string{shared.LabelReservedPod: value}}})
	return planning.Action{
		Verb: planning.VerbPatch, Step: StepLabelPod, Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Object: pod.Pod,
		Slot: planning.Slot(pod.subset()), Reason: "Reserved", Change: planning.RawPatch{Type: types.MergePatchType, Body: body},
	}
}
