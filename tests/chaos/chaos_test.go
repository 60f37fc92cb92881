// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package chaos_test

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kruise-operator/kruise-operator/tests/framework/chaos"
)

// settings come from the environment: CHAOS_FULL=true tries everything, CHAOS_TIME says for how long a sample is tried, CHAOS_SEED in which
// order (1 when unset), CHAOS_KINDS is a list of kinds, and CHAOS_REPLAY names one run as a failure prints it.
type settings struct {
	full   bool
	limit  time.Duration
	seed   uint64
	kinds  []string
	replay string
	quiet  time.Duration
}

func fromEnvironment(t *testing.T) settings {
	t.Helper()
	s := settings{limit: 100 * time.Second, seed: 1, replay: os.Getenv("CHAOS_REPLAY"), quiet: 12 * time.Second}
	var err error
	if text := os.Getenv("CHAOS_FULL"); text != "" {
		if s.full, err = strconv.ParseBool(text); err != nil {
			t.Fatalf("CHAOS_FULL: %v", err)
		}
	}
	if text := os.Getenv("CHAOS_TIME"); text != "" {
		if s.limit, err = time.ParseDuration(text); err != nil {
			t.Fatalf("CHAOS_TIME: %v", err)
		}
	}
	if text := os.Getenv("CHAOS_SEED"); text != "" {
		if s.seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("CHAOS_SEED: %v", err)
		}
	}
	if text := os.Getenv("CHAOS_KINDS"); text != "" {
		s.kinds = strings.Split(text, ",")
	}
	if s.full {
		s.quiet = 30 * time.Second
	}
	if s.replay != "" {
		s.quiet = time.Second
	}
	return s
}

// TestChaos runs each scenario undisturbed and then perturbed, and comes to the same end each time.
func TestChaos(t *testing.T) {
	set := fromEnvironment(t)
	t.Logf("CHAOS_SEED=%d", set.seed)
	coverage := chaos.NewCoverage()
	wanted := func(kind string) bool {
		return (len(set.kinds) == 0 || slices.Contains(set.kinds, kind)) && (set.replay == "" || strings.HasPrefix(set.replay, kind+"/"))
	}
	t.Run("side by side", func(t *testing.T) {
		for _, lane := range lanes() {
			if kind := lane[0].Kind; wanted(kind) {
				t.Run(kind, func(t *testing.T) {
					t.Parallel()
					runLane(t, set, coverage, strings.ToLower(kind), lane)
				})
			}
		}
	})
	// What a SidecarSet registers is there for the whole cluster, and an operator without this kind would take it back.
	set.limit /= 4
	if alone := sidecarSets(); wanted(alone[0].Kind) {
		t.Run(alone[0].Kind, func(t *testing.T) { runLane(t, set, coverage, strings.ToLower(alone[0].Kind), alone) })
	}
	t.Logf("measured: what was tried, and what there is to try:\n%s", coverage)
}

// runLane runs the scenarios of one kind, one run after the other.
func runLane(t *testing.T, set settings, coverage *chaos.Coverage, name string, scenarios []chaos.Scenario) {
	t.Helper()
	kinds := scenarios[0].Kinds
	if len(kinds) == 0 {
		kinds = []string{scenarios[0].Kind}
	}
	lane := chaos.NewLane(t, env, name, scenarios[0].Everywhere, kinds...)
	bases := map[string]*chaos.Result{}
	var runs []run
	for _, s := range scenarios {
		if set.replay != "" && !strings.HasPrefix(set.replay, s.Kind+"/"+s.Name+"/") {
			continue
		}
		if !t.Run(s.Name+"/none", func(t *testing.T) { bases[s.Name] = lane.Base(t, s, set.quiet) }) {
			lane.Renew(t)
			continue
		}
		base := bases[s.Name]
		t.Logf("%s: %d writes, created %v, watches %s", s.Name, base.Writes, base.Created, strings.Join(base.Resources, " "))
		all := chaos.All(base)
		coverage.There(s, all)
		for _, plan := range all {
			runs = append(runs, run{s, plan})
		}
		if plan, found := strings.CutPrefix(set.replay, s.Kind+"/"+s.Name+"/"); found {
			replay, err := chaos.Parse(plan)
			if err != nil {
				t.Fatal(err)
			}
			runs = []run{{s, replay}}
		}
	}
	chaos.Shuffle(runs, set.seed)
	end := time.Now().Add(set.limit)
	for _, r := range runs {
		if !set.full && set.replay == "" && time.Now().After(end) {
			break
		}
		var result *chaos.Result
		passed := t.Run(r.s.Name+"/"+r.plan.String(), func(t *testing.T) { result = lane.Run(t, r.s, r.plan, bases[r.s.Name]) })
		if !passed {
			lane.Renew(t)
		}
		coverage.Tried(r.s, r.plan, passed, result != nil && result.Fired)
	}
}

type run struct {
	s    chaos.Scenario
	plan chaos.Perturbation
}

var once sync.Once // of the storage class, which all lanes share

// lanes are the scenarios of each kind.
func lanes() [][]chaos.Scenario {
	return [][]chaos.Scenario{statefulSets(), cloneSets(), daemonSets(), broadcastJobs(), cronJobs(), unitedDeployments()}
}
