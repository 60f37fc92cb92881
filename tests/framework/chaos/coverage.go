// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package chaos

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Outcome is how a run ended.
type Outcome string

// The outcomes of runs.
const (
	Passed Outcome = "passed"
	Failed Outcome = "failed"
	// Unfired: the run passed without its perturbation, for want of writes.
	Unfired Outcome = "unfired"
)

// entry is a line of the file: a scenario's possible perturbations, or a run's end.
type entry struct {
	Kind     string       `json:"kind"`
	Scenario string       `json:"scenario"`
	There    map[Kind]int `json:"there,omitempty"`
	Run      string       `json:"run,omitempty"`
	Outcome  Outcome      `json:"outcome,omitempty"`
}

// Coverage counts tries by kind. Several goroutines may use it. With a file it resumes:
// passed runs are not repeated.
type Coverage struct {
	mutex sync.Mutex
	file  *os.File
	// there counts each scenario's perturbations, runs are the last outcomes by name.
	there map[string]map[Kind]int
	runs  map[string]Outcome
}

// NewCoverage starts from the file; empty without a path.
func NewCoverage(path string) (*Coverage, error) {
	c := &Coverage{there: map[string]map[Kind]int{}, runs: map[string]Outcome{}}
	if path == "" {
		return c, nil
	}
	before, err := os.Open(path)
	if err == nil {
		err = errors.Join(c.read(bufio.NewScanner(before)), before.Close())
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	c.file, err = os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	return c, err
}

func (c *Coverage) read(lines *bufio.Scanner) error {
	for lines.Scan() {
		var e entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			continue // the process was killed while it wrote
		}
		c.take(e)
	}
	return lines.Err()
}

func (c *Coverage) take(e entry) {
	if e.Run != "" {
		c.runs[e.Run] = e.Outcome
	} else {
		c.there[e.Kind+"/"+e.Scenario] = e.There
	}
}

func (c *Coverage) add(e entry) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.take(e)
	if c.file == nil {
		return nil
	}
	line, err := json.Marshal(e)
	if err == nil {
		_, err = c.file.Write(append(line, '\n'))
	}
	return err
}

// nameOf is a value for CHAOS_REPLAY.
func nameOf(s Scenario, p Perturbation) string { return s.Kind + "/" + s.Name + "/" + p.String() }

// There counts a scenario's perturbations and returns the ones not passed yet.
func (c *Coverage) There(s Scenario, all []Perturbation) ([]Perturbation, error) {
	there := map[Kind]int{}
	var left []Perturbation
	for _, p := range all {
		there[p.Kind]++
		c.mutex.Lock()
		outcome := c.runs[nameOf(s, p)]
		c.mutex.Unlock()
		if outcome != Passed && outcome != Unfired {
			left = append(left, p)
		}
	}
	return left, c.add(entry{Kind: s.Kind, Scenario: s.Name, There: there})
}

// Tried counts a run.
func (c *Coverage) Tried(s Scenario, p Perturbation, outcome Outcome) error {
	return c.add(entry{Kind: s.Kind, Scenario: s.Name, Run: nameOf(s, p), Outcome: outcome})
}

// String is a table in Markdown.
func (c *Coverage) String() string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	scenarios, there, tried := map[string]int{}, map[string]map[Kind]int{}, map[string]map[string]int{}
	for name, counts := range c.there {
		kind, _, _ := strings.Cut(name, "/")
		scenarios[kind]++
		if there[kind] == nil {
			there[kind], tried[kind] = map[Kind]int{}, map[string]int{}
		}
		for of, count := range counts {
			there[kind][of] += count
		}
	}
	for run, outcome := range c.runs {
		parts := strings.Split(run, "/")
		if tried[parts[0]] == nil || c.there[parts[0]+"/"+parts[1]] == nil {
			continue // a scenario that is no more
		}
		if outcome == Passed {
			of, _, _ := strings.Cut(parts[2], "@")
			tried[parts[0]][of]++
		} else {
			tried[parts[0]][string(outcome)]++
		}
	}
	lines := []string{
		"| Kind | scenarios | crash points | stale views | changes of leader | missed events | failing writes | compactions | stolen pods | failed | did not happen |",
		"|---|---|---|---|---|---|---|---|---|---|---|",
	}
	for _, kind := range slices.Sorted(maps.Keys(scenarios)) {
		cells := []string{kind, fmt.Sprint(scenarios[kind])}
		for _, k := range Kinds() {
			cells = append(cells, fmt.Sprintf("%d of %d", tried[kind][string(k)], there[kind][k]))
		}
		cells = append(cells, fmt.Sprint(tried[kind][string(Failed)]), fmt.Sprint(tried[kind][string(Unfired)]))
		lines = append(lines, "| "+strings.Join(cells, " | ")+" |")
	}
	return strings.Join(lines, "\n")
}

// Shuffle puts runs into the order of a seed.
func Shuffle[T any](runs []T, seed uint64) {
	rand.New(rand.NewPCG(seed, seed)).Shuffle(len(runs), func(i, j int) { runs[i], runs[j] = runs[j], runs[i] })
}
