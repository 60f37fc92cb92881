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

	"github.com/kruise-operator/kruise-operator/internal/testutil/sample"
	"github.com/kruise-operator/kruise-operator/tests/framework/chaos"
)

// settings come from the environment: CHAOS_FULL=true tries everything, CHAOS_TIME limits a
// sample, CHAOS_SEED orders it (the number of the day when unset), CHAOS_KINDS is a list of
// kinds, CHAOS_SLOTS the number of parallel runs, CHAOS_RECORD a file of passed runs, and
// CHAOS_REPLAY one run as printed by a failure.
type settings struct {
	full   bool
	limit  time.Duration
	seed   uint64
	kinds  []string
	replay string
	record string
	slots  int
	quiet  time.Duration
}

func fromEnvironment(t *testing.T) settings {
	t.Helper()
	s := settings{limit: 30 * time.Second, seed: uint64(sample.Day()), replay: os.Getenv("CHAOS_REPLAY"), record: os.Getenv("CHAOS_RECORD"), slots: 8, quiet: 30 * time.Second}
	for name, parse := range map[string]func(string) error{
		"CHAOS_FULL":  func(text string) (err error) { s.full, err = strconv.ParseBool(text); return err },
		"CHAOS_TIME":  func(text string) (err error) { s.limit, err = time.ParseDuration(text); return err },
		"CHAOS_SEED":  func(text string) (err error) { s.seed, err = strconv.ParseUint(text, 10, 64); return err },
		"CHAOS_SLOTS": func(text string) (err error) { s.slots, err = strconv.Atoi(text); return err },
	} {
		if text := os.Getenv(name); text != "" {
			if err := parse(text); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	if s.slots < 1 {
		t.Fatalf("CHAOS_SLOTS is %d, want 1 or more", s.slots)
	}
	if text := os.Getenv("CHAOS_KINDS"); text != "" {
		s.kinds = strings.Split(text, ",")
		for _, kind := range s.kinds {
			if !slices.ContainsFunc(all(), func(of chaos.Scenario) bool { return of.Kind == kind }) {
				t.Fatalf("CHAOS_KINDS: there are no scenarios of %q", kind)
			}
		}
	}
	if s.replay != "" {
		s.quiet = time.Second
	}
	return s
}

// batch are scenarios side by side, each with its own namespace and operator.
type batch struct {
	settings
	coverage *chaos.Coverage
	// slots are taken by runs; waiting needs none.
	slots chan struct{}
	// undisturbed is done when all scenarios have been run once. The time of a sample begins then.
	undisturbed sync.WaitGroup
	began       func() time.Time
}

// TestChaos runs each scenario undisturbed and then perturbed, and comes to the same end each time.
func TestChaos(t *testing.T) {
	set := fromEnvironment(t)
	t.Logf("CHAOS_SEED=%d", set.seed)
	coverage, err := chaos.NewCoverage(set.record)
	if err != nil {
		t.Fatal(err)
	}
	wanted := func(of []chaos.Scenario) []chaos.Scenario {
		if !set.full && len(set.kinds) == 0 && set.replay == "" {
			of = today(of)
		}
		return slices.DeleteFunc(of, func(s chaos.Scenario) bool {
			return len(set.kinds) > 0 && !slices.Contains(set.kinds, s.Kind) || set.replay != "" && !strings.HasPrefix(set.replay, s.Kind+"/"+s.Name+"/")
		})
	}
	t.Run("side by side", func(t *testing.T) {
		b := newBatch(set, coverage)
		for _, s := range wanted(beside()) {
			b.undisturbed.Add(1)
			t.Run(s.Kind+"/"+s.Name, func(t *testing.T) {
				t.Parallel()
				b.run(t, s)
			})
		}
	})
	single := wanted(alone())
	set.limit /= 4
	if !set.full {
		set.quiet = min(set.quiet, 12*time.Second) // one after the other
	}
	for _, s := range single {
		b := newBatch(set, coverage)
		b.limit /= time.Duration(len(single))
		b.undisturbed.Add(1)
		t.Run(s.Kind+"/"+s.Name, func(t *testing.T) { b.run(t, s) })
	}
	t.Logf("measured: what was tried, and what there is to try:\n%s", coverage)
}

// today are about two scenarios of each kind, others each day. Of kinds whose scenarios run one after the other it is one.
func today(all []chaos.Scenario) []chaos.Scenario {
	number, single := map[string]int{}, map[string]bool{}
	for _, s := range all {
		number[s.Kind]++
	}
	for _, s := range alone() {
		single[s.Kind] = true
	}
	seen := map[string]int{}
	return slices.DeleteFunc(all, func(s chaos.Scenario) bool {
		seen[s.Kind]++
		turns := number[s.Kind]
		if !single[s.Kind] {
			turns = (turns + 1) / 2
		}
		return !sample.Has(seen[s.Kind], turns)
	})
}

func newBatch(set settings, coverage *chaos.Coverage) *batch {
	return &batch{settings: set, coverage: coverage, slots: make(chan struct{}, set.slots), began: sync.OnceValue(time.Now)}
}

// run runs a scenario undisturbed, and then perturbed until the time of a sample is over.
func (b *batch) run(t *testing.T, s chaos.Scenario) {
	done := sync.OnceFunc(b.undisturbed.Done)
	defer done()
	lane := chaos.NewLane(t, env, strings.ToLower(s.Kind+"-"+s.Name), s)
	base := b.base(t, lane, s)
	done()
	if base == nil {
		return
	}
	all := chaos.All(base)
	t.Logf("%d writes, created %v, watches %s: %d perturbations", base.Writes, base.Created, strings.Join(base.Resources, " "), len(all))
	left, err := b.coverage.There(s, all)
	if err != nil {
		t.Fatal(err)
	}
	if plan, found := strings.CutPrefix(b.replay, s.Kind+"/"+s.Name+"/"); found {
		replay, err := chaos.Parse(plan)
		if err != nil {
			t.Fatal(err)
		}
		left = []chaos.Perturbation{replay}
	}
	chaos.Shuffle(left, b.seed)
	if !b.full && b.replay == "" {
		b.undisturbed.Wait()
	}
	end := b.began().Add(b.limit)
	for _, plan := range left {
		b.slots <- struct{}{}
		if !b.full && b.replay == "" && time.Now().After(end) {
			<-b.slots
			return
		}
		outcome := chaos.Failed
		passed := t.Run(plan.String(), func(t *testing.T) {
			if lane.Run(t, s, plan, base).Fired {
				outcome = chaos.Passed
			} else {
				outcome = chaos.Unfired
			}
		})
		if !passed {
			outcome = chaos.Failed
			lane.Renew(t)
		}
		<-b.slots
		if err := b.coverage.Tried(s, plan, outcome); err != nil {
			t.Fatal(err)
		}
	}
}

// base runs a scenario undisturbed; nil if it failed. At rest it gives its slot away.
func (b *batch) base(t *testing.T, lane *chaos.Lane, s chaos.Scenario) (base *chaos.Result) {
	t.Helper()
	b.slots <- struct{}{}
	free := sync.OnceFunc(func() { <-b.slots })
	t.Run("none", func(t *testing.T) {
		defer free()
		result := lane.Base(t, s, b.quiet, free)
		if !t.Failed() {
			base = result
		}
	})
	return base
}

var once sync.Once // of the storage class, which all lanes share

// beside are the scenarios fit to run side by side.
func beside() []chaos.Scenario {
	return slices.Concat(
		statefulSets(), cloneSets(), daemonSets(), broadcastJobs(), cronJobs(), unitedDeployments(), ephemeralJobs(), recreateRequests(), imagePullJobs(),
		imageListPullJobs(), podProbeMarkers(), resourceDistributions(), workloadSpreads(), persistentPodStates(), podUnavailableBudgets(),
	)
}

// alone are the scenarios whose registrations are cluster-wide: an operator without these kinds would remove them.
func alone() []chaos.Scenario { return slices.Concat(sidecarSets(), rollouts(), trafficRoutings()) }

// all are the scenarios of all kinds.
func all() []chaos.Scenario { return append(beside(), alone()...) }

func TestEachDayHasScenariosOfEachKind(t *testing.T) {
	kinds, had := map[string]bool{}, map[string]bool{}
	for _, s := range all() {
		kinds[s.Kind] = true
	}
	for day := range 12 {
		t.Setenv(sample.DayVariable, strconv.Itoa(day))
		of := map[string]bool{}
		for _, s := range today(all()) {
			of[s.Kind], had[s.Kind+"/"+s.Name] = true, true
		}
		if len(of) != len(kinds) {
			t.Errorf("day %d has scenarios of %d kinds of %d", day, len(of), len(kinds))
		}
	}
	if want := len(all()); !sample.All() && len(had) != want {
		t.Errorf("%d of %d scenarios are tried within twelve days", len(had), want)
	}
}
