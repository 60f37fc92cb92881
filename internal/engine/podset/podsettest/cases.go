// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podsettest

import (
	"maps"
	"os"
	"slices"
	"testing"
)

// Full says that large explorations are wanted too: those that are no part of the daily tests.
func Full() bool { return os.Getenv("EXPLORE") == "full" }

// Size is how large the exploration of a case is.
type Size struct {
	// Least is how many states there are at least: fewer mean that the case does not explore what it says.
	Least int
	// Large explorations take minutes and are for Full alone.
	Large bool
}

// maxOfLarge is how many states a large exploration visits at most, so that all of them together end within two hours on one core. One that
// has more fails: it has to be made smaller, so that it is explored to its end.
const maxOfLarge = 500_000

// ExploreEach explores every case as a test of its own.
func ExploreEach[L any, W comparable](t *testing.T, cases map[string]L, size func(L) Size, exploration func(L, *testing.T) Exploration[W]) {
	t.Helper()
	larger := 0
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		s := size(cases[name])
		if s.Large && !Full() {
			larger++
			continue
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
	t.Logf("explored %d cases; %d take minutes and are left to make explore-full", len(cases)-larger, larger)
}
