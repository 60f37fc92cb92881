// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podsettest

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
)

// Scenario is one rollout, or some other course of events, from beginning to end.
type Scenario[W comparable] struct {
	// Name says what happens, in a few words; the golden file is called after it.
	Name string
	// Start is the state at the beginning.
	Start *State[W]
	// Step is the planner under test.
	Step Step[W]
	// Cluster is what happens around it.
	Cluster Cluster
	// Acts happen one after the other, each when the state has come to rest after the one before.
	Acts []Act[W]
	// Always holds in every step of the controller.
	Always []Invariant[W]
	// End says what is wrong with the state when it rests after the last act; nil if it is as it should be.
	End func(*State[W]) error
}

// Act is something that happens from outside.
type Act[W any] struct {
	Name string
	// Do changes the state. Do, SetLabel and the like help.
	Do func(*State[W]) error
}

// Run runs the scenario in fixed order and compares its log with testdata/<name>.golden (written with the flag -update). Then it runs it in seeds
// random orders, of which only invariants and the end are checked.
func Run[W comparable](t *testing.T, scenario Scenario[W], seeds int) {
	t.Helper()
	text, err := scenario.run()
	if err != nil {
		t.Errorf("%s\n%v", text, err)
	}
	CompareGolden(t, strings.ReplaceAll(strings.ReplaceAll(scenario.Name, ",", ""), " ", "-"), text)
	for seed := range seeds {
		if err := scenario.runInRandomOrder(rand.New(rand.NewSource(int64(seed)))); err != nil { //nolint:gosec // an order that can be repeated
			t.Errorf("in random order, seed %d: %v", seed, err)
			return
		}
	}
}

//nolint:gochecknoglobals // a flag of a test has to be there before the arguments are read
var update = flag.Bool("update", false, "write the golden files of scenarios")

// maxSteps is how many steps a scenario may take between two acts.
const maxSteps = 2000

var errNoRest = errors.New("the state does not come to rest")

// run runs the scenario in fixed order: a pass of the controller, then one move on each pod, and so on. Time passes only when
// nothing else happens and the controller asked to look again.
func (s Scenario[W]) run() (string, error) {
	var text strings.Builder
	w := s.normalized()
	fmt.Fprintf(&text, "# %s\n\n%s\n", s.Name, indent(w.String()))
	last := ""
	rest := func() error {
		for range maxSteps {
			plan, err := s.pass(w)
			if now := describePlan(plan); len(plan.Actions) > 0 || now != last && now != "nothing" {
				fmt.Fprintf(&text, "plan    %s\n", now)
				last = now
			}
			if err != nil {
				return err
			}
			moved := s.tick(w, &text)
			if !moved && len(plan.Actions) == 0 {
				if plan.RecheckAfter == 0 || !s.waitAll(w, PassTime, &text) {
					return nil
				}
			}
		}
		return errNoRest
	}
	if err := rest(); err != nil {
		return text.String(), err
	}
	for _, act := range s.Acts {
		fmt.Fprintf(&text, "\n## %s\n\n", act.Name)
		last = ""
		if err := act.Do(w); err != nil {
			return text.String(), fmt.Errorf("%s: %w", act.Name, err)
		}
		if err := rest(); err != nil {
			return text.String(), err
		}
	}
	fmt.Fprintf(&text, "\nrests\n%s\n", indent(w.String()))
	return text.String(), s.End(w)
}

// normalized is a copy of the start whose pods are as a cluster keeps them.
func (s Scenario[W]) normalized() *State[W] {
	w := s.Start.clone()
	for i, p := range w.Pods {
		w.Pods[i] = s.Cluster.normalize(p.DeepCopy())
	}
	return w
}

// pass plans and carries out the whole plan.
func (s Scenario[W]) pass(w *State[W]) (planning.Plan, error) {
	plan, after := s.Step(w)
	return plan, s.apply(w, plan.Actions, &after)
}

// apply carries out actions and checks the invariants. after is the workload with its new status; nil leaves it.
func (s Scenario[W]) apply(w *State[W], actions []planning.Action, after *W) error {
	before := w.clone()
	for _, action := range actions {
		if err := Apply(w, action); err != nil {
			return err
		}
	}
	for i, p := range w.Pods {
		if before.Pod(p.Name) != p {
			w.Pods[i] = s.Cluster.normalize(p)
		}
	}
	if after != nil {
		w.Set = *after
	}
	if len(actions) == 0 {
		return nil
	}
	for _, invariant := range s.Always {
		if err := invariant.Check(Event[W]{Before: before, After: w, Actions: actions}); err != nil {
			return fmt.Errorf("%s: %w", invariant.Name, err)
		}
	}
	return nil
}

