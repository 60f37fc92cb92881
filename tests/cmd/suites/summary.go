// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"gotest.tools/gotestsum/testjson"

	"github.com/kruise-operator/kruise-operator/tests/framework/repository"
)

// summarize prints the suites' results, and fails unless all passed. The last line is
// always "N passed, N failed, N skipped".
func summarize(out io.Writer, results []result, notRun []string) error {
	passed, failed, skipped := 0, 0, 0
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.AppendHeader(table.Row{"suite", "passed", "failed", "skipped", "seconds", "testing", "budget", "CPU", ""})
	var broken []error
	for _, r := range results {
		for _, execution := range r.executions {
			if len(execution.Failed())+len(execution.Skipped())+len(execution.Errors()) > 0 {
				testjson.PrintSummary(out, execution, testjson.SummarizeFailed|testjson.SummarizeErrors|testjson.SummarizeSkipped)
			}
		}
		note := ""
		if r.overBudget() {
			note = "OVER BUDGET"
		}
		if r.err != nil {
			note = r.err.Error()
			broken = append(broken, fmt.Errorf("%s: %w", r.suite.name, r.err))
			if r.failed == 0 {
				r.failed = 1 // a suite that did not build or ran nothing has failed
			}
		}
		passed, failed, skipped = passed+r.passed, failed+r.failed, skipped+r.skipped
		t.AppendRow(table.Row{
			r.suite.name, r.passed, r.failed, r.skipped,
			seconds(r.elapsed), seconds(r.testing), seconds(r.suite.budget), seconds(r.cpu), note,
		})
	}
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format+"\n", args...) }
	say("\n%s", t.Render())
	say("seconds: on the clock, compiling included. testing: in tests, over all packages; budget is its limit. CPU: of compilers, tests and clusters.")
	for _, r := range results {
		for _, execution := range r.executions {
			for _, test := range execution.Skipped() {
				say("skipped %s: %s", test.Test, reason(execution.OutputLines(test)))
			}
		}
	}
	for _, r := range results {
		if len(r.left) > 0 {
			say("left to the other days of %d, or make test-all: %s: %s", r.suite.turns, r.suite.name, strings.Join(r.left, " "))
		}
	}
	for _, r := range results {
		if r.overBudget() {
			say("\nOVER BUDGET: the tests of %s took %s s of %s s. Its slowest packages:", r.suite.name, seconds(r.testing), seconds(r.suite.budget))
			say("%s", strings.Join(slowest(r, 3), "\n"))
		}
	}
	say("\nnot run:\n  %s", strings.Join(notRun, "\n  "))
	for _, r := range results {
		for _, line := range failures(r) {
			say("%s", line)
		}
	}
	say("\n%d passed, %d failed, %d skipped", passed, failed, skipped)
	return errors.Join(broken...)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.0f", d.Seconds()) }

// overBudget: the tests took too long. It fails nothing: a slow machine is no fault of the
// change.
func (r result) overBudget() bool { return r.testing > r.suite.budget }

// Text about failed tests at the end of a run: reading the end is enough.
const (
	maxFailures = 5
	maxLines    = 60
	longestLine = 300
)

// failures are the first lines of failed tests. Tests with subtests are left out: these
// tell.
func failures(r result) []string {
	var lines []string
	told := 0
	for _, execution := range r.executions {
		for _, test := range execution.Failed() {
			own := slices.DeleteFunc(execution.OutputLines(test), isFraming)
			if len(own) == 0 {
				continue
			}
			if told++; told > maxFailures {
				return append(lines, "\nFurther failures of "+r.suite.name+" are above.")
			}
			lines = append(lines, fmt.Sprintf("\n%s %s:", strings.TrimPrefix(test.Package, repository.Module+"/"), test.Test))
			for _, line := range own[:min(maxLines, len(own))] {
				line = strings.TrimRight(line, "\n")
				lines = append(lines, line[:min(longestLine, len(line))])
			}
		}
	}
	return lines
}

// slowest are the slowest packages and their times.
func slowest(r result, n int) []string {
	type pkg struct {
		name    string
		elapsed time.Duration
	}
	var all []pkg
	for _, execution := range r.executions {
		for _, name := range execution.Packages() {
			all = append(all, pkg{strings.TrimPrefix(name, repository.Module+"/"), execution.Package(name).Elapsed()})
		}
	}
	slices.SortFunc(all, func(a, b pkg) int { return cmp.Compare(b.elapsed, a.elapsed) })
	var lines []string
	for _, p := range all[:min(n, len(all))] {
		lines = append(lines, fmt.Sprintf("  %s s  %s", seconds(p.elapsed), p.name))
	}
	return lines
}

// reason finds the sentence a test was skipped with among the lines it printed.
func reason(lines []string) string {
	for _, line := range lines {
		if !isFraming(line) {
			return message(line)
		}
	}
	return "no reason given"
}

// isFraming: the line is empty, or go test's own.
func isFraming(line string) bool {
	line = strings.TrimSpace(line)
	return line == "" || strings.HasPrefix(line, "===") || strings.HasPrefix(line, "---")
}

// message is a line of output without its place in the code.
func message(line string) string {
	if _, after, found := strings.Cut(line, ".go:"); found {
		if _, text, ok := strings.Cut(after, ": "); ok {
			line = text
		}
	}
	return strings.TrimSpace(line)
}
