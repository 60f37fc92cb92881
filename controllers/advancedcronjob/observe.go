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
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

// remembered is what is remembered of an AdvancedCronJob between its passes, beside what all kinds remember.
type remembered struct {
	// evaluated is until when its schedule was evaluated.
	evaluated time.Time
	// started is when the newest run was due that was started.
	started time.Time
	// emitted is which runs events were emitted about.
	emitted plan.EmittedEvents
	// looked is what the pods of a run said that is not ready.
	looked looked
}

// looked is when the pods of a run were read, and what they said.
type looked struct {
	run     types.UID
	at      time.Time
	trouble string
}

const (
	// lookEvery is how often the pods of a run are read that holds up another one, lookSeldom those of one that does not.
	lookEvery  = 30 * time.Second
	lookSeldom = 5 * time.Minute
	// maxLooked is how many of them are read.
	maxLooked = 20
)

// look notes at the run that is not ready what its pods say, and returns when to look again; zero: there is no such run. The pods are read from the API server:
// no watch of theirs is worth these few looks. waits says that another run waits for it.
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

func rememberedOf(pass *workload.Pass) *remembered {
	return workload.Own(pass.Memory, func() *remembered { return &remembered{} })
}

// observe reads the runs of an AdvancedCronJob. Those of a kind that nobody manages are not asked for: there may be no such kind.
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
