// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestJudgeCloneSet(t *testing.T) {
	// Three serving pods, then the case's events.
	began := []Event{aPod("a", "old"), aPod("b", "old"), aPod("c", "old")}
	uid := func(uid types.UID) func(*corev1.Pod) { return func(p *corev1.Pod) { p.UID = uid } }
	cases := map[string]struct {
		allowed CloneSetLimits
		events  []Event
		want    []string // parts of the violations
		taken   int
		peak    int
		created int
	}{
		"one pod after the other in place": {
			allowed: CloneSetLimits{Replicas: 3, MaxUnavailable: 1},
			events:  []Event{aPod("a", "new", held), aPod("a", "new"), aPod("b", "new", held), aPod("b", "new")},
			taken:   2, peak: 1,
		},
		"two pods at once in place": {
			allowed: CloneSetLimits{Replicas: 3, MaxUnavailable: 1},
			events:  []Event{aPod("a", "new", held), aPod("b", "new", held)},
			want:    []string{"b (version ): is taken out of service, and 1 of 3 are available; maxUnavailable 1 allows 2"},
			taken:   2, peak: 2,
		},
		"a pod that crashed counts": {
			allowed: CloneSetLimits{Replicas: 3, MaxUnavailable: 1},
			events:  []Event{aPod("a", "old", crashed), aPod("b", "new", held)},
			want:    []string{"b (version ): is taken out of service"},
			taken:   1, peak: 2,
		},
		"a surge makes room": {
			allowed: CloneSetLimits{Replicas: 3, MaxSurge: 1},
			events:  []Event{aPod("d", "new", crashed), aPod("d", "new"), aPod("a", "old", terminating), aPod("e", "new"), deleted(aPod("a", "old", terminating))},
			taken:   1, created: 2,
		},
		"a pod is deleted before its replacement serves": {
			allowed: CloneSetLimits{Replicas: 3, MaxSurge: 1},
			events:  []Event{aPod("d", "new", crashed), aPod("a", "old", terminating)},
			want:    []string{"a (version ): is taken out of service, and 2 of 3"},
			taken:   1, peak: 1, created: 1,
		},
		"one more than the surge": {
			allowed: CloneSetLimits{Replicas: 3, MaxSurge: 1},
			events:  []Event{aPod("d", "new"), aPod("e", "new")},
			want:    []string{"e (version ): is created, and there are 5; replicas and maxSurge allow 4"},
			created: 2,
		},
		"an updated pod is deleted, another is moved back": {
			allowed: CloneSetLimits{Replicas: 3, MaxUnavailable: 3},
			events:  []Event{aPod("a", "new"), aPod("b", "new"), aPod("a", "new", terminating), aPod("b", "old", held)},
			want:    []string{"a (version ): is deleted, though it is at the update revision", "b (version ): is moved back from new"},
			taken:   2, peak: 2,
		},
		"what others delete does not count": {
			allowed: CloneSetLimits{Replicas: 3},
			events:  []Event{aPod("a", "old", uid("foreign")), aPod("a", "old", uid("foreign"), terminating)},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			verdict := JudgeCloneSet(append(began[:3:3], tc.events...), tc.allowed, map[types.UID]bool{"foreign": true})
			if len(verdict.Violations) != len(tc.want) {
				t.Fatalf("the violations are\n%s\nwant %d", strings.Join(verdict.Violations, "\n"), len(tc.want))
			}
			for i, want := range tc.want {
				if !strings.Contains(verdict.Violations[i], want) {
					t.Errorf("violation %d is %q, want %q", i, verdict.Violations[i], want)
				}
			}
			if verdict.Taken != tc.taken || verdict.Peak != tc.peak || verdict.Created != tc.created {
				t.Errorf("the verdict is %+v, want %d taken, %d at once, %d created", verdict, tc.taken, tc.peak, tc.created)
			}
		})
	}
}
