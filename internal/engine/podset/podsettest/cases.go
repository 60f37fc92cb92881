// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podsettest

import (
	"maps"
	"slices"
	"testing"

	"github.com/kruise-operator/kruise-operator/internal/testutil/sample"
)

// Size is how large the exploration of a case is.
type Size struct {
	// Least is how many states there are at least: fewer mean that the case does not explore what it says.
	Least int
	// Large explorations take minutes and are for make test-all alone.
	Large bool
}

// maxOfLarge is how many states a large exploration visits at most, so that all of them together end within two hours on one core. One that
// has more fails: it has to be made smaller, so that it is explored to its end.
const maxOfLarge = 500_000

// Cases of many states take turns: each is explored once in so many days. Smaller ones of the same behavior are explored every day.
const many, days = 3000, 4

// ExploreEach explores the cases of today, each as a test of its own.
func ExploreEach[L any, W comparable](t *testing.T, cases map[string]L, size func(L) Size, exploration func(L, *testing.T) Exploration[W]) {
	t.Helper()
	turns, larger, later := 0, 0, 0
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		s := size(cases[name])
		if s.Large && !sample.All() {
			larger++
			continue
		}
		if s.Least >= many {
			turns++
			if !sample.Has(turns, days) {
				later++
				continue
			}
		}
		t.Run(name, func(t *testing.T) {
			e := exploration(cases[name], t)
			if s.Large {
				e.MaxStates = maxOfLarge
			}
			if result := Explore(t, e); result.States < s.Least {
				t.Errorf("only %d states, there should be at least %d", result.States, s.Least)
			}
		})
	}
	t.Logf("explored %d cases; %d are left to the next days, and %d that take minutes to make test-all", len(cases)-larger-later, later, larger)
}
