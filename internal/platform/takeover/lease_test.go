// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// held is a Lease of 15 s, renewed at a time of the holder's own clock, which is years away from ours.
func held(renewal int) *coordinationv1.Lease {
	renewed := metav1.NewMicroTime(time.Date(2001, 1, 1, 0, 0, renewal, 0, time.UTC))
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: leaseName, UID: "lease", ResourceVersion: "1"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("manager-0"), LeaseDurationSeconds: ptr.To[int32](15), RenewTime: &renewed},
	}
}

func released() *coordinationv1.Lease {
	lease := held(1)
	lease.Spec.HolderIdentity = ptr.To("")
	return lease
}

func TestJudge(t *testing.T) {
	type look struct {
		after time.Duration // since the look before
		lease *coordinationv1.Lease
		want  Tenure
	}
	cases := map[string][]look{
		"no lease is vacant":                               {{0, nil, Vacant}, {time.Hour, nil, Vacant}},
		"one that was given back has lapsed at once":       {{0, released(), Lapsed}},
		"an old one is not believed to be old":             {{0, held(1), Renewed}, {2 * time.Second, held(1), Renewed}},
		"one that changes is renewed":                      {{0, held(1), Renewed}, {7 * time.Second, held(2), Renewed}, {7 * time.Second, held(3), Renewed}, {7 * time.Second, held(4), Renewed}},
		"one that stays for its duration has lapsed":       {{0, held(1), Renewed}, {5 * time.Second, held(1), Renewed}, {5 * time.Second, held(1), Renewed}, {5 * time.Second, held(1), Lapsed}},
		"a renewal in the last moment begins anew":         {{0, held(1), Renewed}, {7 * time.Second, held(1), Renewed}, {7 * time.Second, held(2), Renewed}, {7 * time.Second, held(2), Renewed}, {7 * time.Second, held(2), Renewed}, {time.Second, held(2), Lapsed}},
		"a pause in which nothing was seen proves nothing": {{0, held(1), Renewed}, {time.Minute, held(1), Renewed}, {7 * time.Second, held(1), Renewed}, {7 * time.Second, held(1), Renewed}, {time.Second, held(1), Lapsed}},
		"one that has lapsed stays so over a pause":        {{0, released(), Lapsed}, {time.Hour, released(), Lapsed}},
		"one that lapsed and is renewed again is renewed":  {{0, released(), Lapsed}, {time.Second, held(5), Renewed}},
		"one that is deleted is vacant":                    {{0, held(1), Renewed}, {time.Second, nil, Vacant}, {time.Second, held(1), Renewed}},
	}
	for name, looks := range cases {
		t.Run(name, func(t *testing.T) {
			var judge Judge
			now := time.Unix(1_000_000_000, 0)
			for i, l := range looks {
				now = now.Add(l.after)
				if got := judge.Look(l.lease, now); got != l.want {
					t.Fatalf("look %d: %d, want %d", i, got, l.want)
				}
			}
		})
	}
}

func TestJudgeLooksOftenEnough(t *testing.T) {
	for _, seconds := range []int32{0, 1, 3, 15, 60, 3600} {
		lease := held(1)
		lease.Spec.LeaseDurationSeconds = &seconds
		var judge Judge
		judge.Look(lease, time.Unix(0, 0))
		if next := judge.Next(); next <= 0 || next > 2*time.Second || 2*next > judge.validity() {
			t.Errorf("a lease of %d s, valid for %s, is looked at every %s", seconds, judge.validity(), next)
		}
		if judge.Remaining() != judge.validity() || judge.validity() > maxValidity {
			t.Errorf("a lease of %d s has %s to go of %s", seconds, judge.Remaining(), judge.validity())
		}
	}
}
