// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"testing"

	"github.com/kruise-operator/kruise-operator/internal/engine/spread"
	"github.com/kruise-operator/kruise-operator/internal/testutil/walk"
)

// rollout is a Deployment of 4 pods with a surge over two subsets: its pods by version (old, new) and subset (a, b, none), and how many a
// user may still delete.
type rollout struct {
	pods   [2][3]int
	faults int
	// updated: the template has changed.
	updated bool
}

const wantedPods, surged, limitOfFirst = 4, 1, 2

// total are the pods of a version, or of all.
func (r rollout) total(versions ...int) (n int) {
	for _, v := range versions {
		for _, pods := range r.pods[v] {
			n += pods
		}
	}
	return n
}

// create is the Deployment creating a pod of a version. The subset is the planner's choice.
func (r rollout) create(s *spread.Spread, version int) rollout {
	at := s.Place(1, wantedPods, r.pods[version][:2], nil)[0]
	if at == spread.None {
		at = 2
	}
	r.pods[version][at]++
	return r
}

// cheapest is the subset that loses the next pod of a version, by deletion cost.
func (r rollout) cheapest(s *spread.Spread, version int) int {
	found, least := spread.None, 0
	for i, pods := range r.pods[version] {
		if pods == 0 {
			continue
		}
		rank := i
		if r.updated && version == 0 && i < 2 {
			rank = 1 - i
		}
		cost := s.SurplusCost(spread.None)
		if i < 2 {
			cost = s.Cost(rank)
			if limit := s.Limit(i, wantedPods); limit >= 0 && pods > limit {
				cost = s.SurplusCost(rank)
			}
		}
		if found == spread.None || cost < least {
			found, least = i, cost
		}
	}
	return found
}

// next are the states one step further, of the Deployment and of its user.
func (r rollout) next(s *spread.Spread) (steps, faults []rollout) {
	current := 0
	if r.updated {
		current = 1
	}
	if r.total(0, 1) < wantedPods+surged*current && r.total(current) < wantedPods {
		steps = append(steps, r.create(s, current))
	}
	if r.updated && r.total(0) > 0 && r.total(0, 1) > wantedPods-1 {
		gone := r
		gone.pods[0][r.cheapest(s, 0)]--
		steps = append(steps, gone)
	}
	if r.faults > 0 {
		for v := range r.pods {
			for i := range r.pods[v] {
				if r.pods[v][i] > 0 {
					lost := r
					lost.pods[v][i]--
					lost.faults--
					faults = append(faults, lost)
				}
			}
		}
	}
	if !r.updated {
		changed := r
		changed.updated = true
		faults = append(faults, changed)
	}
	return steps, faults
}

// TestEveryRolloutEndsWithTheSplit visits each state of a Deployment that is started, updated with a surge, and loses pods at any time. No
// version ever has more pods in a subset than its limit, none is without a subset, and at rest the split is that of the limits.
func TestEveryRolloutEndsWithTheSplit(t *testing.T) {
	w := newWorld(t, "Deployment", fmt.Sprint(limitOfFirst), "")
	s := w.parsed()
	start := rollout{faults: 3}
	rests := 0
	states := walk.From(start, func(r rollout) rollout { return r }, func(r rollout) []rollout {
		for v := range r.pods {
			if r.pods[v][0] > limitOfFirst || r.pods[v][2] > 0 {
				t.Fatalf("state %+v", r)
			}
		}
		steps, faults := r.next(s)
		if len(steps) == 0 {
			rests++
			version := 0
			if r.updated {
				version = 1
			}
			if r.pods[version] != [3]int{limitOfFirst, wantedPods - limitOfFirst, 0} || r.total(1-version) > 0 {
				t.Errorf("at rest: %+v", r)
			}
		}
		return append(steps, faults...)
	})
	t.Logf("%d states, %d at rest", states, rests)
}
