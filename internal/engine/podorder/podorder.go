// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package podorder says which pod comes first: for an update, by the user's priorities and scattering; for a deletion, by how
// little is lost.
//
// Orders are stable: pods that no criterion tells apart keep the order in which they came. What a comparison needs is computed
// once for each pod.
package podorder

import "slices"

// keyed is a pod with what its comparisons need.
type keyed[P, K any] struct {
	pod P
	key K
}

// sortBy sorts pods stably by a key that is computed once for each.
func sortBy[P, K any](pods []P, key func(P) K, compare func(a, b K) int) []P {
	all := make([]keyed[P, K], len(pods))
	for i, p := range pods {
		all[i] = keyed[P, K]{p, key(p)}
	}
	slices.SortStableFunc(all, func(a, b keyed[P, K]) int { return compare(a.key, b.key) })
	sorted := make([]P, len(pods))
	for i, k := range all {
		sorted[i] = k.pod
	}
	return sorted
}
