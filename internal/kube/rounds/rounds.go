// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package rounds answers questions about one object together: those that come while others are answered share one write. It is tied to the version
// read, so any number of processes may do so at once.
package rounds

import (
	"context"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

// timeout bounds one round: reading, deciding and writing, with conflicts.
const timeout = 6 * time.Second

// pauses are those after conflicts.
func pauses() wait.Backoff {
	return wait.Backoff{Steps: 30, Duration: 5 * time.Millisecond, Factor: 1.15, Jitter: 1}
}

// Answer answers all questions about an object. It is called again after a conflict.
type Answer[Q any] func(ctx context.Context, about types.NamespacedName, questions []Q) error

// Of are questions that wait.
type Of[Q any] struct {
	mutex   sync.Mutex
	waiting map[types.NamespacedName][]*question[Q]
}

type question[Q any] struct {
	asked Q
	done  chan error
}

// Ask returns when the question is answered, or nobody waits for it any more.
func (r *Of[Q]) Ask(ctx context.Context, about types.NamespacedName, asked Q, answer Answer[Q]) error {
	q := &question[Q]{asked: asked, done: make(chan error, 1)}
	r.mutex.Lock()
	if r.waiting == nil {
		r.waiting = map[types.NamespacedName][]*question[Q]{}
	}
	others, busy := r.waiting[about]
	r.waiting[about] = append(others, q)
	r.mutex.Unlock()
	if !busy {
		go r.answerAll(context.WithoutCancel(ctx), about, answer)
	}
	select {
	case err := <-q.done:
		return err
	case <-ctx.Done():
		r.leave(about, q)
		return ctx.Err()
	}
}

// answerAll answers questions until there are none.
func (r *Of[Q]) answerAll(ctx context.Context, about types.NamespacedName, answer Answer[Q]) {
	for questions := r.next(about); len(questions) > 0; questions = r.next(about) {
		asked := make([]Q, len(questions))
		for i, q := range questions {
			asked[i] = q.asked
		}
		err := round(ctx, about, asked, answer)
		for _, q := range questions {
			q.done <- err
		}
	}
}

func (r *Of[Q]) next(about types.NamespacedName) []*question[Q] {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	questions := r.waiting[about]
	r.waiting[about] = nil
	if len(questions) == 0 {
		delete(r.waiting, about)
	}
	return questions
}

// leave takes back a question that is not being answered yet.
func (r *Of[Q]) leave(about types.NamespacedName, q *question[Q]) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if questions, busy := r.waiting[about]; busy {
		r.waiting[about] = slices.DeleteFunc(questions, func(other *question[Q]) bool { return other == q })
	}
}

func round[Q any](ctx context.Context, about types.NamespacedName, asked []Q, answer Answer[Q]) (err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	_ = wait.ExponentialBackoffWithContext(ctx, pauses(), func(ctx context.Context) (bool, error) {
		err = answer(ctx, about, asked)
		return !apierrors.IsConflict(err), nil
	})
	return err
}
