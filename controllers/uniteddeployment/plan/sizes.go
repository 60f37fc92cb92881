// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/engine/subset"
)

// room is a subset's room for its pods.
type room struct {
	// condition is the status's; nil without one.
	condition *appsv1beta1.UnitedDeploymentSubsetCondition
	// full: no more pods for the subset; unproven: more do not count yet.
	full, unproven bool
	// waiting is how many pods cannot be scheduled. reserved is how many pods others stand in for, absent how many of them are not there yet,
	// unable is how many pods cannot be available.
	waiting, reserved, absent, unable int
}

// divide decides how many pods each subset gets.
func (p *planner) divide() {
	p.rooms = make([]room, len(p.Subsets))
	given := make([]subset.Subset, len(p.Subsets))
	for i := range p.Subsets {
		sub, child := &p.Subsets[i], p.kept[p.Subsets[i].Name]
		present := p.present(sub.Name, child)
		switch p.Mode {
		case subset.Reschedule:
			p.rooms[i] = p.reschedule(sub.Name, child)
		case subset.Reserve:
			p.rooms[i] = p.reserve(sub.Name, child)
		}
		r := &p.rooms[i]
		given[i] = subset.Subset{
			Name: sub.Name, Replicas: sub.Replicas, Min: sub.Min, Max: sub.Max, Present: present,
			Scheduled: max(present-r.waiting, 0), Reserved: r.reserved + r.absent, Unschedulable: r.full, Unproven: r.unproven,
		}
	}
	p.Shares = subset.Divide(p.Replicas, given, p.Mode)
	for i := range p.rooms {
		if r := &p.rooms[i]; r.unproven && !r.full {
			p.prove(r, p.Shares.Sizes[i] > given[i].Present, p.Subsets[i].Name)
		}
	}
}

// present is how many pods a subset has been given before. With equal parts that is the status's
// number, not the workload's: while some workloads are missing or not scaled yet, the place of a
// remainder must not depend on them, nor on a stop of the operator before its status. Otherwise
// pods without a node count only if a workload has asked for them.
func (p *planner) present(name string, child *Child) int {
	if status := &p.Set.Status; p.Mode == subset.Stay && (len(status.SubsetReplicas) > 0 || status.ObservedGeneration == 0) {
		return int(max(status.SubsetReplicas[name], 0))
	}
	if child != nil {
		return child.Size
	}
	return 0
}

// isFull: a condition reports a subset without room.
func isFull(c *appsv1beta1.UnitedDeploymentSubsetCondition) bool {
	return c != nil && c.Status == corev1.ConditionFalse
}

// schedulable is the condition of a subset. It keeps its time while its status stays.
func (p *planner) schedulable(before *appsv1beta1.UnitedDeploymentSubsetCondition, is bool, reason, message string) *appsv1beta1.UnitedDeploymentSubsetCondition {
	c := &appsv1beta1.UnitedDeploymentSubsetCondition{
		Type: appsv1beta1.SubsetSchedulable, Status: corev1.ConditionFalse, Reason: reason, Message: message,
		LastTransitionTime: podstate.Time(p.s.Now),
	}
	if is {
		c.Status = corev1.ConditionTrue
	}
	if before != nil && before.Status == c.Status && !before.LastTransitionTime.IsZero() {
		c.LastTransitionTime = before.LastTransitionTime
	}
	return c
}

// timedOut: a pod has found no node for so long that its subset has no room. For a shorter wait,
// the plan is looked at again at its end.
func (p *planner) timedOut(pod *Pod) bool {
	if !pod.Unscheduled {
		return false
	}
	left := pod.CreationTimestamp.Add(p.Critical).Sub(p.s.Now)
	p.Recheck(left)
	return left <= 0
}

// expectPods looks again when missing pods may have been unschedulable for too long: no event
// reports a future pod without a node. Without any time to wait, that is in a moment.
func (p *planner) expectPods(child *Child) {
	if child != nil && child.Ready < child.Size {
		p.Recheck(max(p.Critical, time.Second))
	}
}

const (
	messageNoNode   = "Pods of the subset find no node; more are created in other subsets."
	messageStandIn  = "Other subsets run replacements for pods of the subset until these have been ready for long enough."
	messageTryAgain = "The subset may have room again."
	messageUnproven = "The subset has to prove that its pods find nodes."
	messageAllRun   = "Every pod of the subset has found a node."
)

// reschedule says whether a subset has room when unschedulable pods are moved:
//
//  1. not while a pod finds none for too long;
//  2. and not for some time after that;
//  3. then it is tried again.
func (p *planner) reschedule(name string, child *Child) room {
	before := p.conditions[name]
	r := room{condition: before}
	late := 0
	for _, pod := range p.pods[name] {
		if pod.Unscheduled {
			r.waiting++
			if p.timedOut(pod) {
				late++
			}
		}
	}
	p.expectPods(child)
	switch {
	case late > 0 && child != nil && child.Ready < child.Size:
		r.condition, r.full = p.schedulable(before, false, appsv1beta1.ReasonReschedule, messageNoNode), true
	case !isFull(before):
	default:
		left := before.LastTransitionTime.Add(p.Unschedulable).Sub(p.s.Now)
		p.Recheck(left)
		if r.full = left > 0 || late > 0; !r.full {
			r.condition = p.schedulable(before, true, appsv1beta1.ReasonRecover, messageTryAgain)
		}
	}
	return r
}
