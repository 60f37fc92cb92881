// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podset

import (
	"fmt"

	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
)

// HoldForTemplate notes that outdated pods stay, because the server finds the template of the update revision
// faulty. A template that cannot be recorded gets no note: the workload's progress tells.
func (p *Draft) HoldForTemplate(outdated []*Pod) {
	if len(outdated) == 0 || p.Snapshot.UpdateFault == "" {
		return
	}
	p.Hold(planning.Note{
		Reason:  ReasonTemplateInvalid,
		Message: fmt.Sprintf("%s: the server would refuse the template: %s", Waits(len(outdated)), p.Snapshot.UpdateFault),
		Slots:   Slots(outdated),
	})
}

// HoldStopped notes that pods wait for their user: updateStrategy.type is OnDelete, or updates are paused.
func (p *Draft) HoldStopped(waiting []*Pod, onDelete bool) {
	if len(waiting) == 0 {
		return
	}
	note := planning.Note{Reason: ReasonPaused, Slots: Slots(waiting)}
	note.Message = fmt.Sprintf("%s: updateStrategy.rollingUpdate.paused is true", Waits(len(waiting)))
	if onDelete {
		note.Reason = ReasonOnDelete
		note.Message = fmt.Sprintf("%s: with updateStrategy.type OnDelete a pod moves when its user deletes it", Waits(len(waiting)))
	}
	p.Hold(note)
}

// HoldPartition notes the outdated pods of the partition.
func (p *Draft) HoldPartition(kept []*Pod, partition int) {
	if len(kept) == 0 {
		return
	}
	p.Hold(planning.Note{
		Reason:  ReasonPartition,
		Message: fmt.Sprintf("%d of the pods that partition %d keeps are at an earlier revision", len(kept), partition),
		Slots:   Slots(kept),
	})
}
