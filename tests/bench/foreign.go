// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// foreign measures what pods cost that nobody here manages: the resident memory of a new process with them, and without.
func (b *run) foreign(ctx context.Context) ([]figure, error) {
	without, err := b.atRest(ctx)
	if err != nil {
		return nil, err
	}
	namespace, err := b.namespace(ctx, "foreign")
	if err != nil {
		return nil, err
	}
	if err := b.createForeign(ctx, namespace, b.options.foreign); err != nil {
		return nil, err
	}
	with, err := b.atRest(ctx)
	if err != nil {
		return nil, err
	}
	f, err := b.requests(figure{Scenario: foreignScenario, Pods: b.options.foreign, Seconds: b.options.idle.Seconds()})
	if err != nil {
		return nil, err
	}
	f.PeakRSSMiB = float64(with) / (1 << 20)
	f.Note = fmt.Sprintf("a new process beside pods of others, watched for %s; RSS at the end, not the peak; without these pods it is %.1f MiB",
		b.options.idle, float64(without)/(1<<20))
	if err := b.core.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{}); err != nil {
		return nil, err
	}
	return []figure{f}, nil
}

// atRest is the resident memory, in bytes, of a new process of the operator that was idle for a while.
func (b *run) atRest(ctx context.Context) (int64, error) {
	if err := b.operator.Stop(); err != nil {
		return 0, err
	}
	if err := b.operator.Run(ctx); err != nil {
		return 0, err
	}
	select {
	case <-time.After(b.options.idle):
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	usage, err := b.operator.Usage()
	return usage.RSS, err
}

// createForeign creates pods of the size that pods have, which nothing controls and nothing schedules.
func (b *run) createForeign(ctx context.Context, namespace string, n int) error {
	const atOnce = 16
	template := podTemplate("foreign", imageBefore)
	template.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/never"}}
	next, failures := make(chan int), make(chan error, atOnce)
	for range atOnce {
		go func() {
			var failed error
			for i := range next {
				_, err := b.core.CoreV1().Pods(namespace).Create(ctx, &corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{
						Name: fmt.Sprintf("foreign-%d", i), Labels: template.Labels,
						Annotations: map[string]string{"example.com/note": strings.Repeat("x", 3000)},
					},
					Spec: template.Spec,
				}, metav1.CreateOptions{})
				failed = errors.Join(failed, err)
			}
			failures <- failed
		}()
	}
	for i := range n {
		next <- i
	}
	close(next)
	var failed error
	for range atOnce {
		failed = errors.Join(failed, <-failures)
	}
	return failed
}
