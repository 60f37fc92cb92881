// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

// Reasons of notes and actions of this kind.
const (
	// noteBurst: requests wait because burstReplicas of their sort are planned already.
	noteBurst = "BurstReplicas"
	// notePartitionedScaling: nodes get no pod because the partition limits creations.
	notePartitionedScaling = "PartitionedScaling"
	// noteNodeSelector: outdated pods stay as they are because their nodes are not selected.
	noteNodeSelector = "NodeSelector"
	// noteIneligible: outdated pods stay as they are because their nodes should not run a pod now.
	noteIneligible = "IneligibleNode"
	// noteMaxSurge: pods wait because as many nodes run a second pod as may.
	noteMaxSurge = "MaxSurge"
	// reasonMissing creates a node's missing pod.
	reasonMissing = "Missing"
	// reasonSurge creates the new pod of a node beside the old one.
	reasonSurge = "Surge"
	// reasonMisscheduled deletes a pod from an unwanted node.
	reasonMisscheduled = "Misscheduled"
	// reasonSurplus deletes one pod too many of a node.
	reasonSurplus = "Surplus"
)

// afterBurst is when to plan again after burstReplicas, if nothing happens before.
const afterBurst = time.Second

// Plan decides the next step of a DaemonSet.
//
//  1. Leaving: pods at their preDelete hook, pods on unwanted nodes, finished pods and second pods
//     of a node.
//  2. Creating: the missing pod of each wanted node.
//  3. Moving: outdated pods, in place or by deleting them, under maxUnavailable; or by a second
//     pod, under maxSurge. The finished pods of step 1 are deleted after this.
//  4. Settling: everything under way on all other pods goes on, always.
//
// Creations, deletions and edits of a plan are no more than burstReplicas each, and creations no
// more than podset.MaxCreations. No step waits for another one.
//
// A set in deletion plans nothing: the garbage collector deletes its pods. With an unreadable spec
// only step 4 is planned.
func Plan(spec *Spec, s Snapshot) planning.Plan {
	if spec.Deleting {
		return planning.Plan{}
	}
	p := newPlanner(spec, &s)
	if spec.Invalid != nil {
		return p.draft.InvalidSpec(spec.Invalid, settling())
	}
	p.leave()
	p.createMissing()
	p.update()
	p.leaveFinished()
	p.holdBurst()
	p.draft.Settle(settling())
	return p.draft.Plan()
}

// planner is shared by the steps of one Plan.
type planner struct {
	*Spec
	s      *Snapshot
	draft  *podset.Draft
	places []*place

	// creations, deletions and edits are how many more of each burstReplicas allows this plan; over
	// are the pods beyond that.
	creations, deletions, edits int
	over                        []planning.Slot
	// finished are the finished pods of wanted nodes.
	finished []*podset.Pod
	// created is how many pods the plan creates, without the aside ones.
	created int
	// tolerations are the new pods'; nil before the first one.
	tolerations []corev1.Toleration
}

func newPlanner(spec *Spec, s *Snapshot) *planner {
	return &planner{
		Spec: spec, s: s, draft: spec.NewDraft(&s.Snapshot), places: places(s),
		creations: spec.Burst, deletions: spec.Burst, edits: spec.Burst,
	}
}

// settling is how step 4 settles pods: nothing holds a new pod back.
func settling() podset.SettleRules {
	return podset.SettleRules{Admit: func(*podset.Pod) bool { return true }}
}

func (p *planner) updated(pod *podset.Pod) bool { return pod.Revision == p.s.Update.Name }

func preparingDelete(pod *podset.Pod) bool { return pod.State == shared.StatePreparingDelete }

// remove brings a pod closer to its deletion, as far as burstReplicas allows. A refused deletion
// leaves its place there to others until its next try.
func (p *planner) remove(pod *podset.Pod, reason string) {
	if pod.Terminating || p.draft.Taken(pod) {
		return
	}
	if !p.draft.HeldByPreDelete(pod) && !p.draft.SetAside(podset.StepDelete, pod, planning.Place(p.deletions > 0)) && !p.take(&p.deletions, pod.Slot) {
		p.draft.Keep(pod)
		return
	}
	switch {
	case reason == podset.ReasonOutdated:
		p.draft.Recreate(pod, reason)
	case reason == podset.ReasonFinished && pod.Object.Status.Phase == corev1.PodFailed && !p.draft.HeldByPreDelete(pod):
		action := podset.DeletePod(pod.Slot, pod.Object, reason)
		action.MadeFrom = p.s.Update.Name
		action.Success = planning.Event{Warning: true, Reason: "FailedDaemonPod", Message: fmt.Sprintf(
			"Found failed daemon pod %s/%s on node %s, deleted it", pod.Object.Namespace, pod.Object.Name, pod.Slot)}
		action.Failure = planning.Event{Warning: true, Reason: "FailedDelete", Message: fmt.Sprintf("Error deleting pod %s", pod.Object.Name)}
		p.draft.Act(action)
	case reason == podset.ReasonFinished:
		p.draft.RemoveFinished(pod, p.s.Update.Name)
	default:
		p.draft.Remove(pod, reason)
	}
}

// take uses up one of burstReplicas, or notes that nothing is left.
func (p *planner) take(left *int, slot planning.Slot) bool {
	if *left == 0 {
		p.over = append(p.over, slot)
		return false
	}
	*left--
	return true
}

// takeEdit is take for an edit of a pod. It uses up nothing while it waits after it was refused, unless the pod is not in service.
func (p *planner) takeEdit(pod *podset.Pod) bool {
	return pod.InService() && p.draft.SetAside(podset.StepEdit, pod, planning.Place(p.edits > 0)) || p.take(&p.edits, pod.Slot)
}

// holdBurst notes the pods left to the next plan by burstReplicas.
func (p *planner) holdBurst() {
	if len(p.over) == 0 {
		return
	}
	p.draft.Hold(planning.Note{Reason: noteBurst, Message: fmt.Sprintf("%s: burstReplicas is %d", podset.Waits(len(p.over)), p.Burst), Slots: p.over})
	p.draft.Recheck(afterBurst)
}
