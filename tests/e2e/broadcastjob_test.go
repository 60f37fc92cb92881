// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

// ownNodes makes nodes for the test's job only. Their names begin with the namespace's.
func ownNodes(t *testing.T, n *environment.Namespace, count int) []string {
	t.Helper()
	var names []string
	for i := range count {
		names = append(names, n.OwnNode(fmt.Sprintf("%s-%d", n.Name, i), nil))
	}
	return names
}

// broadcastJob is a job for the own nodes of the test. Its pods behave as the annotation says; spec are more lines of the spec.
func broadcastJob(n *environment.Namespace, annotation, spec string) string {
	return strings.NewReplacer("NODES", n.Name, "ANNOTATION", annotation, "SPEC", spec).Replace(`
apiVersion: apps.kruise.io/v1beta1
kind: BroadcastJob
metadata: {name: scan}
spec:
SPEC
  template:
    metadata: {annotations: {ANNOTATION}}
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 0
      nodeSelector: {e2e: NODES}
      tolerations: [{key: e2e, operator: Exists}]
      containers: [{name: main, image: "example/web:v1"}]
`)
}

func getJob(ctx context.Context, n *environment.Namespace) (*v1beta1.BroadcastJob, error) {
	job := &v1beta1.BroadcastJob{}
	return job, n.Client.Get(ctx, client.ObjectKey{Namespace: n.Name, Name: "scan"}, job)
}

// awaitJob waits until the status of the job has these counters, and nothing else is going on.
func awaitJob(n *environment.Namespace, phase v1beta1.BroadcastJobPhase, desired, active, succeeded, failed int32) *v1beta1.BroadcastJob {
	want := fmt.Sprint(phase, " desired ", desired, " active ", active, " succeeded ", succeeded, " failed ", failed)
	var job *v1beta1.BroadcastJob
	n.EventuallyWithin(time.Minute, "the job is "+want, func(ctx context.Context) (err error) {
		if job, err = getJob(ctx, n); err != nil {
			return err
		}
		s := &job.Status
		if got := fmt.Sprint(s.Phase, " desired ", s.Desired, " active ", s.Active, " succeeded ", s.Succeeded, " failed ", s.Failed); got != want {
			return fmt.Errorf("it is %s: %+v", got, s.Conditions)
		}
		return nil
	})
	return job
}

// ends lets the pod of a node end.
func ends(t *testing.T, n *environment.Namespace, node string, code int) {
	t.Helper()
	for _, pod := range n.Pods() {
		if pod.Spec.NodeName == node && pod.Status.Phase == corev1.PodRunning {
			n.PatchPod(pod.Name, fmt.Sprintf(`{"metadata":{"annotations":{%q:"%d",%q:"0s"}}}`, simnode.ExitCode, code, simnode.CompleteAfter))
			return
		}
	}
	t.Fatalf("no pod runs on %s", node)
}

func jobCondition(job *v1beta1.BroadcastJob, kind string) string {
	i := slices.IndexFunc(job.Status.Conditions, func(c v1beta1.BroadcastJobCondition) bool { return c.Type == kind && c.Status == corev1.ConditionTrue })
	if i < 0 {
		return ""
	}
	return job.Status.Conditions[i].Reason
}

const runsOn = simnode.CompleteAfter + ": never"

