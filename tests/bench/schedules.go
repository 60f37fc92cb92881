// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

const schedulesScenario = "schedules"

var advancedCronJob = workload{kind: "AdvancedCronJob"}

// suspended is a Job that makes no pod: only the making of runs is measured.
func suspended() batchv1.JobTemplateSpec {
	return batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{
		Suspend: ptr.To(true),
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "main", Image: imageBefore}},
		}},
	}}
}

// dueAtOnce makes many AdvancedCronJobs, all due at the next full minute, and says how late their runs are. The bare client creates as many Jobs.
func (b *run) dueAtOnce(ctx context.Context) ([]figure, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	names := make([]string, b.options.schedules)
	for i := range names {
		names[i] = fmt.Sprintf("cron-%d", i)
	}
	b.progress(advancedCronJob.kind, schedulesScenario, 0, "the bare client")
	raw, err := b.rawJobs(ctx, names)
	if err != nil {
		return nil, fmt.Errorf("the bare client: %w", err)
	}
	b.progress(advancedCronJob.kind, schedulesScenario, 0, "the operator")
	namespace, err := b.namespace(ctx, "schedules")
	if err != nil {
		return nil, err
	}
	watching, err := client.NewWithWatch(b.cluster.Config(), client.Options{Scheme: b.client.Scheme()})
	if err != nil {
		return nil, err
	}
	due := time.Now().UTC().Truncate(time.Minute).Add(2 * time.Minute)
	schedule := fmt.Sprintf("%d %d * * *", due.Minute(), due.Hour())
	err = parallel(ctx, names, func(ctx context.Context, name string) error {
		template := suspended()
		return b.client.Create(ctx, &v1beta1.AdvancedCronJob{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec:       v1beta1.AdvancedCronJobSpec{Schedule: schedule, Template: v1beta1.CronJobTemplate{JobTemplate: &template}},
		})
	})
	if err != nil {
		return nil, err
	}
	if time.Now().After(due) {
		return nil, fmt.Errorf("%d objects were not made before %s", len(names), due)
	}
	jobs, err := watching.Watch(ctx, &batchv1.JobList{}, client.InNamespace(namespace))
	if err != nil {
		return nil, err
	}
	defer jobs.Stop()
	var skews []time.Duration
	f, err := b.measure(ctx, "due in the same minute", len(names), func() (took, error) {
		for event := range jobs.ResultChan() {
			if event.Type != watch.Added {
				continue
			}
			if skews = append(skews, time.Since(due)); len(skews) == len(names) {
				break
			}
		}
		if len(skews) < len(names) {
			return took{}, fmt.Errorf("%d of %d runs were seen: %w", len(skews), len(names), context.Cause(ctx))
		}
		return took{all: skews[len(skews)-1]}, b.allTold(ctx, namespace) // so that their writes are in the figure
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(skews)
	f.Note = fmt.Sprintf("skew, as a client sees the runs: median %.2f s, p99 %.2f s; raw: as many Jobs created at once",
		skews[len(skews)/2].Seconds(), skews[len(skews)*99/100].Seconds())
	figures := []figure{beside(f, raw)}
	if err := b.client.DeleteAllOf(ctx, &v1beta1.AdvancedCronJob{}, client.InNamespace(namespace), client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		return figures, err
	}
	return figures, nil
}

// allTold returns when the status of every AdvancedCronJob of a namespace says that it has run.
func (b *run) allTold(ctx context.Context, namespace string) error {
	for {
		list := &v1beta1.AdvancedCronJobList{}
		if err := b.client.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return err
		}
		if !slices.ContainsFunc(list.Items, func(c v1beta1.AdvancedCronJob) bool { return c.Status.LastScheduleTime == nil }) {
			return nil
		}
		select {
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// rawJobs creates Jobs and deletes them again.
func (b *run) rawJobs(ctx context.Context, names []string) (time.Duration, error) {
	namespace, err := b.namespace(ctx, "schedules-raw")
	if err != nil {
		return 0, err
	}
	template := suspended()
	began := time.Now()
	err = parallel(ctx, names, func(ctx context.Context, name string) error {
		return b.client.Create(ctx, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: *template.Spec.DeepCopy()})
	})
	took := time.Since(began)
	if err != nil {
		return 0, err
	}
	return took, b.client.DeleteAllOf(ctx, &batchv1.Job{}, client.InNamespace(namespace), client.PropagationPolicy(metav1.DeletePropagationBackground))
}
