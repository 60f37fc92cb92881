// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

// cronJob is an AdvancedCronJob creating Jobs every two seconds. Their pods obey the
// annotation; spec are more lines of the spec.
func cronJob(name, annotation, spec string) string {
	return strings.NewReplacer("NAME", name, "ANNOTATION", annotation, "SPEC", spec).Replace(`
apiVersion: apps.kruise.io/v1beta1
kind: AdvancedCronJob
metadata: {name: NAME}
spec:
  schedule: "@every 2s"
SPEC
  template:
    jobTemplate:
      spec:
        backoffLimit: 0
        template:
          metadata: {annotations: {ANNOTATION}}
          spec:
            restartPolicy: Never
            terminationGracePeriodSeconds: 0
            containers: [{name: main, image: "example/web:v1"}]
`)
}

func getCron(ctx context.Context, n *environment.Namespace, name string) (*v1beta1.AdvancedCronJob, error) {
	cron := &v1beta1.AdvancedCronJob{}
	return cron, n.Client.Get(ctx, client.ObjectKey{Namespace: n.Name, Name: name}, cron)
}

// ended counts finished Jobs and names unfinished ones.
func ended(ctx context.Context, n *environment.Namespace, name string) (complete int, active []string, err error) {
	jobs := &batchv1.JobList{}
	err = n.Client.List(ctx, jobs, client.InNamespace(n.Name), client.MatchingLabels{"operator.kruise.io/advancedcronjob": name})
	for i := range jobs.Items {
		if jobs.Items[i].Status.CompletionTime != nil {
			complete++
		} else {
			active = append(active, jobs.Items[i].Name)
		}
	}
	return complete, active, err
}

func TestCronJobRunsAndKeepsItsHistory(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	n.Apply(cronJob("tick", simnode.CompleteAfter+`: "0s"`, "  successfulJobsHistoryLimit: 2"))
	first := ""
	n.EventuallyWithin(time.Minute, "a first run has ended", func(ctx context.Context) error {
		jobs, err := runsOf(ctx, n, "batch/v1", "Job", "tick")
		if err != nil {
			return err
		}
		if len(jobs) == 0 {
			return errors.New("there is no run")
		}
		first = jobs[0].GetName()
		return nil
	})
	n.EventuallyWithin(time.Minute, "the first run is history, and two are kept", func(ctx context.Context) error {
		jobs, err := runsOf(ctx, n, "batch/v1", "Job", "tick")
		if err != nil {
			return err
		}
		for _, job := range jobs {
			if job.GetName() == first {
				return fmt.Errorf("%s is there", first)
			}
		}
		complete, _, err := ended(ctx, n, "tick")
		if err == nil && complete != 2 {
			err = fmt.Errorf("%d have ended", complete)
		}
		return err
	})
	cron, err := getCron(t.Context(), n, "tick")
	if err != nil {
		t.Fatal(err)
	}
	if cron.Status.Type != "Job" || cron.Status.LastScheduleTime == nil || cron.Status.NextScheduleTime == nil || cron.Status.ObservedGeneration != cron.Generation {
		t.Errorf("the status is %+v", cron.Status)
	}
	// Paused, nothing more is started.
	if out, err := n.Kubectl("patch", "acj", "tick", "--type=merge", "--patch", `{"spec":{"paused":true}}`); err != nil {
		t.Fatal(out)
	}
	n.Eventually("the pause is seen", func(ctx context.Context) error {
		cron, err = getCron(ctx, n, "tick")
		if err == nil && (cron.Status.ObservedGeneration != cron.Generation || cron.Status.NextScheduleTime != nil) {
			err = fmt.Errorf("the status is %+v", cron.Status)
		}
		return err
	})
	last := cron.Status.LastScheduleTime
	n.Consistently(4*time.Second, "no run is started", func(ctx context.Context) error {
		cron, err := getCron(ctx, n, "tick")
		if err == nil && !cron.Status.LastScheduleTime.Equal(last) {
			err = fmt.Errorf("the run of %v was", cron.Status.LastScheduleTime)
		}
		return err
	})
}

