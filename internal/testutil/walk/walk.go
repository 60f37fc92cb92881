// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package walk visits the states of small worlds, for explorations.
package walk

// From visits every state reachable from the first, the newest first. States with the same key are one. It returns their number.
func From[S any, K comparable](first S, key func(S) K, next func(S) []S) int {
	visited, waiting := map[K]bool{key(first): true}, []S{first}
	for len(waiting) > 0 {
		s := waiting[len(waiting)-1]
		waiting = waiting[:len(waiting)-1]
		for _, n := range next(s) {
			if k := key(n); !visited[k] {
				visited[k] = true
				waiting = append(waiting, n)
			}
		}
	}
	return len(visited)
}
