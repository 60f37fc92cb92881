// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podset

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
