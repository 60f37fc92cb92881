// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podset

import (
	"fmt"
	"time"

	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
)

// HoldPods notes that pods stay or wait. Nothing is noted without any.
func (p *Draft) HoldPods(reason string, pods []*Pod, message string) {
	if len(pods) > 0 {
		p.Hold(planning.Note{Reason: reason, Message: message, Slots: Slots(pods)})
	}
}

// HoldForTemplate notes that outdated pods stay, because the server finds the template of the update revision
// faulty. A template that cannot be recorded gets no note: the workload's progress tells.
func (p *Draft) HoldForTemplate(outdated []*Pod) {
	if fault := p.Snapshot.UpdateFault; fault != "" {
		p.HoldPods(ReasonTemplateInvalid, outdated, Waits(len(outdated))+": the server would refuse the template: "+fault)
	}
}

// HoldStopped notes that pods wait for their user: updateStrategy.type is OnDelete, or updates are paused.
func (p *Draft) HoldStopped(waiting []*Pod) {
	if p.spec.OnDelete {
		p.HoldPods(ReasonOnDelete, waiting, Waits(len(waiting))+": with updateStrategy.type OnDelete a pod moves when its user deletes it")
	} else {
		p.HoldPods(ReasonPaused, waiting, Waits(len(waiting))+": updateStrategy.rollingUpdate.paused is true")
	}
}

// HoldPartition notes the outdated pods of the partition.
func (p *Draft) HoldPartition(kept []*Pod, partition int) {
	p.HoldPods(ReasonPartition, kept, fmt.Sprintf("%d of the pods that partition %d keeps are at an earlier revision", len(kept), partition))
}

// HoldLimited notes the pods that wait for room in a limit.
func (p *Draft) HoldLimited(limit *Limit, waiting []*Pod) {
	if len(waiting) > 0 {
		p.Hold(limit.Note(ReasonMaxUnavailable, len(waiting), Slots(waiting)))
	}
}

// endTimeout is how long after its grace period a terminating pod may exist before it is named.
const endTimeout = 30 * time.Second

// StillTerminating returns a note with the pods still terminating endTimeout after their grace period:
// something waits for them, and their node may need the user. Its message is empty when there are none. in is
// above zero when time alone could change that.
func StillTerminating(pods []Pod, reason string, now time.Time) (note planning.Note, in time.Duration) {
	var terminating []*Pod
	for i := range pods {
		if pods[i].Object.DeletionTimestamp == nil {
			continue
		}
		left := pods[i].Object.DeletionTimestamp.Add(endTimeout).Sub(now)
		switch {
		case left <= 0:
			terminating = append(terminating, &pods[i])
		case in == 0 || left < in:
			in = left
		}
	}
	if len(terminating) == 0 {
		return planning.Note{}, in
	}
	verb := "is"
	if len(terminating) > 1 {
		verb = "are"
	}
	return planning.Note{
		Reason: reason,
		Message: fmt.Sprintf("%s %s still terminating %s after the grace period: a node does not answer, or a finalizer holds a pod",
			List(names(terminating)), verb, endTimeout),
	}, in
}
