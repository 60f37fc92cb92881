// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package imagelistpulljob

import (
	"context"

	"github.com/kruise-operator/kruise-operator/controllers/imagelistpulljob/plan"
)

// observe reads the ImagePullJobs of a list. They are not asked for where nobody manages them: there may be no such kind.
func (r *Reconciler) observe(ctx context.Context, spec *plan.Spec) (plan.Snapshot, error) {
	snapshot := plan.Snapshot{Now: r.Clock.Now()}
	if !spec.Managed {
		return snapshot, nil
	}
	jobs, deleted, err := r.Children(ctx, spec.List, plan.KindImagePullJob())
	if err != nil {
		return snapshot, err
	}
	for i := range jobs {
		child := plan.Observe(&jobs[i])
		child.Terminating = child.Terminating || deleted.Has(jobs[i].GetUID())
		snapshot.Children = append(snapshot.Children, child)
	}
	return snapshot, nil
}
