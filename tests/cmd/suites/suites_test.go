// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/gotestsum/testjson"

	"github.com/kruise-operator/kruise-operator/internal/testutil/sample"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/binaries"
	"github.com/kruise-operator/kruise-operator/tests/framework/repository"
)

// A new kind has to fit into the budgets, and the budgets into the time a contributor waits
// for `make test`. Two packages of the integration suite run at once, so its tests take
// half as long on the clock.
func TestBudgetsFitInto25Minutes(t *testing.T) {
	lanes := make([]time.Duration, 2)
	for _, s := range allSuites() {
		if s.onDemand {
			continue
		}
		if s.budget <= 0 || s.budget > s.timeout {
			t.Errorf("suite %s has a budget of %s and a timeout of %s", s.name, s.budget, s.timeout)
		}
		onClock := s.budget
		if slices.Contains(s.args, "-p=2") {
			onClock /= 2
		}
		free := slices.Index(lanes, slices.Min(lanes))
		lanes[free] += onClock
	}
	if longest := slices.Max(lanes); longest > 25*time.Minute {
		t.Errorf("suites that need all of their budget take %s", longest)
	}
}

// A package without a suite is never tested.
func TestEveryTestIsInASuite(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..", "..")
	elsewhere := []string{"tests/conformance", "tools"} // modules of their own
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil || slices.ContainsFunc(elsewhere, func(dir string) bool { return covers(dir+"/...", folder) }) {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !isIn(folder, func(s suite) bool { return s.name != "exploration" }) {
			t.Errorf("no suite runs the tests of %s", folder)
		}
		if strings.Contains(string(text), "\nfunc TestExplore") && !isIn(folder, func(s suite) bool { return s.name == "exploration" }) {
			t.Errorf("the suite exploration leaves out %s", path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// isIn is true if a suite accepted by is runs the tests of a folder.
func isIn(folder string, is func(suite) bool) bool {
	return slices.ContainsFunc(allSuites(), func(s suite) bool {
		return is(s) && slices.ContainsFunc(s.packages, func(pattern string) bool { return covers(pattern, folder) })
	})
}

// covers is true if a pattern of the go command matches a folder.
func covers(pattern, folder string) bool {
	if tree, ok := strings.CutSuffix(pattern, "/..."); ok {
		return folder == tree || strings.HasPrefix(folder, tree+"/")
	}
	return folder == pattern
}

func TestQueueStartsWhatIsReady(t *testing.T) {
	q := newQueue([]suite{
		{name: "pods", programs: []binaries.Name{binaries.Etcd, binaries.Kubelet}},
		{name: "unit"},
		{name: "server", programs: []binaries.Name{binaries.Etcd}},
	})
	var order []int
	take := func() {
		t.Helper()
		i, found := q.next()
		if !found {
			t.Fatal("no suite is left")
		}
		order = append(order, i)
	}
	take()
	q.ready(binaries.Etcd)
	take()
	q.allReady()
	take()
	if diff := cmp.Diff([]int{1, 2, 0}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if i, found := q.next(); found {
		t.Errorf("suite %d is handed out twice", i)
	}
}

func TestSummary(t *testing.T) {
	results := []result{
		{suite: suite{name: "quick", budget: time.Minute}, passed: 7, skipped: 1, testing: 30 * time.Second},
		{suite: suite{name: "slow", budget: time.Minute}, passed: 3, testing: 90 * time.Second},
		{suite: suite{name: "unbuilt", budget: time.Minute}, err: errors.New("it does not compile")},
	}
	var out bytes.Buffer
	err := summarize(&out, results, []string{"the rest: make rest"})
	if err == nil || !strings.Contains(err.Error(), "unbuilt: it does not compile") {
		t.Errorf("the error is %v", err)
	}
	text := out.String()
	for _, want := range []string{"OVER BUDGET: the tests of slow took 90 s of 60 s", "not run:\n  the rest: make rest"} {
		if !strings.Contains(text, want) {
			t.Errorf("the summary lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "tests of quick") {
		t.Errorf("a suite within its budget is reported:\n%s", text)
	}
	if want := "\n10 passed, 1 failed, 1 skipped\n"; !strings.HasSuffix(text, want) {
		t.Errorf("the last line is not %q:\n%s", want, text)
	}
}

// TestSummaryTellsWhyATestFailed reads the long output of a failed subtest.
func TestSummaryTellsWhyATestFailed(t *testing.T) {
	var events strings.Builder
	event := func(action, test, output string) {
		line, err := json.Marshal(map[string]string{"Action": action, "Package": repository.Module + "/tests/e2e", "Test": test, "Output": output})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&events, "%s\n", line)
	}
	event("run", "TestA", "")
	event("run", "TestA/one", "")
	event("output", "TestA/one", "=== RUN   TestA/one\n")
	event("output", "TestA/one", "    a_test.go:7: ready pods are a1, not b1\n")
	for i := range 100 {
		event("output", "TestA/one", fmt.Sprintf("line %d\n", i))
	}
	event("output", "TestA/one", "--- FAIL: TestA/one (0.00s)\n")
	event("fail", "TestA/one", "")
	event("fail", "TestA", "")
	execution, err := testjson.ScanTestOutput(testjson.ScanConfig{Stdout: strings.NewReader(events.String())})
	if err != nil {
		t.Fatal(err)
	}
	lines := failures(result{suite: suite{name: "e2e"}, executions: []*testjson.Execution{execution}})
	if len(lines) != 1+maxLines || lines[0] != "\ntests/e2e TestA/one:" || lines[1] != "    a_test.go:7: ready pods are a1, not b1" {
		t.Errorf("it says\n%s", strings.Join(lines, "\n"))
	}
}

func TestWhatIsNotRunIsNamed(t *testing.T) {
	all := allSuites()
	chosen, err := choose(allSuites(), nil, false)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(unchosen(all, chosen, false), "\n")
	for _, want := range []string{"olm-node", "scorecard", "test-all", "bench"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not named:\n%s", want, text)
		}
	}
	if strings.Contains(text, "SUITES=unit") {
		t.Errorf("a suite that runs is named:\n%s", text)
	}
}

func TestEverythingRunsOnRequest(t *testing.T) {
	t.Setenv(sample.DayVariable, "7")
	t.Setenv(sample.AllVariable, "")
	chosen, err := choose(allSuites(), nil, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := setSample(true, time.Now()); err != nil {
		t.Fatal(err)
	}
	if left := unchosen(allSuites(), chosen, true); strings.Contains(strings.Join(left, "\n"), "SUITES=") || !sample.Has(1, 2) || sample.Day() != 7 {
		t.Errorf("not everything runs: %q, all %t, day %d", left, sample.All(), sample.Day())
	}
}

// A day has its part of the long tests, and the parts of in days are everything.
func TestEachDayHasAnotherPart(t *testing.T) {
	t.Setenv(sample.AllVariable, "")
	const in = 4
	var had []int
	for day := range in {
		t.Setenv(sample.DayVariable, "")
		if err := setSample(false, time.Unix(0, 0).AddDate(56, 0, day)); err != nil {
			t.Fatal(err)
		}
		for i := range in {
			if sample.Has(i, in) {
				had = append(had, i)
			}
		}
	}
	slices.Sort(had)
	if diff := cmp.Diff([]int{0, 1, 2, 3}, had); diff != "" {
		t.Errorf("what ran in %d days (-want +got):\n%s", in, diff)
	}
}

func TestBudgetsAreThoseOfTheMachine(t *testing.T) {
	suites := []suite{{name: "unit", budget: time.Hour}}
	fit(suites, referenceSpeed/2)
	if suites[0].budget != 30*time.Minute {
		t.Errorf("twice as fast a machine has %s", suites[0].budget)
	}
}

func TestLinesOfSuitesStayWhole(t *testing.T) {
	var out bytes.Buffer
	shared := &lines{to: &out}
	one, two := shared.prefixed("one"), shared.prefixed("two")
	for _, write := range []func() (int, error){
		func() (int, error) { return fmt.Fprint(one, "first half, ") },
		func() (int, error) { return fmt.Fprint(two, "whole\n") },
		func() (int, error) { return fmt.Fprint(one, "second half\nnext\n") },
	} {
		if _, err := write(); err != nil {
			t.Fatal(err)
		}
	}
	want := "two          whole\none          first half, second half\none          next\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

func TestSkippedTestsGiveTheirReason(t *testing.T) {
	lines := []string{"=== RUN   TestNode\n", "    node_test.go:12: skipped, no containerd\n", "--- SKIP: TestNode (0.00s)\n"}
	if got, want := reason(lines), "skipped, no containerd"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Each test runs on one of the days at least, and the daily ones exist and run on all.
func TestEachTestHasItsTurn(t *testing.T) {
	t.Chdir(".") // restores the working directory
	if err := repository.EnterRoot(); err != nil {
		t.Fatal(err)
	}
	t.Setenv(sample.AllVariable, "")
	for _, s := range allSuites() {
		all, err := testsOf(s.packages)
		if err != nil || s.turns == 0 {
			continue
		}
		ran := map[string]int{}
		for day := range s.turns {
			t.Setenv(sample.DayVariable, strconv.Itoa(day))
			left, err := leftToday(s)
			if err != nil || len(left) == 0 {
				t.Errorf("%s leaves %d tests out on day %d: %v", s.name, len(left), day, err)
			}
			for _, name := range all {
				if !slices.Contains(left, name) {
					ran[name]++
				}
			}
		}
		for _, name := range all {
			if want := slices.Contains(s.daily, name); ran[name] == 0 || want != (ran[name] == s.turns) {
				t.Errorf("%s ran on %d of %d days; daily: %t", name, ran[name], s.turns, want)
			}
		}
		for _, name := range s.daily {
			if !slices.Contains(all, name) {
				t.Errorf("%s of %s is not there", name, s.name)
			}
		}
	}
}

func TestAllOfASuiteRunsOnRequest(t *testing.T) {
	t.Setenv(sample.AllVariable, "true")
	if left, err := leftToday(suite{packages: []string{"."}, turns: 2}); err != nil || len(left) > 0 || len(skipping(left)) > 0 {
		t.Errorf("left to other days: %q, %v", left, err)
	}
}
