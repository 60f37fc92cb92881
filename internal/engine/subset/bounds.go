// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package subset

import "math"

// bounds are a subset's in pods, the lower one never above the upper one.
func bounds(s Subset, replicas int) (least, most int) {
	most = math.MaxInt
	if s.Max != nil {
		most = s.Max.Of(replicas)
	}
	if s.Min != nil {
		least = s.Min.Of(replicas)
	}
	if s.Replicas != nil {
		least = s.Replicas.Of(replicas)
		most = least
	}
	return min(least, most), most
}

// fill gives pods to subsets in passes over the list, each up to a higher bound:
//
//  1. the lower bound, even for unschedulable pods;
//  2. with reschedule, the pods on a node: they are not moved to an earlier subset;
//  3. the upper bound, with reschedule only where there is room;
//  4. with reschedule, the upper bound of the others: surplus pods are created all the same, and
//     wait for nodes.
func fill(replicas int, subsets []Subset, reschedule bool) Shares {
	shares := Shares{Sizes: make([]int, len(subsets)), Unplaced: replicas}
	pass := func(bound func(s Subset, least, most int) int) {
		for i, s := range subsets {
			least, most := bounds(s, replicas)
			more := min(max(bound(s, least, most)-shares.Sizes[i], 0), shares.Unplaced)
			shares.Sizes[i] += more
			shares.Unplaced -= more
		}
	}
	pass(func(_ Subset, least, _ int) int { return least })
	if reschedule {
		pass(func(s Subset, _, most int) int { return min(s.Scheduled, most) })
		pass(func(s Subset, _, most int) int {
			if s.Unschedulable {
				return 0
			}
			return most
		})
	}
	pass(func(_ Subset, _, most int) int { return most })
	return shares
}

// reserve is fill for subsets with pods that stay while they wait for a node. Of an unschedulable
// or unproven subset only the unreserved pods there count. For the waiting ones, as many are given
// to the later subsets:
//
//  1. all get their lower bound;
//  2. subsets with room get their upper bound, the others keep their pods;
//  3. the rest goes to the others, as far as no pod waits for it there already.
//
// So the sizes can add up to more than replicas while pods wait.
func reserve(replicas int, subsets []Subset) Shares {
	shares := Shares{Sizes: make([]int, len(subsets)), Unplaced: replicas}
	usable := func(i, size int) int {
		if !subsets[i].Unschedulable && !subsets[i].Unproven {
			return size
		}
		return min(size, max(subsets[i].Present-subsets[i].Reserved, 0))
	}
	give := func(i, upTo int) {
		more := min(max(upTo-shares.Sizes[i], 0), shares.Unplaced)
		shares.Unplaced -= usable(i, shares.Sizes[i]+more) - usable(i, shares.Sizes[i])
		shares.Sizes[i] += more
	}
	for i, s := range subsets {
		least, _ := bounds(s, replicas)
		give(i, least)
	}
	for i, s := range subsets {
		_, most := bounds(s, replicas)
		if s.Unschedulable {
			most = min(most, s.Present)
		}
		give(i, most)
	}
	waiting := 0
	for i, size := range shares.Sizes {
		waiting += size - usable(i, size)
	}
	missing := max(shares.Unplaced-waiting, 0)
	for i, s := range subsets {
		_, most := bounds(s, replicas)
		if more := min(most-shares.Sizes[i], missing); s.Unschedulable && more > 0 {
			shares.Sizes[i] += more
			missing -= more
		}
	}
	shares.Unplaced = missing
	return shares
}
