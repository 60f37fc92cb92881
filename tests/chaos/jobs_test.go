// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package chaos_test

import (
	"context"
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/engine/nodefit"
	"github.com/kruise-operator/kruise-operator/tests/framework/chaos"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
)

// broadcastJob is a job for the lane's nodes, whose pods end after a moment with a code.
// MORE are more lines of the spec.
const broadcastJob = `
apiVersion: apps.kruise.io/v1beta1
kind: BroadcastJob
metadata: {name: scan}
spec:
  parallelism: 2
MORE
  template:
    metadata: {annotations: {` + simnode.CompleteAfter + `: 100ms, ` + simnode.ExitCode + `: "CODE"}}
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 0
      nodeSelector: {chaos: NODES}
      tolerations: [{key: chaos, operator: Exists}]
      containers: [{name: main, image: "example/web:v1"}]
`

// broadcastJobs are scenarios of a BroadcastJob.
func broadcastJobs() []chaos.Scenario {
	phase := func(want string) func(context.Context, *chaos.World) error {
		return func(ctx context.Context, w *chaos.World) error {
			job, err := read(ctx, w, "BroadcastJob", "scan")
			if err != nil {
				return err
			}
			if got, _, _ := unstructured.NestedString(job.Object, "status", "phase"); got != want {
				return fmt.Errorf("the phase is %q: %v", got, job.Object["status"])
			}
			return nil
		}
	}
	all := []chaos.Scenario{
		{Name: "complete", Steps: []chaos.Step{
			withLastingNodes(apply(broadcastJob, phase("completed"), "MORE", "", "CODE", "0"), "a", "b", "c", "d"),
		}},
		{Name: "pause-and-resume", Steps: []chaos.Step{
			withLastingNodes(apply(broadcastJob, phase("paused"), "MORE", "  paused: true", "CODE", "0"), "a", "b", "c"),
			apply(broadcastJob, phase("completed"), "MORE", "  paused: false", "CODE", "0"),
		}},
		{Name: "nodes-come", Steps: []chaos.Step{
			withNodes(apply(broadcastJob, served(2), "MORE", "  completionPolicy: {type: Never}", "CODE", "0"), true, "a", "b"),
			withNodes(chaos.Step{Settled: served(4)}, true, "c", "d"),
		}},
		{Name: "fail-fast", Steps: []chaos.Step{
			withLastingNodes(apply(broadcastJob, phase("failed"), "MORE", "  failurePolicy: {type: FailFast}", "CODE", "1"), "a"),
		}},
	}
	for i := range all {
		all[i].Kind, all[i].RandomNames, all[i].Observe = "BroadcastJob", true, servesOnce
	}
	return all
}

// served says on how many nodes the job has succeeded.
func served(want int64) func(context.Context, *chaos.World) error {
	return func(ctx context.Context, w *chaos.World) error {
		job, err := read(ctx, w, "BroadcastJob", "scan")
		if err != nil {
			return err
		}
		if got, _, _ := unstructured.NestedInt64(job.Object, "status", "succeeded"); got != want {
			return fmt.Errorf("%d pods have succeeded: %v", got, job.Object["status"])
		}
		return nil
	}
}

// servesOnce judges that no node is served twice, unless somebody deletes a pod, and at
// most two pods are at work.
func servesOnce(w *chaos.World) {
	nodes, active := map[string]types.UID{}, map[types.UID]bool{}
	chaos.Follow(w, &corev1.PodList{}, func(object client.Object, deleted bool) error {
		pod, _ := object.(*corev1.Pod)
		node := nodefit.NodeOf(pod)
		if deleted || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			delete(active, pod.UID)
		} else {
			active[pod.UID] = true
		}
		if before, found := nodes[node]; found && before != pod.UID && !w.Plan.Disturbs() {
			return fmt.Errorf("node %s is served twice, by %s and %s", node, before, pod.UID)
		}
		nodes[node] = pod.UID
		if len(active) > 2 {
			return fmt.Errorf("%d pods are at work, allowed are 2", len(active))
		}
		return nil
	})
}

// cronJob starts a run every two seconds.
const cronJob = `
apiVersion: apps.kruise.io/v1beta1
kind: AdvancedCronJob
metadata: {name: tick}
spec:
  schedule: "@every 2s"
  paused: PAUSED
  concurrencyPolicy: POLICY
  successfulJobsHistoryLimit: 1
  template:
    jobTemplate:
      spec:
        template:
          metadata: {annotations: {` + simnode.CompleteAfter + `: "AFTER"}}
          spec:
            restartPolicy: Never
            terminationGracePeriodSeconds: 0
            containers: [{name: main, image: "example/web:v1"}]
`

// cronJobs are scenarios of an AdvancedCronJob.
func cronJobs() []chaos.Scenario {
	rests := func(ctx context.Context, w *chaos.World) error {
		if err := reconciled("AdvancedCronJob", "tick")(ctx, w); err != nil {
			return err
		}
		jobs := &batchv1.JobList{}
		if err := w.Client.List(ctx, jobs, client.InNamespace(w.Name)); err != nil {
			return err
		}
		if len(jobs.Items) != 1 || jobs.Items[0].Status.CompletionTime == nil {
			return fmt.Errorf("there are %d runs", len(jobs.Items))
		}
		return nil
	}
	steps := func(policy, after string) []chaos.Step {
		started := map[*chaos.World]map[string]bool{}
		runs := func(ctx context.Context, w *chaos.World) error {
			jobs := &batchv1.JobList{}
			if err := w.Client.List(ctx, jobs, client.InNamespace(w.Name)); err != nil {
				return err
			}
			if started[w] == nil {
				started[w] = map[string]bool{}
			}
			for i := range jobs.Items {
				started[w][jobs.Items[i].Name] = true
			}
			wanted := 3
			if w.Plan.Disturbs() {
				wanted++ // No run is repeated: after one that somebody deletes there has to be another to end with.
			}
			if len(started[w]) < wanted {
				return fmt.Errorf("%d runs were seen", len(started[w]))
			}
			return nil
		}
		return []chaos.Step{
			apply(cronJob, runs, "PAUSED", "false", "POLICY", policy, "AFTER", after),
			apply(cronJob, rests, "PAUSED", "true", "POLICY", policy, "AFTER", after),
		}
	}
	all := []chaos.Scenario{
		{Name: "runs-and-history", Steps: steps("Allow", "0s")},
		{Name: "replace", Steps: steps("Replace", "3s")},
		{Name: "forbid", Steps: steps("Forbid", "3s")},
	}
	for i := range all {
		all[i].Kind, all[i].RandomNames, all[i].Observe = "AdvancedCronJob", true, startsOnce
	}
	return all
}

// startsOnce judges each instant is started at most once.
func startsOnce(w *chaos.World) {
	runs := map[string]types.UID{}
	chaos.Follow(w, &batchv1.JobList{}, func(object client.Object, _ bool) error {
		at := object.GetAnnotations()["apps.kruise.io/scheduled-at"]
		if before, found := runs[at]; found && before != object.GetUID() && !w.Plan.Disturbs() {
			return fmt.Errorf("the run of %s was started twice: %s", at, strings.Join([]string{string(before), string(object.GetUID())}, " and "))
		}
		runs[at] = object.GetUID()
		return nil
	})
}
