// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package takeover_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/nodefit"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
)

// nodesWorld is a cluster as OpenKruise leaves it, with workloads of nodes and of time.
type nodesWorld struct {
	*environment.Namespace
	t      *testing.T
	direct client.Client
	before fixture
}

// TestTakeoverOfNodesAndSchedules takes over a DaemonSet in the middle of an update, ended
// and running BroadcastJobs, and AdvancedCronJobs with a run due.
func TestTakeoverOfNodesAndSchedules(t *testing.T) {
	t.Parallel()
	c := cluster.StartForTest(t, cluster.Options{ControlPlane: cluster.APIServerOnly})
	direct, err := client.New(c.Config(), client.Options{Scheme: environment.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	kruise := installOpenKruise(t, c, direct, "daemonset/state.yaml", "broadcastjob/state.yaml", "advancedcronjob/state.yaml")
	w := &nodesWorld{namespaceOf(t, c, direct), t, direct, read(t, direct)}
	w.beganNow("busy")
	w.readyNodes()
	runsBefore := w.runs()
	crons := w.crons()
	if len(w.of("daemonset")) != 4 || len(w.of("broadcastjob")) != 7 || len(runsBefore) < 4 || len(crons) != 2 {
		t.Fatalf("restored are %d pods of daemons, %d of jobs, the runs %v and %d schedules", len(w.of("daemonset")), len(w.of("broadcastjob")), runsBefore, len(crons))
	}
	status := w.daemons().Status

	kruise.run()
	o, err := operator.New(t.Context(), c, operator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	kruise.stop()
	for _, title := range []string{"2. Stop its manager", "3. Clear its conversion", "4. Install this operator"} {
		if _, err := step(t, c, o, title); err != nil {
			t.Fatalf("step %s: %v", title, err)
		}
	}
	o.SetArgs("--accept-unserved-kinds")
	if err := o.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out, err := step(t, c, o, "6. Remove its webhooks"); err != nil {
		t.Fatalf("step 6: %v\n%s", err, out)
	}
	w.Eventually("all are observed", func(context.Context) error { return w.observed() })
	w.Eventually("both schedules go on", func(context.Context) error {
		for name, cron := range w.crons() {
			if was := crons[name].Status.LastScheduleTime; cron.Status.LastScheduleTime == nil || !was.Before(cron.Status.LastScheduleTime) {
				return fmt.Errorf("%s was last due at %v, is at %v", name, was, cron.Status.LastScheduleTime)
			}
		}
		return nil
	})
	w.Consistently(quiet, "no pod of OpenKruise is touched", func(context.Context) error { return w.same("daemonset", "broadcastjob") })

	now := w.daemons().Status
	status.Conditions, now.Conditions = nil, nil
	if status.CollisionCount == nil {
		now.CollisionCount = nil
	}
	if diff := cmp.Diff(status, now); diff != "" {
		t.Errorf("the status of the DaemonSet (-OpenKruise +now):\n%s", diff)
	}
	if diff := cmp.Diff(w.before.revisions, read(t, direct).revisions); diff != "" {
		t.Errorf("revisions changed (-before +after):\n%s", diff)
	}
	w.checkRuns(runsBefore)
	w.goOn()
}

// beganNow moves the start of a job to now: its deadline counts from when the fixture was recorded.
func (w *nodesWorld) beganNow(name string) {
	w.t.Helper()
	body := fmt.Sprintf(`{"status":{"startTime":%q}}`, time.Now().UTC().Format(time.RFC3339))
	job := &v1beta1.BroadcastJob{ObjectMeta: metav1.ObjectMeta{Namespace: "broadcastjob", Name: name}}
	if err := w.direct.Status().Patch(w.t.Context(), job, client.RawPatch("application/merge-patch+json", []byte(body))); err != nil {
		w.t.Fatal(err)
	}
}

// readyNodes removes the API server's taint of new nodes: nobody else would.
func (w *nodesWorld) readyNodes() {
	w.t.Helper()
	nodes := &corev1.NodeList{}
	if err := w.direct.List(w.t.Context(), nodes); err != nil {
		w.t.Fatal(err)
	}
	for i := range nodes.Items {
		if err := w.direct.Patch(w.t.Context(), &nodes.Items[i], client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"taints":null}}`))); err != nil {
			w.t.Fatal(err)
		}
	}
}

// of are the pods of a namespace.
func (w *nodesWorld) of(namespace string) map[string]corev1.Pod {
	found := map[string]corev1.Pod{}
	for name, pod := range read(w.t, w.direct).pods {
		if name.Namespace == namespace {
			found[name.Name] = pod
		}
	}
	return found
}

// same returns an error unless the pods of these namespaces are as they were, to the last byte.
func (w *nodesWorld) same(namespaces ...string) error {
	after := read(w.t, w.direct)
	for _, all := range []fixture{w.before, after} {
		for name := range all.pods {
			if slices.Contains(namespaces, name.Namespace) {
				if diff := cmp.Diff(w.before.pods[name], after.pods[name]); diff != "" {
					return fmt.Errorf("pod %s (-before +after):\n%s", name, diff)
				}
			}
		}
	}
	return nil
}

func (w *nodesWorld) daemons() *v1beta1.DaemonSet {
	w.t.Helper()
	set := &v1beta1.DaemonSet{}
	if err := w.direct.Get(w.t.Context(), client.ObjectKey{Namespace: "daemonset", Name: "agent"}, set); err != nil {
		w.t.Fatal(err)
	}
	return set
}

func (w *nodesWorld) job(name string) *v1beta1.BroadcastJob {
	w.t.Helper()
	job := &v1beta1.BroadcastJob{}
	if err := w.direct.Get(w.t.Context(), client.ObjectKey{Namespace: "broadcastjob", Name: name}, job); err != nil {
		w.t.Fatal(err)
	}
	return job
}

func (w *nodesWorld) crons() map[string]v1beta1.AdvancedCronJob {
	w.t.Helper()
	list := &v1beta1.AdvancedCronJobList{}
	if err := w.direct.List(w.t.Context(), list); err != nil {
		w.t.Fatal(err)
	}
	found := map[string]v1beta1.AdvancedCronJob{}
	for _, cron := range list.Items {
		found[cron.Name] = cron
	}
	return found
}

// runs are the runs of schedules: UIDs by name.
func (w *nodesWorld) runs() map[string]string {
	w.t.Helper()
	jobs, broadcasts := &batchv1.JobList{}, &v1beta1.BroadcastJobList{}
	found := map[string]string{}
	for _, list := range []client.ObjectList{jobs, broadcasts} {
		if err := w.direct.List(w.t.Context(), list, client.InNamespace("advancedcronjob")); err != nil {
			w.t.Fatal(err)
		}
	}
	for i := range jobs.Items {
		found[jobs.Items[i].Name] = string(jobs.Items[i].UID)
	}
	for i := range broadcasts.Items {
		found[broadcasts.Items[i].Name] = string(broadcasts.Items[i].UID)
	}
	return found
}

// observed returns an error unless this operator has looked at everything.
func (w *nodesWorld) observed() error {
	said := false
	for _, c := range w.daemons().Status.Conditions {
		said = said || c.Type == v1beta1.DaemonSetReconciling && c.Reason == v1beta1.ReasonPartitionReached
	}
	if !said {
		return fmt.Errorf("the status of the DaemonSet is %+v", w.daemons().Status)
	}
	for name, reason := range map[string]string{"busy": v1beta1.ReasonRunningPods, "done": ""} {
		job := w.job(name)
		said := false
		for _, c := range job.Status.Conditions {
			said = said || c.Type == v1beta1.BroadcastJobConditionReconciling && (reason == "" || c.Reason == reason)
		}
		if !said || job.Status.ObservedGeneration != job.Generation {
			return fmt.Errorf("the status of BroadcastJob %s is %+v", name, job.Status)
		}
	}
	return nil
}

// checkRuns finds every run of OpenKruise in the history, and at most one new one per
// schedule and minute. None dropped from the history is made again.
func (w *nodesWorld) checkRuns(before map[string]string) {
	w.t.Helper()
	after := w.runs()
	made := map[string]int{}
	for name, uid := range after {
		if was, known := before[name]; known && was != uid {
			w.t.Errorf("run %s was made again", name)
		} else if !known {
			schedule, _, _ := strings.Cut(name, "-")
			made[schedule]++
		}
	}
	for schedule, n := range made {
		if n > 2 { // the test may run into the next minute
			w.t.Errorf("of %s %d runs were made: %v", schedule, n, after)
		}
	}
	if len(made) != 2 {
		w.t.Errorf("runs were made of %v, want of both schedules", made)
	}
}

// goOn finds the work continued: the busy job gets its last pod when it may, the DaemonSet
// edits the rest of its pods, and an ended job stays so.
func (w *nodesWorld) goOn() {
	w.t.Helper()
	taken := map[string]bool{}
	for name, pod := range w.of("broadcastjob") {
		if strings.HasPrefix(name, "busy-") {
			taken[nodefit.NodeOf(&pod)] = true
		}
	}
	busy := w.job("busy")
	if err := w.direct.Patch(w.t.Context(), busy, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"parallelism":4}}`))); err != nil {
		w.t.Fatal(err)
	}
	w.Eventually("the last node gets its pod", func(context.Context) error {
		pods := w.of("broadcastjob")
		for name, pod := range pods {
			if _, known := w.before.pods[client.ObjectKeyFromObject(&pod)]; !known && strings.HasPrefix(name, "busy-") && !taken[nodefit.NodeOf(&pod)] && len(pods) == 8 {
				return nil
			}
		}
		return fmt.Errorf("there are %d pods", len(pods))
	})

	set := w.daemons()
	if err := w.direct.Patch(w.t.Context(), set, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"updateStrategy":{"rollingUpdate":{"partition":1}}}}`))); err != nil {
		w.t.Fatal(err)
	}
	update := w.daemons().Spec.Template.Spec.Containers[0].Image
	w.Eventually("a third pod is edited", func(context.Context) error {
		edited := 0
		for name, pod := range w.of("daemonset") {
			was := w.before.pods[client.ObjectKeyFromObject(&pod)]
			if was.UID != pod.UID {
				w.t.Fatalf("pod %s was replaced", name)
			}
			if pod.Spec.Containers[0].Image == update {
				edited++
			}
		}
		if edited != 3 {
			return fmt.Errorf("%d pods have image %s", edited, update)
		}
		return nil
	})
	if done := w.job("done"); done.Status.Phase != v1beta1.BroadcastJobCompleted || done.Status.Succeeded != 4 {
		w.t.Errorf("the job that had completed has the status %+v", done.Status)
	}
}
