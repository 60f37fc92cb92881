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

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

// debugged makes running pods p0, p1 and so on. Nothing ends in them until the test asks.
func debugged(t *testing.T, n *environment.Namespace, count int) {
	t.Helper()
	for i := range count {
		n.Apply(fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: p%d, labels: {app: web}}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: web, image: "example/web:v1"}]
`, i))
	}
	n.EventuallyWithin(time.Minute, "the pods run", func(ctx context.Context) error {
		for _, pod := range n.Pods() {
			if pod.Status.Phase != corev1.PodRunning {
				return fmt.Errorf("pod %s is %s", pod.Name, pod.Status.Phase)
			}
		}
		return nil
	})
}

// ephemeralJob is a job for these pods; spec are more lines of its spec.
func ephemeralJob(name, container, spec string) string {
	return strings.NewReplacer("NAME", name, "CONTAINER", container, "SPEC", spec).Replace(`
apiVersion: apps.kruise.io/v1beta1
kind: EphemeralJob
metadata: {name: NAME}
spec:
SPEC
  selector: {matchLabels: {app: web}}
  template:
    ephemeralContainers: [{name: CONTAINER, image: "busybox:1.37"}]
`)
}

// exits lets the ephemeral containers of a pod end.
func exits(n *environment.Namespace, pod string, code int) {
	n.PatchPod(pod, fmt.Sprintf(`{"metadata":{"annotations":{%q:"%d",%q:"0s"}}}`, simnode.EphemeralCode, code, simnode.EphemeralAfter))
}

// awaitEphemeralJob waits until the status of a job has these counters.
func awaitEphemeralJob(n *environment.Namespace, name string, phase v1beta1.EphemeralJobPhase, match, running, waiting, succeeded, failed int32) *v1beta1.EphemeralJob {
	want := fmt.Sprint(phase, " match ", match, " running ", running, " waiting ", waiting, " succeeded ", succeeded, " failed ", failed)
	job := &v1beta1.EphemeralJob{}
	n.EventuallyWithin(time.Minute, "job "+name+" is "+want, func(ctx context.Context) error {
		if err := n.Client.Get(ctx, client.ObjectKey{Namespace: n.Name, Name: name}, job); err != nil {
			return err
		}
		s := &job.Status
		if got := fmt.Sprint(s.Phase, " match ", s.Matches, " running ", s.Running, " waiting ", s.Waiting, " succeeded ", s.Succeeded, " failed ", s.Failed); got != want {
			return fmt.Errorf("it is %s: %+v", got, s.Conditions)
		}
		return nil
	})
	return job
}

func ephemeralJobCondition(job *v1beta1.EphemeralJob, kind string) string {
	i := slices.IndexFunc(job.Status.Conditions, func(c v1beta1.EphemeralJobCondition) bool { return c.Type == kind && c.Status == corev1.ConditionTrue })
	if i < 0 {
		return ""
	}
	return job.Status.Conditions[i].Reason
}

// injected are the pods with a container of the name, sorted.
func injected(n *environment.Namespace, container string) []string {
	var names []string
	for _, pod := range n.Pods() {
		if slices.ContainsFunc(pod.Spec.EphemeralContainers, func(c corev1.EphemeralContainer) bool { return c.Name == container }) {
			names = append(names, pod.Name)
		}
	}
	slices.Sort(names)
	return names
}

func TestEphemeralJobSucceedsAndGoes(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	debugged(t, n, 3)
	n.Apply(ephemeralJob("debug", "dbg", "  parallelism: 2\n  ttlSecondsAfterFinished: 3"))
	job := awaitEphemeralJob(n, "debug", v1beta1.EphemeralJobRunning, 3, 2, 0, 0, 0)
	first := injected(n, "dbg")
	if len(first) != 2 {
		t.Fatalf("pods with the container: %v", first)
	}
	for _, pod := range n.Pods() {
		for _, c := range pod.Spec.EphemeralContainers {
			mark := corev1.EnvVar{Name: shared.EnvEphemeralJob, Value: string(job.UID)}
			if !slices.Contains(c.Env, mark) || c.ImagePullPolicy != corev1.PullIfNotPresent || c.TerminationMessagePolicy != corev1.TerminationMessageReadFile {
				t.Errorf("pod %s has %+v", pod.Name, c)
			}
		}
	}
	exits(n, first[0], 0)
	awaitEphemeralJob(n, "debug", v1beta1.EphemeralJobRunning, 3, 2, 0, 1, 0)
	for i := range 3 {
		exits(n, fmt.Sprintf("p%d", i), 0)
	}
	if out, err := n.Kubectl("wait", "--for=condition=JobSucceeded", "--timeout=60s", "ejob/debug"); err != nil {
		t.Fatal(out)
	}
	n.EventuallyWithin(time.Minute, "the job is deleted after its time", func(ctx context.Context) error {
		err := n.Client.Get(ctx, client.ObjectKeyFromObject(job), job)
		if err == nil {
			return errors.New("it is there")
		}
		return client.IgnoreNotFound(err)
	})
	if got := injected(n, "dbg"); len(got) != 3 {
		t.Errorf("pods with the container: %v", got)
	}
}

// TestEphemeralJobFailureMix: a job with mixed ends of its targets has failed, and one with
// the same names finds no target then.
func TestEphemeralJobFailureMix(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	debugged(t, n, 3)
	exits(n, "p0", 0)
	exits(n, "p1", 1)
	exits(n, "p2", 0)
	n.Apply(ephemeralJob("debug", "dbg", "  parallelism: 3"))
	job := awaitEphemeralJob(n, "debug", v1beta1.EphemeralJobFailed, 3, 0, 0, 2, 1)
	if ephemeralJobCondition(job, "JobFailed") != "JobFailed" || ephemeralJobCondition(job, "Stalled") != "JobFailed" {
		t.Errorf("conditions %+v", job.Status.Conditions)
	}
	n.Apply(ephemeralJob("again", "dbg", ""))
	job = awaitEphemeralJob(n, "again", v1beta1.EphemeralJobWaiting, 0, 0, 0, 0, 0)
	if ephemeralJobCondition(job, "Stalled") != v1beta1.ReasonMatchEmpty {
		t.Errorf("conditions %+v", job.Status.Conditions)
	}
	n.Apply(ephemeralJob("other", "dbg2", "  replicas: 1"))
	awaitEphemeralJob(n, "other", v1beta1.EphemeralJobSucceeded, 1, 0, 0, 1, 0)
}

// TestEphemeralJobImageThatCannotBePulled: it stops at one pod, says why, and ends with its deadline.
func TestEphemeralJobImageThatCannotBePulled(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	debugged(t, n, 2)
	for i := range 2 {
		n.PatchPod(fmt.Sprintf("p%d", i), fmt.Sprintf(`{"metadata":{"annotations":{%q:"dbg"}}}`, simnode.ImagePullFails))
	}
	n.Apply(ephemeralJob("debug", "dbg", "  activeDeadlineSeconds: 8"))
	job := awaitEphemeralJob(n, "debug", v1beta1.EphemeralJobWaiting, 2, 0, 1, 0, 0)
	n.Eventually("the job says why nothing moves", func(ctx context.Context) error {
		if err := n.Client.Get(ctx, client.ObjectKeyFromObject(job), job); err != nil {
			return err
		}
		if ephemeralJobCondition(job, "Stalled") != v1beta1.ReasonContainersWait {
			return fmt.Errorf("conditions %+v", job.Status.Conditions)
		}
		return nil
	})
	job = awaitEphemeralJob(n, "debug", v1beta1.EphemeralJobFailed, 2, 0, 0, 0, 2)
	if got := injected(n, "dbg"); len(got) != 1 || ephemeralJobCondition(job, "JobFailed") != v1beta1.ReasonDeadlineExceeded {
		t.Errorf("pods with the container %v, conditions %+v", got, job.Status.Conditions)
	}
}

// TestEphemeralJobRefused: where pod security admission refuses the container, each pod counts as failed, and events say why.
func TestEphemeralJobRefused(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	debugged(t, n, 2)
	if out, err := n.Kubectl("label", "namespace", n.Name, "pod-security.kubernetes.io/enforce=restricted"); err != nil {
		t.Fatal(out)
	}
	n.Apply(ephemeralJob("debug", "dbg", ""))
	job := awaitEphemeralJob(n, "debug", v1beta1.EphemeralJobFailed, 2, 0, 0, 0, 2)
	i := slices.IndexFunc(job.Status.Conditions, func(c v1beta1.EphemeralJobCondition) bool { return c.Type == v1beta1.EphemeralJobConditionFailed })
	if i < 0 || !strings.Contains(job.Status.Conditions[i].Message, "PodSecurity") {
		t.Errorf("conditions %+v", job.Status.Conditions)
	}
	n.Eventually("an event says so", func(ctx context.Context) error {
		out, err := n.Kubectl("get", "events.events.k8s.io", "--field-selector=reason=CreateFailed", "--output=name")
		if err == nil && !strings.Contains(out, "event") {
			err = errors.New("there is none")
		}
		return err
	})
}

// TestEphemeralJobPausesAndIsDeleted: a paused job adds nothing; one with OpenKruise's finalizer can be deleted while its containers run.
func TestEphemeralJobPausesAndIsDeleted(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	debugged(t, n, 3)
	n.Apply(strings.Replace(ephemeralJob("debug", "dbg", ""), "{name: debug}", "{name: debug, finalizers: ["+shared.FinalizerEphemeralJob+"]}", 1))
	awaitEphemeralJob(n, "debug", v1beta1.EphemeralJobRunning, 3, 1, 0, 0, 0)
	if out, err := n.Kubectl("patch", "ejob", "debug", "--type=merge", `--patch={"spec":{"paused":true}}`); err != nil {
		t.Fatal(out)
	}
	awaitEphemeralJob(n, "debug", v1beta1.EphemeralJobPaused, 3, 1, 0, 0, 0)
	exits(n, injected(n, "dbg")[0], 0)
	awaitEphemeralJob(n, "debug", v1beta1.EphemeralJobPaused, 3, 0, 0, 1, 0)
	if out, err := n.Kubectl("patch", "ejob", "debug", "--type=merge", `--patch={"spec":{"paused":false}}`); err != nil {
		t.Fatal(out)
	}
	job := awaitEphemeralJob(n, "debug", v1beta1.EphemeralJobRunning, 3, 1, 0, 1, 0)
	if out, err := n.Kubectl("delete", "ejob", "debug", "--wait=false"); err != nil {
		t.Fatal(out)
	}
	n.EventuallyWithin(time.Minute, "the job is gone", func(ctx context.Context) error {
		if err := n.Client.Get(ctx, client.ObjectKeyFromObject(job), job); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it has the finalizers %v: %w", job.Finalizers, err)
		}
		return nil
	})
}

// ephemeralJobsApplied waits until every EphemeralJob of the namespace was looked at and no stored spec is at fault: where pods match, the
// containers work in one of them. It returns how many jobs there are.
func ephemeralJobsApplied(t *testing.T, n *environment.Namespace) int {
	t.Helper()
	jobs := &v1beta1.EphemeralJobList{}
	if err := n.Client.List(t.Context(), jobs, client.InNamespace(n.Name)); err != nil {
		t.Fatal(err)
	}
	for i := range jobs.Items {
		job := &jobs.Items[i]
		n.EventuallyWithin(time.Minute, "EphemeralJob "+job.Name+" is managed", func(ctx context.Context) error {
			if err := n.Client.Get(ctx, client.ObjectKeyFromObject(job), job); err != nil {
				return err
			}
			s := &job.Status
			if s.ObservedGeneration != job.Generation || s.Phase == v1beta1.EphemeralJobError || s.Failed > 0 || s.Matches > 0 && s.Running == 0 {
				return fmt.Errorf("the status is %+v", s)
			}
			return nil
		})
	}
	return len(jobs.Items)
}
