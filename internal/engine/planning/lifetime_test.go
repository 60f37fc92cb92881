// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package planning

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestLifetimeOfAJob(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	tenSecondsAgo := metav1.NewTime(now.Add(-10 * time.Second))
	cases := map[string]struct {
		since   *metav1.Time
		seconds time.Duration
		// overdue and expired say whether the time is over as a deadline and as a time to live, again when to look again.
		overdue, expired             bool
		againOverdue, againToExpired time.Duration
	}{
		"there is no limit":          {since: &tenSecondsAgo, seconds: -1},
		"it is not over yet":         {since: &tenSecondsAgo, seconds: 15, againOverdue: 5 * time.Second, againToExpired: 5 * time.Second},
		"it is over this moment":     {since: &tenSecondsAgo, seconds: 10, overdue: true, expired: true},
		"it has not begun":           {seconds: 15, againOverdue: 15 * time.Second},
		"it is over before it began": {seconds: 0, overdue: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			limit := tc.seconds * time.Second
			var p Plan
			if got := p.Overdue(tc.since, limit, now); got != tc.overdue || p.RecheckAfter != tc.againOverdue {
				t.Errorf("overdue: %t, again after %s", got, p.RecheckAfter)
			}
			p = Plan{}
			job := &corev1.Pod{}
			p.Expire(schema.GroupVersionKind{Kind: "Job"}, job, tc.since, limit, now)
			expired := len(p.Actions) == 1 && p.Actions[0].Verb == VerbDelete && p.Actions[0].Object == Object(job) && p.Actions[0].Step == StepDeleteJob
			if expired != tc.expired || len(p.Actions) > 0 && !expired || p.RecheckAfter != tc.againToExpired {
				t.Errorf("expired: %+v, again after %s", p.Actions, p.RecheckAfter)
			}
		})
	}
}