func TestBroadcastJobCompletesAndGoes(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	nodes := ownNodes(t, n, 3)
	n.Apply(broadcastJob(n, runsOn, "  parallelism: 2\n  completionPolicy: {ttlSecondsAfterFinished: 3}"))
	awaitJob(n, v1beta1.BroadcastJobRunning, 3, 2, 0, 0)
	ends(t, n, nodes[0], 0)
	awaitJob(n, v1beta1.BroadcastJobRunning, 3, 2, 1, 0)
	ends(t, n, nodes[1], 0)
	ends(t, n, nodes[2], 0)
	if out, err := n.Kubectl("wait", "--for=condition=Complete", "--timeout=30s", "bcj/scan"); err != nil {
		t.Fatal(out)
	}
	for _, pod := range n.Pods() {
		if pod.Labels["broadcastjob-name"] != "scan" || pod.Status.Phase != corev1.PodSucceeded {
			t.Errorf("pod %s is %s with labels %v", pod.Name, pod.Status.Phase, pod.Labels)
		}
	}
	n.EventuallyWithin(time.Minute, "the job and its pods are deleted after their time", func(ctx context.Context) error {
		switch _, err := getJob(ctx, n); {
		case err == nil:
			return errors.New("the job is there")
		case !apierrors.IsNotFound(err):
			return err
		}
		pods, err := n.ListPods(ctx)
		if err == nil && len(pods) > 0 {
			err = fmt.Errorf("%d pods are there", len(pods))
		}
		return err
	})
}

func TestBroadcastJobFailsFast(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	nodes := ownNodes(t, n, 3)
	n.Apply(broadcastJob(n, runsOn, ""))
	awaitJob(n, v1beta1.BroadcastJobRunning, 3, 3, 0, 0)
	ends(t, n, nodes[1], 1)
	job := awaitJob(n, v1beta1.BroadcastJobFailed, 3, 0, 0, 1)
	n.Eventually("the job has failed, and only the pod that did is left", func(ctx context.Context) (err error) {
		if job, err = getJob(ctx, n); err != nil {
			return err
		}
		pods, err := n.ListPods(ctx)
		if err == nil && (len(pods) != 1 || pods[0].Spec.NodeName != nodes[1] || jobCondition(job, "Failed") != "Failed") {
			err = fmt.Errorf("%d pods, conditions %+v", len(pods), job.Status.Conditions)
		}
		return err
	})
}

func TestBroadcastJobPausesAndResumes(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	nodes := ownNodes(t, n, 3)
	n.Apply(broadcastJob(n, runsOn, "  parallelism: 1\n  failurePolicy: {type: Pause}"))
	awaitJob(n, v1beta1.BroadcastJobRunning, 3, 1, 0, 0)
	ends(t, n, nodes[0], 1)
	if job := awaitJob(n, v1beta1.BroadcastJobPaused, 3, 0, 0, 1); jobCondition(job, "Stalled") != v1beta1.ReasonPausedByFailure {
		t.Errorf("conditions %+v", job.Status.Conditions)
	}
	n.Consistently(2*time.Second, "no pod is started", func(ctx context.Context) error {
		pods, err := n.ListPods(ctx)
		if err == nil && len(pods) != 1 {
			err = fmt.Errorf("there are %d", len(pods))
		}
		return err
	})
	if out, err := n.Kubectl("annotate", "bcj", "scan", "operator.kruise.io/resume=1"); err != nil {
		t.Fatal(out)
	}
	awaitJob(n, v1beta1.BroadcastJobRunning, 3, 1, 0, 1)
	ends(t, n, nodes[1], 0)
	awaitJob(n, v1beta1.BroadcastJobRunning, 3, 1, 1, 1)
	ends(t, n, nodes[2], 0)
	awaitJob(n, v1beta1.BroadcastJobCompleted, 3, 0, 2, 1)
}

// TestBroadcastJobAndNodesThatComeAndGo: a job of the policy Never serves new nodes once,
// also those created again under their name.
func TestBroadcastJobAndNodesThatComeAndGo(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	nodes := ownNodes(t, n, 2)
	n.Apply(broadcastJob(n, simnode.CompleteAfter+`: "0s"`, "  completionPolicy: {type: Never}"))
	awaitJob(n, v1beta1.BroadcastJobRunning, 2, 0, 2, 0)
	for _, cordon := range []string{"cordon", "uncordon"} {
		if out, err := n.Kubectl(cordon, nodes[0]); err != nil {
			t.Fatal(out)
		}
	}
	if out, err := n.Kubectl("delete", "pods", "--all"); err != nil {
		t.Fatal(out)
	}
	joined := n.OwnNode(n.Name+"-9", nil)
	awaitJob(n, v1beta1.BroadcastJobRunning, 3, 0, 3, 0)
	for _, pod := range n.Pods() {
		if pod.Spec.NodeName != joined {
			t.Errorf("node %s was served again", pod.Spec.NodeName)
		}
	}
	if err := env.Nodes.Remove(t.Context(), joined); err != nil {
		t.Fatal(err)
	}
	awaitJob(n, v1beta1.BroadcastJobRunning, 2, 0, 2, 0)
	n.OwnNode(joined, nil)
	awaitJob(n, v1beta1.BroadcastJobRunning, 3, 0, 3, 0)
}

