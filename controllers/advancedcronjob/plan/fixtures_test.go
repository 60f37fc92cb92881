// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/testutil/fixtures"
)

// TestTakingOverFromOpenKruise plans for OpenKruise's objects: two schedules of a minute with
// their history. Nothing is repeated or deleted; due runs start under OpenKruise's names.
func TestTakingOverFromOpenKruise(t *testing.T) {
	objects := fixtures.Objects(t, "advancedcronjob/state.yaml")
	for name, tc := range map[string]struct {
		kind, next string
		history    []string
	}{
		// OpenKruise had not noticed the end of the fourth Job.
		"report": {"Job", "report-1795208160", []string{"report-1795207920"}}, "sweep": {"BroadcastJob", "sweep-1795208160", nil},
	} {
		t.Run(name, func(t *testing.T) {
			object := fixtures.Find(t, objects, "AdvancedCronJob", name)
			cron := fixtures.As[appsv1beta1.AdvancedCronJob](t, object)
			spec := Parse(cron, object.Object, func(schema.GroupVersionKind) bool { return true })
			var runs []Run
			for _, o := range objects {
				if o.GetKind() == tc.kind && len(o.GetOwnerReferences()) == 1 && o.GetOwnerReferences()[0].UID == cron.UID {
					runs = append(runs, spec.Adapter.Observe(o))
				}
			}
			if len(runs) < 2 {
				t.Fatalf("%d runs", len(runs))
			}
			last := cron.Status.LastScheduleTime.UTC()
			early := Snapshot{Now: last.Add(50 * time.Second), Runs: runs}
			due := Evaluate(spec, early)
			todo := Plan(spec, early, due)
			var deleted []string
			for _, action := range todo.Actions {
				if action.Step != StepDeleteRun || action.Reason != reasonHistory {
					t.Errorf("%s %s %s", action.Step, action.Slot, action.Reason)
				}
				deleted = append(deleted, string(action.Slot))
			}
			if diff := cmp.Diff(tc.history, deleted); diff != "" || todo.RecheckAfter != 10*time.Second {
				t.Errorf("looked at again after %v; deleted (-want +got):\n%s", todo.RecheckAfter, diff)
			}
			if !due.Last.Equal(last) {
				t.Errorf("the last run was %v, want %v", due.Last, last)
			}
			later := Snapshot{Now: last.Add(time.Minute), Runs: runs}
			var created []string
			for _, action := range Plan(spec, later, Evaluate(spec, later)).Actions {
				if action.Step != StepCreateRun {
					continue
				}
				created = append(created, action.Object.GetName())
				run := action.Object.(*unstructured.Unstructured)
				had, _, _ := unstructured.NestedMap(runs[0].Object.Object, "spec")
				has, _, _ := unstructured.NestedMap(run.Object, "spec")
				for key := range has {
					if had[key] == nil {
						t.Errorf("spec.%s is new", key)
					}
				}
			}
			if diff := cmp.Diff([]string{tc.next}, created); diff != "" {
				t.Errorf("created (-want +got):\n%s", diff)
			}
		})
	}
}
