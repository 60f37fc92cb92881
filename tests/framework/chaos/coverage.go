// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package chaos

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
)

// Coverage counts what was tried, by kind. It may be used from several goroutines.
type Coverage struct {
	mutex sync.Mutex
	kinds map[string]*counts
}

type counts struct {
	scenarios int
	there     map[Kind]int
	tried     map[Kind]int
	failed    int
	unfired   int
}

// NewCoverage has counted nothing.
func NewCoverage() *Coverage { return &Coverage{kinds: map[string]*counts{}} }

func (c *Coverage) of(s Scenario) *counts {
	if c.kinds[s.Kind] == nil {
		c.kinds[s.Kind] = &counts{there: map[Kind]int{}, tried: map[Kind]int{}}
	}
	return c.kinds[s.Kind]
}

// There counts a scenario and what there is to try with it.
func (c *Coverage) There(s Scenario, all []Perturbation) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	of := c.of(s)
	of.scenarios++
	for _, p := range all {
		of.there[p.Kind]++
	}
}

// Tried counts a run. One whose perturbation did not happen, since there were fewer writes than before, counts apart.
func (c *Coverage) Tried(s Scenario, p Perturbation, passed, fired bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	of := c.of(s)
	switch {
	case !passed:
		of.failed++
	case !fired:
		of.unfired++
	default:
		of.tried[p.Kind]++
	}
}

// String is a table in Markdown.
func (c *Coverage) String() string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	lines := []string{
		"| Kind | scenarios | crash points | stale views | missed events | failing writes | failed | did not happen |",
		"|---|---|---|---|---|---|---|---|",
	}
	for _, kind := range slices.Sorted(maps.Keys(c.kinds)) {
		of := c.kinds[kind]
		cells := []string{kind, fmt.Sprint(of.scenarios)}
		for _, k := range []Kind{Crash, Stale, Missed, Fault} {
			cells = append(cells, fmt.Sprintf("%d of %d", of.tried[k], of.there[k]))
		}
		cells = append(cells, fmt.Sprint(of.failed), fmt.Sprint(of.unfired))
		lines = append(lines, "| "+strings.Join(cells, " | ")+" |")
	}
	return strings.Join(lines, "\n")
}

// Shuffle puts runs into the order of a seed.
func Shuffle[T any](runs []T, seed uint64) {
	rand.New(rand.NewPCG(seed, seed)).Shuffle(len(runs), func(i, j int) { runs[i], runs[j] = runs[j], runs[i] })
}