func TestBroadcastJobWithoutAFittingNode(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	n.Apply(broadcastJob(n, runsOn, "  parallelism: 50%"))
	job := awaitJob(n, v1beta1.BroadcastJobRunning, 0, 0, 0, 0)
	if jobCondition(job, "Stalled") != v1beta1.ReasonNoFittingNode || jobCondition(job, "Complete") != "" {
		t.Errorf("conditions %+v", job.Status.Conditions)
	}
	ownNodes(t, n, 1)
	awaitJob(n, v1beta1.BroadcastJobRunning, 1, 1, 0, 0)
}

// TestBroadcastJobLeftAloneFromItsBirth: a job its user keeps the operator away from gets
// no pods, and says why.
func TestBroadcastJobLeftAloneFromItsBirth(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	ownNodes(t, n, 1)
	n.Apply(strings.Replace(broadcastJob(n, runsOn, ""), "{name: scan}", `{name: scan, annotations: {operator.kruise.io/paused: "true"}}`, 1))
	n.Eventually("the condition says so", func(ctx context.Context) error {
		job, err := getJob(ctx, n)
		if err == nil && jobCondition(job, "Stalled") != v1beta1.ReasonReconciliationPaused {
			err = fmt.Errorf("the status is %+v", job.Status)
		}
		return err
	})
	n.Consistently(time.Second, "no pod is created", func(context.Context) error {
		if pods := n.Pods(); len(pods) > 0 {
			return fmt.Errorf("the pods are %v", environment.Names(pods))
		}
		return nil
	})
	if out, err := n.Kubectl("annotate", "bcj", "scan", "operator.kruise.io/paused-"); err != nil {
		t.Fatal(out)
	}
	awaitJob(n, v1beta1.BroadcastJobRunning, 1, 1, 0, 0)
}

func TestCronJobOfBroadcastJobs(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	ownNodes(t, n, 2)
	n.Apply(strings.NewReplacer("NODES", n.Name, "COMPLETE", simnode.CompleteAfter).Replace(`
apiVersion: apps.kruise.io/v1alpha1
kind: AdvancedCronJob
metadata: {name: sweep}
spec:
  schedule: "@every 3s"
  concurrencyPolicy: Forbid
  successfulJobsHistoryLimit: 1
  template:
    broadcastJobTemplate:
      metadata: {labels: {app: sweep}}
      spec:
        template:
          metadata: {annotations: {COMPLETE: "0s"}}
          spec:
            restartPolicy: Never
            nodeSelector: {e2e: NODES}
            tolerations: [{key: e2e, operator: Exists}]
            containers: [{name: main, image: "example/web:v1"}]
`))
	seen := map[string]bool{}
	n.EventuallyWithin(time.Minute, "two runs have completed on both nodes", func(ctx context.Context) error {
		jobs := &v1beta1.BroadcastJobList{}
		if err := n.Client.List(ctx, jobs, client.InNamespace(n.Name), client.MatchingLabels{"app": "sweep"}); err != nil {
			return err
		}
		for i := range jobs.Items {
			if jobCondition(&jobs.Items[i], "Complete") != "" && jobs.Items[i].Status.Succeeded == 2 {
				seen[jobs.Items[i].Name] = true
			}
		}
		if len(seen) < 2 {
			return fmt.Errorf("%d have", len(seen))
		}
		return nil
	})
}