func TestCronJobForbid(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	n.Apply(cronJob("tick", simnode.CompleteAfter+`: never`, "  concurrencyPolicy: Forbid"))
	one := ""
	n.EventuallyWithin(time.Minute, "a run is due and waits", func(ctx context.Context) error {
		cron, err := getCron(ctx, n, "tick")
		if err != nil {
			return err
		}
		for _, c := range cron.Status.Conditions {
			if c.Type == v1beta1.AdvancedCronJobReconciling && c.Reason == v1beta1.ReasonRunActive && len(cron.Status.Active) == 1 {
				one = cron.Status.Active[0].Name
				return nil
			}
		}
		return fmt.Errorf("the status is %+v", cron.Status)
	})
	n.Consistently(5*time.Second, "one run is active", func(ctx context.Context) error {
		_, active, err := ended(ctx, n, "tick")
		if err == nil && (len(active) != 1 || active[0] != one) {
			err = fmt.Errorf("active are %v, not %s alone", active, one)
		}
		return err
	})
	// The Job's end wakes the schedule: the waiting one starts.
	for _, pod := range n.Pods() {
		n.PatchPod(pod.Name, `{"metadata":{"annotations":{"`+simnode.CompleteAfter+`":"0s"}}}`)
	}
	n.EventuallyWithin(30*time.Second, "the next run is started", func(ctx context.Context) error {
		_, active, err := ended(ctx, n, "tick")
		if err == nil && (len(active) != 1 || active[0] == one) {
			err = fmt.Errorf("active are %v", active)
		}
		return err
	})
}

func TestCronJobReplace(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	n.Apply(cronJob("tick", simnode.CompleteAfter+`: never`, "  concurrencyPolicy: Replace"))
	seen := map[string]bool{}
	n.EventuallyWithin(time.Minute, "three runs have replaced each other", func(ctx context.Context) error {
		_, active, err := ended(ctx, n, "tick")
		if err != nil {
			return err
		}
		for _, name := range active {
			seen[name] = true
		}
		if len(active) != 1 || len(seen) < 3 {
			return fmt.Errorf("active are %v, seen were %d", active, len(seen))
		}
		return nil
	})
}

// TestCronJobOfImages: each run is a list of images, and one without work for any node has
// succeeded.
func TestCronJobOfImages(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	n.Apply(`
apiVersion: apps.kruise.io/v1beta1
kind: AdvancedCronJob
metadata: {name: pull}
spec:
  schedule: "@every 1s"
  concurrencyPolicy: Forbid
  successfulJobsHistoryLimit: 2
  template:
    imageListPullJobTemplate:
      metadata: {labels: {team: images}}
      spec: {images: ["example/web:v1", "example/api:v1"], podSelector: {matchLabels: {app: none}}}
`)
	runs := &v1beta1.ImageListPullJobList{}
	n.EventuallyWithin(2*time.Minute, "two runs have ended", func(ctx context.Context) error {
		if err := n.Client.List(ctx, runs, client.InNamespace(n.Name), client.MatchingLabels{"team": "images"}); err != nil {
			return err
		}
		over := 0
		for i := range runs.Items {
			if s := runs.Items[i].Status; s.CompletionTime != nil && s.Succeeded == 2 {
				over++
			}
		}
		if over < 2 {
			return fmt.Errorf("%d of %d runs have ended", over, len(runs.Items))
		}
		return nil
	})
	cron, err := getCron(t.Context(), n, "pull")
	if err != nil {
		t.Fatal(err)
	}
	if cron.Status.Type != "ImageListPullJob" || cron.Status.LastScheduleTime == nil {
		t.Errorf("the status is %+v", cron.Status)
	}
}

// TestCronJobWhoseRunIsRefused: a refusal is told, and runs go on when its cause is gone.
func TestCronJobWhoseRunIsRefused(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	limit(n, "none", `count/jobs.batch: "0"`)
	n.Apply(cronJob("tick", simnode.CompleteAfter+`: "0s"`, ""))
	n.EventuallyWithin(time.Minute, "the refusal is told", func(ctx context.Context) error {
		cron, err := getCron(ctx, n, "tick")
		if err != nil {
			return err
		}
		for _, c := range cron.Status.Conditions {
			if c.Type == v1beta1.AdvancedCronJobFailedCreate && strings.Contains(c.Message, "quota") {
				return nil
			}
		}
		return fmt.Errorf("the status is %+v", cron.Status)
	})
	if out, err := n.Kubectl("delete", "resourcequota", "none"); err != nil {
		t.Fatal(out)
	}
	n.EventuallyWithin(time.Minute, "runs are started again", func(ctx context.Context) error {
		complete, _, err := ended(ctx, n, "tick")
		if err == nil && complete == 0 {
			err = fmt.Errorf("none has ended")
		}
		return err
	})
}
