// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package budgets asks PodUnavailableBudgets at the API server, and records what they allow. The status of a budget, tied to its
// version, is the only counter: any number of processes may ask at once.
package budgets

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/policy/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/disruption"
	"github.com/kruise-operator/kruise-operator/internal/kube/rounds"
)

// Ledger asks budgets. Questions about one budget that come while another is answered are answered together, by one write.
type Ledger struct {
	// Live reads past the cache; Client writes.
	Live   client.Reader
	Client client.Client
	Clock  clock.PassiveClock

	rounds rounds.Of[*question]
}

// question is asked of one budget.
type question struct {
	asks    []disruption.Ask
	dryRun  bool
	answers []disruption.Answer
}

// Ask asks the budget of a name, and records what it allows unless dryRun. A budget that is gone denies
// nothing.
func (l *Ledger) Ask(ctx context.Context, budget types.NamespacedName, dryRun bool, asks ...disruption.Ask) ([]disruption.Answer, error) {
	q := &question{asks: asks, dryRun: dryRun}
	if err := l.rounds.Ask(ctx, budget, q, l.answer); err != nil {
		return nil, fmt.Errorf("asking PodUnavailableBudget %s: %w", budget.Name, err)
	}
	return q.answers, nil
}

func (l *Ledger) answer(ctx context.Context, name types.NamespacedName, questions []*question) error {
	stored := &v1beta1.PodUnavailableBudget{}
	err := l.Live.Get(ctx, name, stored)
	if apierrors.IsNotFound(err) || err == nil && stored.DeletionTimestamp != nil {
		for _, q := range questions {
			q.answers = slices.Repeat([]disruption.Answer{{Elsewhere: true}}, len(q.asks))
		}
		return nil
	}
	if err != nil {
		return err
	}
	if after := decide(stored, questions, l.Clock.Now()); after != nil {
		return l.write(ctx, stored, after)
	}
	return nil
}

// decide answers all, and returns the status to write. Dry runs come last, after what is recorded.
func decide(stored *v1beta1.PodUnavailableBudget, questions []*question, now time.Time) (after *disruption.Status) {
	budget := disruption.Parse(stored.DeepCopy())
	for _, dryRun := range []bool{false, true} {
		for _, q := range questions {
			if q.dryRun != dryRun {
				continue
			}
			var status *disruption.Status
			if q.answers, status = disruption.Decide(budget, q.asks, now); status != nil && !dryRun {
				after, budget.Status = status, *status
			}
		}
	}
	return after
}

// write records what was allowed, if nobody wrote the budget meanwhile.
func (l *Ledger) write(ctx context.Context, stored *v1beta1.PodUnavailableBudget, after *disruption.Status) error {
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": stored.UID, "resourceVersion": stored.ResourceVersion},
		"status": map[string]any{
			"unavailableAllowed": after.UnavailableAllowed,
			"disruptedPods":      added(stored.Status.DisruptedPods, after.DisruptedPods), "unavailablePods": added(stored.Status.UnavailablePods, after.UnavailablePods),
		},
	})
	if err != nil {
		return err
	}
	budget := &v1beta1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Namespace: stored.Namespace, Name: stored.Name}}
	return l.Client.Status().Patch(ctx, budget, client.RawPatch(types.MergePatchType, body))
}

// added are the new and changed entries.
func added(before, after map[string]metav1.Time) map[string]metav1.Time {
	entries := map[string]metav1.Time{}
	for name, at := range after {
		if old, had := before[name]; !had || !old.Equal(&at) {
			entries[name] = at
		}
	}
	return entries
}
