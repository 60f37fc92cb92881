// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

// defaultDeadline is how long a batch may make no progress.
const defaultDeadline = 10 * time.Minute

// Kind is the kind of BatchReleases.
func Kind() schema.GroupVersionKind { return v1beta1.GroupVersion().WithKind("BatchRelease") }

// SameCursor says that two statuses differ by counts and words at most. Another cursor is stored before anything is done for it.
func SameCursor(a, b *v1beta1.BatchReleaseStatus) bool {
	return a.Phase == b.Phase && a.CanaryStatus.CurrentBatch == b.CanaryStatus.CurrentBatch &&
		a.CanaryStatus.CurrentBatchState == b.CanaryStatus.CurrentBatchState && a.StableRevision == b.StableRevision &&
		a.UpdateRevision == b.UpdateRevision && a.ObservedReleasePlanHash == b.ObservedReleasePlanHash &&
		a.ObservedWorkloadReplicas == b.ObservedWorkloadReplicas && a.ObservedGeneration == b.ObservedGeneration
}

// conditions says what goes on. The time of the last progress is that of the condition Reconciling.
func (p *pass) conditions() {
	reason, words, goesOn := p.doing()
	progress := podstate.Time(p.Now)
	before := find(p.release.Status.Conditions, v1beta1.BatchReleaseReconciling)
	if before.Reason == reason && !before.LastUpdateTime.IsZero() && !p.progressed() {
		progress = before.LastUpdateTime
	}
	if goesOn && p.stalled == "" {
		p.deadline(progress.Time)
	}
	going := conditions.New(v1beta1.BatchReleaseReconciling, goesOn && p.stalled == "", reason, words)
	stalled := conditions.New(v1beta1.BatchReleaseStalled, p.stalled != "", cmp.Or(p.stalled, reason), p.why)
	going.LastUpdateTime, stalled.LastUpdateTime = progress, progress
	list := conditions.NewList(conditions.From(p.release.Status.Conditions), p.Now)
	list.Set(going, stalled)
	p.Status.Conditions, p.Stalled = conditions.To[v1beta1.RolloutCondition](list), p.stalled != ""
}

// doing is what goes on, in one word and in several, and whether it does.
func (p *pass) doing() (reason, words string, goesOn bool) {
	batch := fmt.Sprintf("batch %d of %d", p.Status.CanaryStatus.CurrentBatch+1, len(p.release.Spec.ReleasePlan.Batches))
	switch {
	case p.Status.Phase == v1beta1.BatchReleasePhaseCompleted:
		return v1beta1.ReasonCompleted, "the workload has its own strategy", false
	case p.Status.Phase == v1beta1.BatchReleasePhaseFinalizing:
		return v1beta1.ReasonBatchFinalizing, "the workload gets its own strategy back", true
	case p.Status.Phase != v1beta1.BatchReleasePhaseProgressing:
		return v1beta1.ReasonInitializing, "the workload is taken over", true
	case p.Status.CanaryStatus.CurrentBatchState == v1beta1.BatchStateReady:
		return v1beta1.ReasonBatchReady, batch, false
	case p.Status.CanaryStatus.CurrentBatchState == v1beta1.BatchStateVerifying:
		return v1beta1.ReasonBatchVerifying, batch, true
	}
	return v1beta1.ReasonBatchUpgrading, batch, true
}

// progressed: something is further than in the stored status.
func (p *pass) progressed() bool {
	was, is := p.release.Status, p.Status
	return was.Phase != is.Phase || was.CanaryStatus.CurrentBatch != is.CanaryStatus.CurrentBatch ||
		is.CanaryStatus.UpdatedReplicas > was.CanaryStatus.UpdatedReplicas || is.CanaryStatus.UpdatedReadyReplicas > was.CanaryStatus.UpdatedReadyReplicas
}

// deadline stalls a release without progress.
func (p *pass) deadline(since time.Time) {
	limit := defaultDeadline
	if p.Workload != nil && p.Workload.Deadline > 0 {
		limit = p.Workload.Deadline
	}
	if own := p.release.Spec.ReleasePlan.ProgressDeadlineSeconds; own != nil {
		limit = time.Duration(*own) * time.Second
	}
	left := limit - p.Now.Sub(since)
	if left > 0 {
		p.After = left
		return
	}
	p.stalled = v1beta1.ReasonDeadlineExceeded
	p.why = fmt.Sprintf("no progress for %s", limit)
	if p.Status.Message != "" {
		p.why += ": " + p.Status.Message
	}
}

// Progressed is when pods of a release were further than before.
func Progressed(b *v1beta1.BatchRelease) time.Time {
	return find(b.Status.Conditions, v1beta1.BatchReleaseReconciling).LastUpdateTime.Time
}

func find(all []v1beta1.RolloutCondition, kind string) conditions.Condition {
	c, _ := conditions.Find(conditions.From(all), kind)
	return c
}

// Events are about what changed between two statuses.
func Events(before, after *v1beta1.BatchReleaseStatus) []planning.Event {
	var events []planning.Event
	for _, c := range conditions.Begun(before.Conditions, after.Conditions) {
		if c.Type == v1beta1.BatchReleaseStalled {
			events = append(events, planning.Event{Warning: true, Reason: c.Reason, Message: c.Message})
		}
	}
	batch, done := after.CanaryStatus.CurrentBatch+1, after.CanaryStatus.CurrentBatchState == v1beta1.BatchStateReady
	if done && (before.CanaryStatus.CurrentBatchState != v1beta1.BatchStateReady || before.CanaryStatus.CurrentBatch != after.CanaryStatus.CurrentBatch) {
		events = append(events, planning.Event{Reason: v1beta1.ReasonBatchReady, Message: fmt.Sprintf("batch %d is ready: %d pods are updated", batch, after.CanaryStatus.UpdatedReplicas)})
	}
	if after.Phase == v1beta1.BatchReleasePhaseCompleted && before.Phase != after.Phase {
		events = append(events, planning.Event{Reason: v1beta1.ReasonCompleted, Message: "the workload has its own strategy"})
	}
	return events
}
