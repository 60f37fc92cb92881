// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"

	"github.com/kruise-operator/kruise-operator/api/rollouts/shared"
)

// NewPod is a pod of the new version, with its labels of releases.
type NewPod struct {
	Name string
	// ID is the rollout-id, Batch the number of its batch, NoNeed the rollout-id of a release before which it had the version already.
	ID, NoNeed string
	Batch      int
}

// Label is what to write on a pod. Batch 0: nothing but NoNeed.
type Label struct {
	Name   string
	Batch  int
	NoNeed bool
}

// label finds pods without the labels of the release. A batch gets no more pods than it has; the latest batch is filled first. It says
// whether all pods that had the version before are marked: nothing moves before.
func (p *pass) label() (marked bool) {
	plan := p.release.Spec.ReleasePlan
	if !p.Labels || plan.RolloutID == "" || p.Workload.Labeled {
		return true
	}
	pods := slices.Clone(p.Workload.New)
	if !p.mark(pods, plan.RolloutID) {
		return false
	}
	room := p.room(pods)
	// Those that were updated now come before those that had the version.
	slices.SortFunc(pods, func(a, b NewPod) int {
		return cmp.Or(cmp.Compare(boolean(a.NoNeed == plan.RolloutID), boolean(b.NoNeed == plan.RolloutID)), cmp.Compare(a.Name, b.Name))
	})
	for _, pod := range pods {
		if pod.ID == plan.RolloutID {
			continue
		}
		for batch := len(room) - 1; batch >= 0; batch-- {
			if room[batch] > 0 {
				room[batch]--
				p.Label = append(p.Label, Label{Name: pod.Name, Batch: batch + 1})
				break
			}
		}
	}
	return true
}

// mark marks the pods that had the version before.
func (p *pass) mark(pods []NewPod, id string) bool {
	before := p.Status.CanaryStatus.NoNeedUpdateReplicas
	if before == nil {
		return true
	}
	left := int(*before)
	for _, pod := range pods {
		left -= boolean(pod.NoNeed == id)
	}
	for _, pod := range pods {
		if left > 0 && pod.NoNeed != id && pod.ID != id {
			left--
			p.Label = append(p.Label, Label{Name: pod.Name, NoNeed: true})
		}
	}
	return len(p.Label) == 0
}

// room is how many pods each batch up to the present one lacks.
func (p *pass) room(pods []NewPod) []int {
	plan, w := p.release.Spec.ReleasePlan, p.Workload
	room := make([]int, p.Status.CanaryStatus.CurrentBatch+1)
	before := 0
	for i := range room {
		limit := w.Limit(plan.Batches[i].CanaryReplicas, w.Replicas)
		room[i] = max(0, limit-before)
		before = max(before, limit)
	}
	for _, pod := range pods {
		if pod.ID == plan.RolloutID && 0 < pod.Batch && pod.Batch <= len(room) {
			room[pod.Batch-1]--
		}
	}
	return room
}

// labeled: enough pods have the labels of the release.
func (p *pass) labeled() bool {
	plan, w := p.release.Spec.ReleasePlan, p.Workload
	if !p.Labels || plan.RolloutID == "" || w.Labeled {
		return true
	}
	have := 0
	for _, pod := range w.New {
		have += boolean(pod.ID == plan.RolloutID)
	}
	return have >= w.Limit(plan.Batches[p.Status.CanaryStatus.CurrentBatch].CanaryReplicas, w.Replicas)
}

// goesBack notes how many pods had the version before, when a release goes back in batches.
func (p *pass) goesBack() {
	w := p.Workload
	back := p.release.Annotations[shared.AnnotationRollbackInBatch] == "true" && w.Partition != nil && w.Sized
	if !back || w.Revision != w.Stable || w.Updated >= w.Replicas {
		p.Status.CanaryStatus.NoNeedUpdateReplicas = nil
		return
	}
	before := int32(w.Updated)
	p.Status.CanaryStatus.NoNeedUpdateReplicas = &before
}

// desired is how many pods have the new version after a batch, and how many of them it moves at the end of the ordinals.
func (p *pass) desired(batch int32) (desired, moved int) {
	w, size := p.Workload, p.release.Spec.ReleasePlan.Batches[batch].CanaryReplicas
	before := 0
	if n := p.Status.CanaryStatus.NoNeedUpdateReplicas; n != nil {
		before = min(int(*n), w.Replicas)
	}
	moved = w.Limit(size, w.Replicas-before)
	desired = before + moved
	if !w.Ordered {
		moved = desired
	}
	return desired, moved
}
