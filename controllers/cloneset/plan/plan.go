// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
	"github.com/kruise-operator/kruise-operator/internal/engine/lifecycle"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
)

// Reasons of notes.
const (
	noteScaleUpLimited = "ScaleUpLimited"
	noteNoFreshSlot    = "NoFreshSlot"
	// noteClaimsInUse: claims stay although no pod of the set has them.
	noteClaimsInUse = "ClaimsInUse"
	// noteClaimsReturning: new pods wait for claims whose pods are terminating.
	noteClaimsReturning = "ClaimsReturning"
)

// scaleLimit is the field that limits creations.
const scaleLimit = "scaleStrategy.maxUnavailable"

// Plan decides the next step of a CloneSet.
//
//  1. Leaving: pods at their preDelete hook are deleted when it is released, or brought back when they are needed after all.
//  2. Creating: missing pods, as far as scaleStrategy.maxUnavailable allows.
//  3. Deleting: pods that their user wants deleted, finished ones too, then pods that are too many.
//  4. Moving: pods at the wrong revision, in place or by deleting them.
//  5. Settling: whatever is under way on all other pods goes on, always. So do their claims.
//
// No part waits for another one. All that take a serving pod away draw on the same limit: as many pods may be unavailable as
// maxUnavailable says, more by every pod beyond replicas, less by every missing one. So a request that the server keeps refusing
// stops nothing else.
//
// A set that is being deleted plans nothing: the garbage collector deletes its pods. For one whose spec cannot be parsed, only step 5
// is planned.
func Plan(spec *Spec, s podset.Snapshot) planning.Plan {
	if spec.Deleting {
		return planning.Plan{}
	}
	p := newPlanner(spec, &s)
	if spec.Invalid != nil {
		return p.draft.InvalidSpec(spec.Invalid, p.settling())
	}

	scale := p.limits.diff(p.count(p.PreparingUpdateAsUpdate))
	p.leave()
	p.create(p.withReturned(scale))
	p.removeSpecified()
	p.scaleIn(scale)
	p.move(p.limits.diff(p.countMoving()))
	p.holdBack()
	p.draft.Settle(p.settling())
	p.keepClaims()
	return p.draft.Plan()
}

// planner is what the steps of one Plan share.
type planner struct {
	*Spec
	s     *podset.Snapshot
	draft *podset.Draft

	// rollBack says that updated pods that the partition does not allow go back to the current revision.
	rollBack bool
	// limits are those of the set.
	limits limits

	// pods are those that count.
	pods []*podset.Pod
	// unavailable is the limit that everything draws on, blocked are the pods that wait for room in it.
	unavailable podset.Limit
	blocked     []*podset.Pod
	// claimsOf are the claims of each slot, by name.
	claimsOf map[planning.Slot][]*corev1.PersistentVolumeClaim
	// existing are the slots that have a pod object, whatever its state, or that this pass creates one for; leaving are the pods whose deletion this pass works at.
	existing map[planning.Slot]bool
	leaving  map[string]bool
	// back is how many pods at their preDelete hook are brought back by this pass, replacing those of them that another one is to replace.
	back      int
	replacing []*podset.Pod
	// saysReplaced says that a note tells why pods are replaced.
	saysReplaced bool
}

func newPlanner(spec *Spec, s *podset.Snapshot) *planner {
	rollBack := spec.PartitionRollback && s.Current.Name != s.Update.Name
	p := &planner{
		Spec: spec, s: s,
		draft:    spec.NewDraft(s),
		rollBack: rollBack,
		limits:   spec.limits(rollBack),
		claimsOf: bySlot(spec.Set, s.Claims),
		existing: make(map[planning.Slot]bool, len(s.Pods)),
		leaving:  map[string]bool{},
	}
	for i := range s.Pods {
		pod := &s.Pods[i]
		p.existing[pod.Slot] = true
		if counts(pod) {
			p.pods = append(p.pods, pod)
		}
	}
	for slot := range s.Taken {
		p.existing[slot] = true
	}
	surplus := max(len(p.pods)-p.Replicas, 0)
	p.unavailable = podset.Limit{
		Name: "maxUnavailable", Max: p.MaxUnavailable + surplus, Extra: surplus,
		RefillName: scaleLimit, Refill: p.ScaleMaxUnavailable + surplus,
	}
	p.unavailable.UseOthers(max(p.Replicas-len(p.pods), 0))
	for _, pod := range p.pods {
		if !pod.Available {
			p.unavailable.Use(pod)
		}
	}
	return p
}

// updated says that the pod is at the update revision.
func (p *planner) updated(pod *podset.Pod) bool { return pod.Revision == p.s.Update.Name }

func preparingDelete(pod *podset.Pod) bool { return pod.State == shared.StatePreparingDelete }

func specified(pod *podset.Pod) bool { return pod.Unwanted == podset.UnwantedSpecified }

