// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

func TestCount(t *testing.T) {
	const unlimited = math.MaxInt32
	of := func(replicas, partition, maxUnavailable, maxSurge int) *Spec {
		return &Spec{Spec: podset.Spec{
			Replicas: replicas, Partition: partition, MaxUnavailable: maxUnavailable, ScaleMaxUnavailable: unlimited,
		}, MaxSurge: maxSurge}
	}
	limited := of(12, 0, 3, 0)
	limited.ScaleMaxUnavailable = 3
	excluding := of(3, 0, 1, 0)
	excluding.ExcludePreparingDelete = true
	cases := map[string]struct {
		n        *Spec
		rollBack bool
		pods     podCounts
		want     diff
	}{
		"a new set creates all pods at the update revision": {
			n: of(3, 0, 1, 0), pods: podCounts{}, want: diff{create: 3, limit: -2},
		},
		"new pods follow the partition, which gets its share first": {
			n: of(5, 3, 1, 0), pods: podCounts{old: revisionCounts{available: 2}, updated: revisionCounts{available: 1}}, want: diff{create: 2, createOld: 1, limit: -1},
		},
		"a set that has what it wants rests": {
			n: of(3, 0, 1, 0), pods: podCounts{updated: revisionCounts{available: 3}}, want: diff{limit: 1},
		},
		"the template changes: all but the partition's share move": {
			n: of(10, 4, 3, 0), pods: podCounts{old: revisionCounts{available: 10}}, want: diff{move: 6, limit: 3},
		},
		"what the partition lets move has moved": {
			n: of(10, 4, 3, 0), pods: podCounts{old: revisionCounts{available: 4}, updated: revisionCounts{available: 6}}, want: diff{limit: 3},
		},
		"a surge creates pods before any is missing": {
			n: of(8, 0, 1, 2), pods: podCounts{old: revisionCounts{available: 8}}, want: diff{create: 2, move: 8, limit: 1},
		},
		"each surge pod lets one more pod be unavailable": {
			n: of(8, 0, 1, 2), pods: podCounts{old: revisionCounts{available: 8}, updated: revisionCounts{unavailable: 2}}, want: diff{move: 6, limit: 3},
		},
		"a surge that is not needed any more goes, old pods first": {
			n: of(8, 0, 1, 2), pods: podCounts{old: revisionCounts{available: 2}, updated: revisionCounts{available: 8}}, want: diff{remove: 2, removeOld: 2, limit: 3},
		},
		"a surge shrinks with what is left to move": {
			n: of(8, 0, 1, 2), pods: podCounts{old: revisionCounts{available: 1}, updated: revisionCounts{available: 7}}, want: diff{create: 1, move: 1, limit: 1},
		},
		"a surge stays at maxSurge in the middle of an update": {
			n: of(5, 0, 0, 3), pods: podCounts{old: revisionCounts{available: 3}, updated: revisionCounts{unavailable: 1, available: 2}}, want: diff{create: 2, move: 2, limit: 1},
		},
		"a raised maxSurge creates more pods while the first wait for minReadySeconds": {
			n: of(4, 0, 0, 4), pods: podCounts{old: revisionCounts{available: 4}, updated: revisionCounts{unavailable: 2}}, want: diff{create: 2, move: 2, limit: 2},
		},
		"a surge never lets more pods be updated than there are to be": {
			n: of(4, 1, 0, 3), pods: podCounts{old: revisionCounts{available: 4}, updated: revisionCounts{unavailable: 2}}, want: diff{create: 1, move: 1, limit: 2},
		},
		"deletions that find no room use the surge": {
			n: of(5, 0, 1, 1), pods: podCounts{updated: revisionCounts{specified: 2, unavailable: 1, available: 2}}, want: diff{create: 1, limit: 1},
		},
		"a deletion that finds room does not": {
			n: of(5, 0, 2, 1), pods: podCounts{updated: revisionCounts{specified: 1, unavailable: 1, available: 3}}, want: diff{limit: 2},
		},
		"the surge for the deletion of a pod that the partition keeps is at the current revision": {
			n: of(4, 2, 0, 1), pods: podCounts{old: revisionCounts{specified: 1, available: 1}, updated: revisionCounts{available: 2}}, want: diff{create: 1, createOld: 1},
		},
		"pods that their user wants deleted satisfy a scale in": {
			n: of(5, 0, 1, 0), pods: podCounts{updated: revisionCounts{specified: 1, available: 5}}, want: diff{limit: 2},
		},
		"pods at their hook satisfy a scale in, and what goes beyond it goes on": {
			n: of(2, 0, 1, 0), pods: podCounts{updated: revisionCounts{preparingDelete: 2, available: 3}}, want: diff{remove: 1, limit: 4},
		},
		"scaling in takes what the partition does not need first": {
			n: of(4, 2, 1, 0), pods: podCounts{old: revisionCounts{available: 3}, updated: revisionCounts{available: 3}}, want: diff{remove: 2, removeOld: 1, limit: 3},
		},
		"pods at their hook are replicas until they are gone": {
			n: of(3, 0, 1, 0), pods: podCounts{updated: revisionCounts{preparingDelete: 1, available: 2}}, want: diff{limit: 1},
		},
		"unless they are excluded": {
			n: excluding, pods: podCounts{updated: revisionCounts{preparingDelete: 1, available: 2}}, want: diff{create: 1, limit: 1},
		},
		"growing is limited by how many pods are unavailable": {
			n: limited, pods: podCounts{updated: revisionCounts{available: 2}}, want: diff{create: 3, held: 7, limit: -7},
		},
		"growing stops at that": {
			n: limited, pods: podCounts{updated: revisionCounts{available: 3, unavailable: 3}}, want: diff{held: 6, limit: -3},
		},
		"growing goes on as pods become available": {
			n: limited, pods: podCounts{updated: revisionCounts{available: 4, unavailable: 2}}, want: diff{create: 1, held: 5, limit: -3},
		},
		"raising the partition moves nothing back": {
			n: of(4, 3, 1, 0), pods: podCounts{old: revisionCounts{available: 1}, updated: revisionCounts{available: 3}}, want: diff{limit: 1},
		},
		"unless that is asked for": {
			n: of(4, 3, 1, 0), rollBack: true, pods: podCounts{old: revisionCounts{available: 1}, updated: revisionCounts{available: 3}}, want: diff{move: -2, limit: 1},
		},
		"going back uses the surge at the current revision": {
			n: of(4, 3, 1, 2), rollBack: true, pods: podCounts{old: revisionCounts{available: 1}, updated: revisionCounts{available: 3}}, want: diff{create: 2, createOld: 2, move: -2, limit: 1},
		},
		"outdated pods that are to be deleted need not be moved": {
			n: of(3, 0, 1, 0), pods: podCounts{old: revisionCounts{specified: 1, available: 2}}, want: diff{move: 2, limit: 1},
		},
		"outdated pods at their hook do not move": {
			n: of(3, 0, 1, 0), pods: podCounts{old: revisionCounts{preparingDelete: 1, available: 2}}, want: diff{move: 2, limit: 1},
		},
		"a partition beyond the replicas creates no negative number of pods": {
			n: of(0, 0, 0, 1), pods: podCounts{old: revisionCounts{available: 1}}, want: diff{remove: 1, removeOld: 1, limit: 1},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.n.diff(tc.pods, tc.rollBack), cmp.AllowUnexported(diff{})); diff != "" {
				t.Errorf("count (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCountNeverContradictsItself goes through all small counts of pods.
func TestCountNeverContradictsItself(t *testing.T) {
	each := func(yield func(revisionCounts)) {
		for i := range 3 * 3 * 3 * 3 {
			yield(revisionCounts{preparingDelete: i % 3, specified: i / 3 % 3, unavailable: i / 9 % 3, available: i / 27})
		}
	}
	for _, rollBack := range []bool{false, true} {
		for replicas := range 4 {
			for partition := range replicas + 1 {
				for surge := range 3 {
					n := &Spec{Spec: podset.Spec{Replicas: replicas, Partition: partition, MaxUnavailable: 1, ScaleMaxUnavailable: 2}, MaxSurge: surge}
					each(func(old revisionCounts) {
						each(func(updated revisionCounts) {
							c := podCounts{old, updated}
							s := n.diff(c, rollBack)
							wrong := ""
							switch {
							case s.create < 0 || s.held < 0 || s.remove < 0 || s.removeOld < 0 || s.createOld < 0:
								wrong = "a negative number"
							case s.create > 0 && s.remove > 0:
								wrong = "pods are created and removed"
							case s.createOld > s.create || s.removeOld > s.remove:
								wrong = "a share is more than the whole"
							case s.create > 0 && c.all()+s.create > replicas+surge:
								wrong = "more pods than replicas and surge"
							case s.move > c.old.staying() || -s.move > c.updated.staying():
								wrong = "more pods move than there are"
							case s.move > 0 && old.staying()-s.move < partition:
								wrong = "the partition does not keep its pods"
							}
							if wrong != "" {
								t.Fatalf("%s: %+v of %+v; replicas %d, partition %d, surge %d, back %v", wrong, s, c, replicas, partition, surge, rollBack)
							}
						})
					})
				}
			}
		}
	}
}