// tick lets one thing happen to every pod.
func (s Scenario[W]) tick(w *State[W], text *strings.Builder) bool {
	moved := false
	for _, pod := range slices.Clone(w.Pods) {
		for _, move := range slices.Sorted(maps.Keys(podMoves(s.Cluster, w, pod))) {
			if move.isFault() || move == PassTime {
				continue
			}
			if err := Do(w, s.Cluster, pod.Name, move); err != nil {
				continue
			}
			moved = true
			fmt.Fprintf(text, "        %s %s\n", pod.Name, move)
			break
		}
	}
	for _, m := range nodeMoves(s.Cluster, w) {
		if !m.move.isFault() && doNode(w, s.Cluster, m) == nil {
			moved = true
			fmt.Fprintf(text, "        node %s %s\n", m.node, m.move)
		}
	}
	for _, claim := range slices.Clone(w.Claims) {
		if orphaned(w, claim) {
			w.Claims = slices.DeleteFunc(w.Claims, func(c *corev1.PersistentVolumeClaim) bool { return c == claim })
			moved = true
			fmt.Fprintf(text, "        claim %s is collected\n", claim.Name)
		}
	}
	return moved
}

// waitAll makes one move happen to all pods.
func (s Scenario[W]) waitAll(w *State[W], move Move, text *strings.Builder) bool {
	moved := false
	for _, pod := range slices.Clone(w.Pods) {
		moved = Do(w, s.Cluster, pod.Name, move) == nil || moved
	}
	if moved {
		fmt.Fprintf(text, "        time passes\n")
	}
	return moved
}

// runInRandomOrder lets everything happen in random order: passes, single actions of a plan, and moves.
func (s Scenario[W]) runInRandomOrder(random *rand.Rand) error {
	w := s.normalized()
	rest := func() error {
		for range maxSteps {
			plan, after := s.Step(w)
			type option func() error
			var options []option
			if len(plan.Actions) > 0 || after != w.Set {
				options = append(options, func() error { return s.apply(w, plan.Actions, &after) })
			}
			for _, action := range plan.Actions {
				options = append(options, func() error { return s.apply(w, []planning.Action{action}, nil) })
			}
			for _, pod := range w.Pods {
				for _, move := range slices.Sorted(maps.Keys(podMoves(s.Cluster, w, pod))) {
					if !move.isFault() && (move != PassTime || plan.RecheckAfter > 0) {
						options = append(options, func() error { return Do(w, s.Cluster, pod.Name, move) })
					}
				}
			}
			for _, m := range nodeMoves(s.Cluster, w) {
				if !m.move.isFault() {
					options = append(options, func() error { return doNode(w, s.Cluster, m) })
				}
			}
			for _, claim := range w.Claims {
				if orphaned(w, claim) {
					options = append(options, func() error {
						w.Claims = slices.DeleteFunc(w.Claims, func(c *corev1.PersistentVolumeClaim) bool { return c == claim })
						return nil
					})
				}
			}
			if len(options) == 0 {
				return nil
			}
			if err := options[random.Intn(len(options))](); err != nil {
				return fmt.Errorf("%w\nin\n%s", err, indent(w.String()))
			}
		}
		return fmt.Errorf("%w:\n%s", errNoRest, indent(w.String()))
	}
	if err := rest(); err != nil {
		return err
	}
	for _, act := range s.Acts {
		if err := act.Do(w); err != nil {
			return fmt.Errorf("%s: %w", act.Name, err)
		}
		if err := rest(); err != nil {
			return fmt.Errorf("after %s: %w", act.Name, err)
		}
	}
	if err := s.End(w); err != nil {
		return fmt.Errorf("%w\nin\n%s", err, indent(w.String()))
	}
	return nil
}

// CompareGolden compares with testdata/<name>.golden, or writes that file when the test runs with -update.
func CompareGolden(t testing.TB, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil { //nolint:gosec // test data is public
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil { //nolint:gosec // test data is public
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Errorf("%v\nrun the test with -update to write it. The log is:\n%s", err, got)
		return
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("the log differs from %s (-golden +now; -update accepts it):\n%s", file, diff)
	}
}
