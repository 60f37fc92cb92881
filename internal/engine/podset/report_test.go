// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podset

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/inplace"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
)

func TestMoves(t *testing.T) {
	cases := map[string]struct {
		update inplace.Status
		reason string
		want   bool
	}{
		"nothing is under way":                  {},
		"an update is done":                     {update: inplace.Status{Progress: inplace.Done}},
		"an update runs":                        {update: inplace.Status{Progress: inplace.Running}, want: true},
		"an update waits for its grace period":  {update: inplace.Status{Progress: inplace.Grace}, want: true},
		"an update needs the user":              {update: inplace.Status{Progress: inplace.Blocked}},
		"an update waits for room on its node":  {update: inplace.Status{Progress: inplace.Blocked, Reason: inplace.ReasonResizeDeferred}, want: true},
		"an update begins":                      {reason: ReasonInPlaceUpdate, want: true},
		"a pod is replaced":                     {reason: "Outdated", want: true},
		"a pod is created, which moves no pod":  {reason: "ScaleOut"},
		"a pod gets its conditions, like a new": {reason: ReasonInitialize},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			plan := planning.Plan{Actions: []planning.Action{{Reason: tc.reason}}}
			if got := Moves(&plan, []Pod{{Update: tc.update}}, "Outdated"); got != tc.want {
				t.Errorf("moves: %v, want %v", got, tc.want)
			}
		})
	}
}

// A claim that cannot be created was reported as a pod that cannot be deleted.
func TestFailuresSayWhatWasRefused(t *testing.T) {
	cases := map[string]struct {
		failed        planning.Step
		reason        string
		scale, update string
	}{
		"a pod that is created":   {failed: StepCreate, scale: "creating web-1"},
		"a claim that is created": {failed: StepCreateClaim, scale: "creating web-1"},
		"a claim that is changed": {failed: StepEditClaim, scale: "changing web-1"},
		"a claim that is deleted": {failed: StepDeleteClaim, scale: "deleting web-1"},
		"a pod that is deleted":   {failed: StepDelete, reason: ReasonScaleIn, scale: "deleting web-1"},
		"a pod that is replaced":  {failed: StepDelete, reason: ReasonOutdated, update: "changing web-1"},
		"a pod that is changed":   {failed: StepEdit, update: "changing web-1"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			plan := planning.Plan{Actions: []planning.Action{{Step: tc.failed, Slot: "1", Reason: tc.reason}}}
			outcome := planning.Outcome{Failures: []planning.Failure{{Step: tc.failed, Slot: "1"}}}
			scale, update := Failures(&plan, outcome, func(verb string, f planning.Failure) string { return verb + " web-" + string(f.Slot) })
			if scale != tc.scale || update != tc.update {
				t.Errorf("got %q and %q, want %q and %q", scale, update, tc.scale, tc.update)
			}
		})
	}
}

// No pod is updated before the template is recorded, so that this is the cause, whatever else was refused.
func TestFailedUpdateNamesTheTemplateThatIsNotRecordedFirst(t *testing.T) {
	blocked := &planning.Plan{Held: []planning.Note{{Reason: ReasonInPlaceBlocked, Message: "the node has no room"}}}
	cases := map[string]struct {
		unrecorded, refused string
		plan                *planning.Plan
		reason, message     string
	}{
		"all of them":                 {"exceeded quota", "changing web-1: denied", blocked, "RequestFailed", "exceeded quota"},
		"a request and a blocked pod": {"", "changing web-1: denied", blocked, "RequestFailed", "changing web-1: denied"},
		"a blocked pod":               {"", "", blocked, "InPlaceBlocked", "the node has no room"},
		"nothing":                     {"", "", &planning.Plan{}, "", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, failed := FailedUpdate("FailedUpdate", tc.unrecorded, tc.refused, tc.plan)
			if failed != (tc.reason != "") || got.Reason != tc.reason || got.Message != tc.message {
				t.Errorf("got %t, %s %q, want %s %q", failed, got.Reason, got.Message, tc.reason, tc.message)
			}
		})
	}
}

func TestWithRefusals(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	refused := conditions.New("FailedCreate", true, "RequestFailed", "creating web-0: exceeded quota")
	scaling := Progress{Reconciling: true, Reason: "Scaling", Message: "0 of 3 pods exist."}
	const message = "creating web-0: exceeded quota; 0 of 3 pods exist."
	cases := map[string]struct {
		progress  Progress
		condition conditions.Condition
		after     time.Duration
		want      Progress
	}{
		"just now":            {scaling, refused, 0, Progress{Reconciling: true, Reason: "RequestFailed", Message: message}},
		"not for long enough": {scaling, refused, 29 * time.Second, Progress{Reconciling: true, Reason: "RequestFailed", Message: message}},
		"for long":            {scaling, refused, 30 * time.Second, Progress{Stalled: true, Reason: "RequestFailed", Message: message}},
		"another failure":     {scaling, conditions.New("FailedUpdate", true, "InPlaceBlocked", "no room"), time.Hour, scaling},
		"stalled anyhow":      {Progress{Stalled: true, Reason: "PodsFail"}, refused, time.Hour, Progress{Stalled: true, Reason: "PodsFail"}},
		"all is done":         {Progress{Reason: "Complete"}, refused, time.Hour, Progress{Reason: "Complete"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := conditions.NewList(nil, began)
			before.Set(tc.condition)
			list := conditions.NewList(before.All(), began.Add(tc.after))
			list.Set(tc.condition)
			if got := tc.progress.WithRefusals(list); got != tc.want {
				t.Errorf("%+v, want %+v", got, tc.want)
			}
		})
	}
	stalled, _ := conditions.Find(Progress{Reconciling: true, Reason: "RequestFailed"}.Conditions(), "Stalled")
	if stalled.Status != "False" || strings.Contains(stalled.Message, "by itself") {
		t.Errorf("while a request is refused, Stalled is %+v", stalled)
	}
}

func TestSelector(t *testing.T) {
	for name, s := range map[string]*metav1.LabelSelector{
		"missing": nil,
		"empty":   {},
		"invalid": {MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}},
	} {
		if _, err := Selector(s); err == nil {
			t.Errorf("a selector that is %s is no error", name)
		}
	}
	if selector, err := Selector(&metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}); err != nil || selector.String() != "a=b" {
		t.Errorf("selector %v, error %v", selector, err)
	}
}
