// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package planning

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestHeld(t *testing.T) {
	plan := Plan{Held: []Note{{Reason: "A", Message: "a"}, {Reason: "B", Message: "b"}, {Reason: "C", Message: "c"}, {Reason: "D", Message: "d"}}}
	if note, ok := plan.HeldFor("D", "B"); !ok || note.Message != "b" {
		t.Errorf("held for B or D: %+v, %v", note, ok)
	}
	if _, ok := plan.HeldFor("E"); ok {
		t.Error("held for a reason that is not there")
	}
	if got := plan.HeldMessages("nothing"); got != "a; b; c" {
		t.Errorf("messages %q", got)
	}
	if got := (&Plan{}).HeldMessages("nothing"); got != "nothing" {
		t.Errorf("messages of an empty plan %q", got)
	}
}

func TestRetryKey(t *testing.T) {
	pod := func(namespace, name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	cases := map[string]struct {
		a, b Action
		same bool
	}{
		"creations for one slot, whatever the name": {
			Action{Step: "Create", Object: pod("a", "x1"), Key: "node"}, Action{Step: "Create", Object: pod("a", "x2"), Key: "node"}, true,
		},
		"pods of one name in two namespaces": {Action{Step: "Edit", Object: pod("a", "x")}, Action{Step: "Edit", Object: pod("b", "x")}, false},
		"two pods of one slot": {
			Action{Step: "Edit", Slot: "node", Object: pod("a", "x1")}, Action{Step: "Edit", Slot: "node", Object: pod("a", "x2")}, false,
		},
		"two steps on one pod": {Action{Step: "Edit", Object: pod("a", "x")}, Action{Step: "Delete", Object: pod("a", "x")}, false},
		"tries of one step":    {Action{Step: "Edit", Object: pod("a", "x")}, Action{Step: "Edit", Object: pod("a", "x")}, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.a.RetryKey() == tc.b.RetryKey(); got != tc.same {
				t.Errorf("keys %v and %v: same %v, want %v", tc.a.RetryKey(), tc.b.RetryKey(), got, tc.same)
			}
		})
	}
}
