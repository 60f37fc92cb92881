// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package budgets asks PodUnavailableBudgets at the API server, and records what they allow. The status of a budget, tied to its
// version, is the only counter: any number of processes may ask at once.
package budgets

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/policy/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/disruption"
)

const (
	// roundTimeout bounds one answer: reading, deciding and writing, with conflicts.
	roundTimeout = 6 * time.Second
	// firstPause and lastPause bound the pause after a conflict.
	firstPause = 5 * time.Millisecond
	lastPause  = 100 * time.Millisecond
)

// Ledger asks budgets. Questions about one budget that come while another is answered are answered together, by one write.
type Ledger struct {
	// Live reads past the cache; Client writes.
	Live   client.Reader
	Client client.Client
	Clock  clock.PassiveClock

	mutex   sync.Mutex
	waiting map[types.NamespacedName][]*question
}

// question is asked of one budget.
type question struct {
	asks   []disruption.Ask
	dryRun bool
	done   chan reply
}

type reply struct {
	answers []disruption.Answer
	err     error
}

// Ask asks the budget of a name, and records what it allows unless dryRun. A budget that is gone denies
// nothing.
func (l *Ledger) Ask(ctx context.Context, budget types.NamespacedName, dryRun bool, asks ...disruption.Ask) ([]disruption.Answer, error) {
	q := &question{asks: asks, dryRun: dryRun, done: make(chan reply, 1)}
	l.mutex.Lock()
	if l.waiting == nil {
		l.waiting = map[types.NamespacedName][]*question{}
	}
	asked, busy := l.waiting[budget]
	l.waiting[budget] = append(asked, q)
	l.mutex.Unlock()
	if !busy {
		go l.answerAll(context.WithoutCancel(ctx), budget)
	}
	select {
	case r := <-q.done:
		return r.answers, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("asking PodUnavailableBudget %s: %w", budget.Name, ctx.Err())
	}
}

// answerAll answers questions until there are none.
func (l *Ledger) answerAll(ctx context.Context, budget types.NamespacedName) {
	for {
		l.mutex.Lock()
		questions := l.waiting[budget]
		if len(questions) == 0 {
			delete(l.waiting, budget)
			l.mutex.Unlock()
			return
		}
		l.waiting[budget] = []*question{}
		l.mutex.Unlock()
		l.round(ctx, budget, questions)
	}
}

// round answers some questions together; dry runs come last, after what is recorded.
func (l *Ledger) round(ctx context.Context, budget types.NamespacedName, questions []*question) {
	ctx, cancel := context.WithTimeout(ctx, roundTimeout)
	defer cancel()
	pause := firstPause
	for {
		err := l.try(ctx, budget, questions)
		if err == nil {
			return
		}
		if apierrors.IsConflict(err) {
			select {
			case <-time.After(pause/2 + rand.N(pause)): //nolint:gosec // it only spreads the tries
				pause = min(2*pause, lastPause)
				continue
			case <-ctx.Done():
			}
		}
		for _, q := range questions {
			q.done <- reply{err: fmt.Errorf("asking PodUnavailableBudget %s: %w", budget.Name, err)}
		}
		return
	}
}

func (l *Ledger) try(ctx context.Context, name types.NamespacedName, questions []*question) error {
	stored := &v1beta1.PodUnavailableBudget{}
	err := l.Live.Get(ctx, name, stored)
	if apierrors.IsNotFound(err) || err == nil && stored.DeletionTimestamp != nil {
		for _, q := range questions {
			q.done <- reply{answers: slices.Repeat([]disruption.Answer{{Elsewhere: true}}, len(q.asks))}
		}
		return nil
	}
	if err != nil {
		return err
	}
	answers, after := decide(stored, questions, l.Clock.Now())
	if after != nil {
		if err := l.write(ctx, stored, after); err != nil {
			return err
		}
	}
	for i, q := range questions {
		q.done <- reply{answers: answers[i]}
	}
	return nil
}

// decide decides for all, and returns the status to write.
func decide(stored *v1beta1.PodUnavailableBudget, questions []*question, now time.Time) ([][]disruption.Answer, *disruption.Status) {
	answers := make([][]disruption.Answer, len(questions))
	budget := disruption.Parse(stored.DeepCopy())
	var after *disruption.Status
	for _, dryRun := range []bool{false, true} {
		for i, q := range questions {
			if q.dryRun != dryRun {
				continue
			}
			said, status := disruption.Decide(budget, q.asks, now)
			answers[i] = said
			if status != nil && !dryRun {
				after, budget.Status = status, *status
			}
		}
	}
	return answers, after
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
