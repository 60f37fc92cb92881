// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestListKeepsTimesWhileNothingChanges(t *testing.T) {
	then := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	now := metav1.NewTime(then.Add(time.Minute))
	old := Condition{Type: "Available", Status: corev1.ConditionTrue, Reason: "Enough", Message: "3 of 3", LastTransitionTime: then, LastUpdateTime: then}
	changed := func(how func(*Condition)) Condition {
		c := old
		how(&c)
		return c
	}
	cases := map[string]struct {
		before []Condition
		set    Condition
		want   Condition
	}{
		"a new condition": {
			set:  New("Available", true, "Enough", "3 of 3"),
			want: changed(func(c *Condition) { c.LastTransitionTime, c.LastUpdateTime = now, now }),
		},
		"the same again": {before: []Condition{old}, set: New("Available", true, "Enough", "3 of 3"), want: old},
		"another message": {
			before: []Condition{old}, set: New("Available", true, "Enough", "4 of 4"),
			want: changed(func(c *Condition) { c.Message, c.LastUpdateTime = "4 of 4", now }),
		},
		"another status": {
			before: []Condition{old}, set: New("Available", false, "Enough", "3 of 3"),
			want: changed(func(c *Condition) {
				c.Status, c.LastTransitionTime, c.LastUpdateTime = corev1.ConditionFalse, now, now
			}),
		},
		"an update time that is given": {
			set:  Condition{Type: "Available", Status: corev1.ConditionTrue, Reason: "Enough", Message: "3 of 3", LastUpdateTime: then},
			want: changed(func(c *Condition) { c.LastTransitionTime = now }),
		},
		"times that were never written": {
			before: []Condition{New("Available", true, "Enough", "3 of 3")}, set: New("Available", true, "Enough", "3 of 3"),
			want: changed(func(c *Condition) { c.LastTransitionTime, c.LastUpdateTime = now, now }),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			list := NewList(tc.before, now.Add(300*time.Millisecond))
			list.Set(tc.set)
			if diff := cmp.Diff([]Condition{tc.want}, list.All()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A template that was stored without admission can have thousands of faults.
func TestALongMessageIsCutWhateverTypeStoresIt(t *testing.T) {
	then := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	long := New("TemplateInvalid", true, "InvalidTemplate", strings.Repeat("spec.template: ü; ", 100_000))
	list := NewList(nil, then.Time)
	list.Set(long)
	first := list.All()[0]
	if len(first.Message) > maxMessage || len(first.Message) < maxMessage-1 || !utf8.ValidString(first.Message) {
		t.Errorf("the message has %d bytes", len(first.Message))
	}
	list = NewList([]Condition{first}, then.Add(time.Minute))
	list.Set(long)
	if diff := cmp.Diff([]Condition{first}, list.All()); diff != "" {
		t.Errorf("the same once more (-want +got):\n%s", diff)
	}
}

func TestListDropsWhatIsNotSet(t *testing.T) {
	old := New("Stalled", true, "Why", "")
	list := NewList([]Condition{old, New("Other", true, "", "")}, time.Time{})
	list.Keep("Stalled")
	list.Keep("Unknown")
	list.SetIf(New("Absent", true, "", ""), false)
	if diff := cmp.Diff([]Condition{old}, list.All()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFieldsIgnored(t *testing.T) {
	var ignored Ignored
	if c, ok := FieldsIgnored("FieldsIgnored", ignored); ok {
		t.Errorf("nothing is ignored, and the condition is %v", c)
	}
	ignored.ByGate("spec.a", "GateOfA")
	c, _ := FieldsIgnored("FieldsIgnored", ignored)
	if diff := cmp.Diff(New("FieldsIgnored", true, "FeatureGateOff", "spec.a is ignored because feature gate GateOfA is off"), c); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	ignored.Unparsable = []string{"spec.b is not a number"}
	c, _ = FieldsIgnored("FieldsIgnored", ignored)
	want := New("FieldsIgnored", true, "Unreadable", "spec.a is ignored because feature gate GateOfA is off; spec.b is not a number")
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAlikeIgnoresMessages(t *testing.T) {
	a := []Condition{New("Available", true, "Enough", "3 of 3")}
	if b := []Condition{New("Available", true, "Enough", "4 of 4")}; !EqualIgnoringMessages(a, b) || !Contains(a, b[0]) {
		t.Error("another message makes a difference")
	}
	if b := []Condition{New("Available", true, "Other", "3 of 3")}; EqualIgnoringMessages(a, b) || Contains(a, b[0]) {
		t.Error("another reason makes none")
	}
}

func TestAnEditOfAJobThatHasEndedIsTold(t *testing.T) {
	edited := func(before []Condition, observed, generation int64) []Condition {
		list := NewList(before, time.Time{})
		list.SetIfEdited(observed, generation)
		return list.All()
	}
	if len(edited(nil, 2, 2)) > 0 {
		t.Error("a job that was not edited is said to be")
	}
	told := edited(nil, 2, 3)
	if len(told) == 0 {
		t.Error("an edit is not told")
	}
	if len(edited(told, 3, 3)) == 0 {
		t.Error("it is forgotten with the next pass")
	}
}
