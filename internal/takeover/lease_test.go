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

// held is a Lease of 15 s, renewed by the holder's clock, years away from ours.
func held(renewal int) *coordinationv1.Lease {
	renewed := metav1.NewMicroTime(time.Date(2001, 1, 1, 0, 0, renewal, 0, time.UTC))
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: LeaseName, UID: "lease", ResourceVersion: "1"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("manager-0"), LeaseDurationSeconds: ptr.To[int32](15), RenewTime: &renewed},
	}
}

func released() *coordinationv1.Lease {
	lease := held(1)
	lease.Spec.HolderIdentity = ptr.To("")
	return lease
}

func TestLeaseObserver(t *testing.T) {
	type look struct {
		after time.Duration // since the look before
		lease *coordinationv1.Lease
		want  LeaseStatus
	}
	cases := map[string][]look{
		"without a lease": {{0, nil, NoLease}, {time.Hour, nil, NoLease}},
		"one that was given back has lapsed at once":       {{0, released(), Expired}},
		"an old one is not believed to be old":             {{0, held(1), Renewed}, {2 * time.Second, held(1), Renewed}},
		"one that changes is renewed":                      {{0, held(1), Renewed}, {7 * time.Second, held(2), Renewed}, {7 * time.Second, held(3), Renewed}, {7 * time.Second, held(4), Renewed}},
		"one that stays for its duration has lapsed":       {{0, held(1), Renewed}, {5 * time.Second, held(1), Renewed}, {5 * time.Second, held(1), Renewed}, {5 * time.Second, held(1), Expired}},
		"a renewal in the last moment restarts its time":   {{0, held(1), Renewed}, {7 * time.Second, held(1), Renewed}, {7 * time.Second, held(2), Renewed}, {7 * time.Second, held(2), Renewed}, {7 * time.Second, held(2), Renewed}, {time.Second, held(2), Expired}},
		"a pause in which nothing was seen proves nothing": {{0, held(1), Renewed}, {time.Minute, held(1), Renewed}, {7 * time.Second, held(1), Renewed}, {7 * time.Second, held(1), Renewed}, {time.Second, held(1), Expired}},
		"one that has lapsed stays so over a pause":        {{0, released(), Expired}, {time.Hour, released(), Expired}},
		"one that lapsed and is renewed again is renewed":  {{0, released(), Expired}, {time.Second, held(5), Renewed}},
		"one that is deleted is no lease":                  {{0, held(1), Renewed}, {time.Second, nil, NoLease}, {time.Second, held(1), Renewed}},
	}
	for name, looks := range cases {
		t.Run(name, func(t *testing.T) {
			var observer LeaseObserver
			now := time.Unix(1_000_000_000, 0)
			for i, l := range looks {
				now = now.Add(l.after)
				if got := observer.Observe(l.lease, now); got != l.want {
					t.Fatalf("look %d: %d, want %d", i, got, l.want)
				}
			}
		})
	}
}

func TestLeaseIsReadOftenEnough(t *testing.T) {
	for _, seconds := range []int32{0, 1, 3, 15, 60, 3600} {
		lease := held(1)
		lease.Spec.LeaseDurationSeconds = &seconds
		var observer LeaseObserver
		observer.Observe(lease, time.Unix(0, 0))
		if next := observer.Next(); next <= 0 || next > 2*time.Second || 2*next > observer.validity() {
			t.Errorf("a lease of %d s, valid for %s, is looked at every %s", seconds, observer.validity(), next)
		}
		if observer.Remaining() != observer.validity() || observer.validity() > maxValidity {
			t.Errorf("a lease of %d s has %s to go of %s", seconds, observer.Remaining(), observer.validity())
		}
	}
}
