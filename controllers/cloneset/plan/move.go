// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podorder"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
)

// move is step 4: staying pods at the wrong revision move to the right one, if they can.
//
// No more pods are picked than the partition leaves. They are picked in this order:
//
//  1. pods at their inPlaceUpdate hook;
//  2. victims of an earlier update;
//  3. all others in the user's order.
//
// Of the picked pods, those out of service move first: none of them waits behind a pod in service
// and its limit. A refused one leaves its place to the others until its next try. Moving stops at
// the first pod for which one of these holds:
//
//   - As many pods at the target revision are unavailable, or begin to move in this pass, as may
//     be: so a bad image stops there. There is one exception. While no pod at the target is
//     unavailable, a pod out of service moves: without a surge, only it can bring a fix. While pods
//     are missing, it moves only if it will hardly get ready by itself: any other one may come
//     back.
//   - It is in service, and the limit has no room. A pod out of service needs no room, so a fix
//     reaches the unavailable pods first.
func (p *planner) move(s diff) {
	if s.move == 0 || p.OnDelete {
		return
	}
	target := p.s.Update
	if s.move < 0 {
		target = p.s.Current
	}
	rollout := p.rollout(target)
	candidates, ok := p.candidates(rollout)
	if !ok {
		return
	}
	candidates = candidates[:min(len(candidates), max(s.move, -s.move))]
	if s.move > 0 && p.s.MovesNoPods() {
		if !p.Paused {
			p.draft.HoldForTemplate(candidates)
		}
		return
	}
	for _, pod := range candidates {
		p.draft.KeepMoving(pod, rollout)
	}
	if p.Paused {
		return
	}
	p.saysReplaced = p.draft.HoldReplaced(candidates, rollout)
	slices.SortStableFunc(candidates, func(a, b *podset.Pod) int { return podorder.FalseFirst(a.InService(), b.InService()) })
	candidates, refused := p.draft.SplitRefused(candidates, rollout, planning.Free)
	blocked := p.moveInOrder(candidates, s.limit, rollout)
	p.blocked = append(p.blocked, blocked...)
	_, due := p.draft.SplitRefused(blocked, rollout, planning.Full)
	for _, pod := range slices.Concat(refused, due) {
		p.draft.Move(pod, rollout)
	}
}

// moveInOrder moves pods until no more may move, and returns the others. limit is how many may be unavailable at the target revision.
func (p *planner) moveInOrder(candidates []*podset.Pod, limit int, rollout podset.Rollout) (blocked []*podset.Pod) {
	atTarget, missing, replaced := 0, len(p.pods) < p.Replicas, p.draft.ReplacedBy(rollout)
	for _, pod := range p.pods {
		if pod.Revision == rollout.Target.Name && !pod.Available && !specified(pod) && !preparingDelete(pod) {
			atTarget++
		}
	}
	for i, pod := range candidates {
		free := atTarget == 0 && !pod.InService() && (!missing || pod.Trouble.Lasting)
		if atTarget >= limit && !free || !p.unavailable.TryUse(pod, replaced(pod)) {
			return candidates[i:]
		}
		atTarget++
		p.draft.Move(pod, rollout)
	}
	return nil
}

// candidates are the movable pods, in their order.
func (p *planner) candidates(rollout podset.Rollout) ([]*podset.Pod, bool) {
	var candidates []*podset.Pod
	for _, pod := range p.pods {
		// Going back concerns updated pods alone, whatever other revisions there are.
		if preparingDelete(pod) || specified(pod) || p.leaving[pod.Object.Name] || rollout.Target.Name != p.s.Update.Name && !p.updated(pod) {
			continue
		}
		switch method, why := p.draft.UpdateMethod(pod, rollout); method {
		case podset.MethodNone:
		case podset.MethodRefused:
			if !p.Paused { // A paused update tries nothing that could be impossible.
				p.draft.Refuse(pod, why)
			}
		default:
			candidates = append(candidates, pod)
		}
	}
	ordered, err := p.inMoveOrder(candidates)
	if err != nil {
		p.draft.Hold(planning.Note{Reason: podset.ReasonInvalidSpec, Message: fmt.Sprintf("spec.updateStrategy.rollingUpdate.%v", err)})
		for _, pod := range candidates {
			p.draft.Keep(pod)
		}
		return nil, false
	}
	return p.surplusLast(ordered), true
}

// inMoveOrder sorts pods as they move.
func (p *planner) inMoveOrder(pods []*podset.Pod) ([]*podset.Pod, error) {
	object := func(pod *podset.Pod) *corev1.Pod { return pod.Object }
	pods = podorder.ByActivity(pods, victim)
	ordered, err := podorder.ForUpdate(pods, p.pods, object, p.Order)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(ordered, func(a, b *podset.Pod) int {
		return cmp.Or(podorder.FalseFirst(preparingUpdate(b), preparingUpdate(a)), p.s.FailedUpdatesFirst(a, b))
	})
	return ordered, nil
}

func preparingUpdate(pod *podset.Pod) bool { return pod.State == shared.StatePreparingUpdate }

func (p *planner) rollout(target revision.Revision) podset.Rollout {
	return podset.Rollout{
		Target:       target,
		MarkUpdating: func(*podset.Pod) bool { return true },
		Replace:      func(pod *podset.Pod) { p.remove(pod, podset.ReasonOutdated) },
	}
}

// holdBack notes the waiting pods, and their reasons.
func (p *planner) holdBack() {
	if !p.saysReplaced {
		p.draft.HoldReplaced(p.replacing, p.rollout(p.s.Update))
	}
	p.draft.HoldLimited(&p.unavailable, p.blocked)
	var outdated []*podset.Pod
	updated := 0
	for _, pod := range p.pods {
		switch {
		case p.updated(pod):
			updated++
		case !preparingDelete(pod) && !specified(pod):
			outdated = append(outdated, pod)
		}
	}
	switch {
	case p.OnDelete, p.Paused && updated < p.Replicas-p.Partition:
		p.draft.HoldStopped(outdated)
	case p.Partition > 0 && updated >= p.Replicas-p.Partition:
		p.draft.HoldPartition(outdated, p.Partition)
	}
}
