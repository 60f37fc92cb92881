// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package subset

import (
	"cmp"
	"slices"
)

// fixed gives every subset with a fixed size that size, as long as there are pods, and divides the
// rest among the others. Without others the rest is divided among all, on top.
func fixed(replicas int, subsets []Subset) Shares {
	shares := Shares{Sizes: make([]int, len(subsets))}
	left, wanted := replicas, 0
	var open, all []int
	for i, s := range subsets {
		all = append(all, i)
		if s.Replicas == nil {
			open = append(open, i)
			continue
		}
		want := s.Replicas.Of(replicas)
		shares.Sizes[i] = min(want, left)
		left -= shares.Sizes[i]
		wanted += want
	}
	shares.Adjusted = wanted > replicas
	if len(open) == 0 && left > 0 {
		open, shares.Adjusted = all, true
	}
	spread(left, subsets, open, shares.Sizes)
	return shares
}

// spread adds equal parts of left to the sizes of the subsets in among. The indivisible rest goes
// where most pods are present above the given size, so as few as possible move; of equals, the
// larger name gets it.
func spread(left int, subsets []Subset, among, sizes []int) {
	if len(among) == 0 {
		return
	}
	order := slices.SortedFunc(slices.Values(among), func(i, j int) int {
		return cmp.Or(
			cmp.Compare(subsets[j].Present-sizes[j], subsets[i].Present-sizes[i]),
			cmp.Compare(subsets[j].Name, subsets[i].Name),
		)
	})
	for at, i := range order {
		sizes[i] += left / len(among)
		if at < left%len(among) {
			sizes[i]++
		}
	}
}
