// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podset

import (
	"fmt"

	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
)

// HoldForTemplate notes that outdated pods stay as they are because the server finds the template of the update revision faulty. That it refuses to
// record a template is no note: the progress of the workload says so.
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

// HoldStopped notes that pods wait because their user has stopped updates, by updateStrategy.type OnDelete or by pausing them.
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

// HoldPartition notes which outdated pods the partition keeps.
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
