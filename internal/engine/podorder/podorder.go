// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package podorder sorts pods: for an update by the user's priorities and scattering, for a deletion so that the pods whose loss costs least
// come first.
//
// The sort is stable: pods that are equal in every criterion keep their order. The keys of a comparison are computed once for each pod.
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
