// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package advancedcronjob

import (
	"context"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/controllers/advancedcronjob/plan"
)

// remembered is kept of an AdvancedCronJob beside the state of all kinds.
type remembered struct {
	// evaluated is until when its schedule was evaluated.
	evaluated time.Time
	// started is the due time of the newest started run.
	started time.Time
	// emitted are the events so far.
	emitted plan.EmittedEvents
	// looked is the last look at the pods of an unready run.
	looked looked
}

// looked is a look at a run's pods: its time and result.
type looked struct {
	run     types.UID
	at      time.Time
	trouble string
}

const (
	// lookEvery is between looks at the pods of a run holding up another, lookSeldom for other runs.
	lookEvery  = 30 * time.Second
	lookSeldom = 5 * time.Minute
	// maxLooked is how many of them are read.
	maxLooked = 20
)

// look notes trouble of an unready run's pods, and returns the time until the next look; zero: no such
// run. It reads from the API server: a watch costs more than a few looks. waits: another run waits for it.
func (r *Reconciler) look(ctx context.Context, known *remembered, run *plan.Run, waits bool) time.Duration {
	if run == nil {
		known.looked = looked{}
		return 0
	}
	now, uid := r.Clock.Now(), run.Object.GetUID()
	if known.looked.run != uid {
		known.looked = looked{run: uid}
	}
	every := lookSeldom
	if waits {
		every = lookEvery
	}
	if known.looked.at.IsZero() || now.Sub(known.looked.at) >= every {
		known.looked.at = now
		ctx, cancel := context.WithTimeout(ctx, r.WriteTimeout)
		defer cancel()
		pods := &corev1.PodList{}
		err := r.Live.List(ctx, pods, client.InNamespace(run.Object.GetNamespace()), client.MatchingLabels{batchv1.ControllerUidLabel: string(uid)}, client.Limit(maxLooked))
		if err != nil {
			ctrl.LoggerFrom(ctx).Info("Reading the pods of a run failed", "run", run.Object.GetName(), "err", err.Error())
		} else {
			known.looked.trouble = plan.TroubleOf(pods.Items, now)
		}
	}
	run.Trouble = known.looked.trouble
	return max(known.looked.at.Add(every).Sub(now), time.Second)
}

// observe reads an AdvancedCronJob's runs. It does not ask for unmanaged kinds: they may not exist.
func (r *Reconciler) observe(ctx context.Context, spec *plan.Spec, known *remembered) (plan.Snapshot, error) {
	snapshot := plan.Snapshot{Now: r.Clock.Now(), Evaluated: known.evaluated, Started: known.started}
	if spec.Adapter == nil || !spec.Managed {
		return snapshot, nil
	}
	adapter := *spec.Adapter
	runs, deleted, err := r.Children(ctx, spec.Cron, adapter.Kind)
	if err != nil {
		return snapshot, err
	}
	snapshot.Runs = make([]plan.Run, len(runs))
	for i := range runs {
		snapshot.Runs[i] = adapter.Observe(&runs[i])
		snapshot.Runs[i].Terminating = snapshot.Runs[i].Terminating || deleted.Has(runs[i].GetUID())
	}
	return snapshot, nil
}
