// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/testutil/fixtures"
)

// TestWhatOpenKruiseLeftNeedsNothing: the fixtures' job, succeeded in two of three pods, stays until its time to
// live is over. Before its end it would have been judged alike.
func TestWhatOpenKruiseLeftNeedsNothing(t *testing.T) {
	objects := fixtures.Objects(t, "ephemeraljob/state.yaml")
	job := fixtures.As[appsv1beta1.EphemeralJob](t, fixtures.Find(t, objects, "EphemeralJob", "debug"))
	pods := fixtures.All[corev1.Pod](t, objects, "v1", "Pod")
	look := func(job *appsv1beta1.EphemeralJob, after time.Duration) (Decision, appsv1beta1.EphemeralJobStatus) {
		spec := Parse(job)
		s := Snapshot{Now: job.Status.StartTime.Add(after), Pods: pods}
		d := Plan(spec, s)
		return d, Status(spec, s, d, planning.Outcome{})
	}
	counts := func(s appsv1beta1.EphemeralJobStatus) appsv1beta1.EphemeralJobStatus {
		s.ObservedGeneration, s.Conditions, s.CompletionTime = 0, nil, nil
		return s
	}
	d, status := look(job, 29*time.Minute)
	for _, action := range d.Actions {
		t.Errorf("%s: %s", action.Step, action.Reason)
	}
	if d.RecheckAfter != time.Minute || status.CompletionTime == nil {
		t.Errorf("looked at again after %s; ended %v", d.RecheckAfter, status.CompletionTime)
	}
	if diff := cmp.Diff(counts(job.Status), counts(status)); diff != "" {
		t.Errorf("status (-OpenKruise +ours):\n%s", diff)
	}
	has := map[string]bool{}
	for _, c := range status.Conditions {
		has[c.Type] = c.Status == corev1.ConditionTrue
	}
	for _, c := range job.Status.Conditions {
		if !has[c.Type] {
			t.Errorf("condition %s is gone: %+v", c.Type, status.Conditions)
		}
	}
	if d, _ := look(job, 31*time.Minute); len(d.Actions) != 1 || d.Actions[0].Step != planning.StepDeleteJob {
		t.Errorf("after its time to live: %+v", d.Actions)
	}

	running := job.DeepCopy()
	running.Status.CompletionTime, running.Status.Phase = nil, appsv1beta1.EphemeralJobRunning
	d, status = look(running, time.Second)
	if len(d.Actions) > 0 || status.CompletionTime == nil {
		t.Errorf("before its end: %+v, ended %v", d.Actions, status.CompletionTime)
	}
	if diff := cmp.Diff(counts(job.Status), counts(status)); diff != "" {
		t.Errorf("status at its end (-OpenKruise +ours):\n%s", diff)
	}
}