// count counts the pods. With preparing, a pod that waits for its inPlaceUpdate hook counts as updated already.
func (p *planner) count(preparing bool) podCounts {
	var c podCounts
	for _, pod := range p.pods {
		g := &c.old
		if p.updated(pod) || preparing && pod.State == shared.StatePreparingUpdate {
			g = &c.updated
		}
		switch {
		case preparingDelete(pod):
			g.preparingDelete++
		case specified(pod):
			g.specified++
		case !pod.Available:
			g.unavailable++
		default:
			g.available++
		}
	}
	return c
}

// countMoving counts the pods as far as moving them is concerned. Where pods at their hook count as updated when pods are removed, this pass may
// remove one that makes up for another at its hook: that one is still needed, and has to move. Otherwise it would be called back, and the
// pod that makes up for it be made again, for ever.
func (p *planner) countMoving() podCounts {
	if !p.PreparingUpdateAsUpdate {
		return p.count(false)
	}
	all := p.pods
	defer func() { p.pods = all }()
	p.pods = slices.DeleteFunc(slices.Clone(all), func(pod *podset.Pod) bool { return p.leaving[pod.Object.Name] })
	return p.count(false)
}

// counts says that the pod is one of the set's replicas: it is neither terminating nor finished.
func counts(pod *podset.Pod) bool {
	return !pod.Terminating && pod.Unwanted != podset.UnwantedFinished
}

// leave is step 1. A pod at its preDelete hook goes on leaving
//
//   - if its user asked for its deletion;
//   - if another one at the other revision is to take its place;
//   - if there are enough pods without it;
//   - if a hook takes pods out of service: what the user has done at the hook cannot be undone by staying.
//
// Otherwise settling brings it back.
func (p *planner) leave() {
	c := p.count(false)
	need := p.Replicas
	for _, g := range []revisionCounts{c.old, c.updated} {
		need -= g.unavailable + g.available
	}
	lackOld := p.Partition - (c.old.unavailable + c.old.available)
	lackUpdated := p.Replicas - p.Partition - (c.updated.unavailable + c.updated.available)

	var doubtful []*podset.Pod
	for _, pod := range p.pods {
		switch {
		case !preparingDelete(pod):
		case specified(pod):
			p.remove(pod, podset.ReasonSpecifiedDelete)
		case lifecycle.MarksNotReady(p.Lifecycle):
			p.remove(pod, podset.ReasonScaleIn)
		default:
			doubtful = append(doubtful, pod)
		}
	}
	for _, pod := range doubtful {
		lack := &lackOld
		if p.updated(pod) {
			lack = &lackUpdated
		}
		switch {
		case *lack <= 0 && p.replaced(pod):
			p.replacing = append(p.replacing, pod)
			p.remove(pod, podset.ReasonOutdated)
		case need <= 0:
			p.remove(pod, podset.ReasonScaleIn)
		default:
			need--
			*lack--
			p.back++
		}
	}
}

// replaced says that a pod at its preDelete hook can get to the other revision only by being replaced, and that pods move there.
func (p *planner) replaced(pod *podset.Pod) bool {
	switch {
	case p.OnDelete:
	case !p.updated(pod):
		return !p.s.MovesNoPods() && p.draft.ExplainReplaced(pod, p.rollout(p.s.Update))
	case p.rollBack:
		return p.draft.ExplainReplaced(pod, p.rollout(p.s.Current))
	}
	return false
}

// remove brings a pod closer to its deletion. Its claims go with it: before the request to delete it they get it as their owner. Where the server refuses
// that, the claims stay the set's, to be deleted when the pod is gone or, if claims are reused, for another pod.
func (p *planner) remove(pod *podset.Pod, reason string) {
	p.leaving[pod.Object.Name] = true
	if !p.draft.HeldByPreDelete(pod) && p.giveClaims(pod) {
		p.draft.Keep(pod)
		return
	}
	if reason == podset.ReasonOutdated {
		p.draft.Recreate(pod, reason)
		return
	}
	p.draft.Remove(pod, reason)
}

// settling is how step 5 settles pods.
func (p *planner) settling() podset.SettleRules {
	return podset.SettleRules{
		Admit: p.admit,
		Repair: func(pod *podset.Pod) edit.Edit {
			var e edit.Edit
			if pod.Revision != "" && pod.Object.Labels[shared.LabelPodTemplateHash] == "" {
				e.SetLabel(shared.LabelPodTemplateHash, revision.HashOf(pod.Revision))
			}
			return e
		},
	}
}

// admit says that a new pod is normal: it has a node, and nothing of the preNormal hook is missing.
func (p *planner) admit(pod *podset.Pod) bool {
	return pod.Object.Spec.NodeName != "" && lifecycle.PreNormalDone(p.Lifecycle, pod.Object)
}
