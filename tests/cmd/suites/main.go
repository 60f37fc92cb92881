// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Command suites runs the test suites of this repository one after the other, goes on when one fails, and prints what ran,
// what was skipped and why. Without arguments it runs all of them but those that must be asked for.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"gotest.tools/gotestsum/testjson"
)

// suite is one run of `go test`.
type suite struct {
	name     string
	about    string
	packages []string
	// args go to `go test` before the packages.
	args []string
	// timeout is for the whole suite; `go test` ends it with a stack dump.
	timeout time.Duration
	// onDemand suites run only when they are named.
	onDemand bool
}

func allSuites() []suite {
	// Suites that start clusters run one package at a time: two control planes at once would measure the machine, not us.
	serial := []string{"-p=1", "-count=1"}
	return []suite{
		{
			name: "unit", about: "tables and stories, no cluster",
			packages: []string{"./api/...", "./config/...", "./controllers/...", "./internal/...", "./tests/cmd/...", "."},
			args:     []string{"-skip=^TestExplore"}, timeout: 10 * time.Minute,
		},
		{
			name: "exploration", about: "every reachable state of small sets",
			packages: []string{"./controllers/..."},
			args:     []string{"-count=1", "-run=^TestExplore", "-v"}, timeout: 15 * time.Minute,
		},
		{
			name: "framework", about: "the local cluster and the simulated nodes themselves",
			packages: []string{"./tests/framework/..."},
			args:     serial, timeout: 20 * time.Minute,
		},
		{
			name: "integration", about: "wiring, against a real API server",
			packages: []string{"./tests/integration/..."},
			// Its packages mostly wait for deadlines and faults to pass, so two share the machine.
			args: []string{"-p=2", "-count=1"}, timeout: 20 * time.Minute,
		},
		{
			name: "e2e", about: "flows, on a real control plane with simulated nodes",
			packages: []string{"./tests/e2e/..."},
			// Flows mostly wait, so more of them run at once than there are cores.
			args: append(serial[:len(serial):len(serial)], "-parallel=6"), timeout: 30 * time.Minute,
		},
		{
			name: "olm", about: "install, upgrade and removal through the Operator Lifecycle Manager, without nodes",
			packages: []string{"./tests/olm/..."},
			args:     serial, timeout: 15 * time.Minute,
		},
		{
			name: "node", about: "what only a kubelet and a container runtime show",
			packages: []string{"./tests/node", "./tests/node/incluster"},
			args:     serial, timeout: 20 * time.Minute,
		},
		{
			name: "olm-node", about: "the operator's pods under the Operator Lifecycle Manager, on a real node",
			packages: []string{"./tests/node/olm"},
			args:     append(serial[:len(serial):len(serial)], "-v"), timeout: 20 * time.Minute, onDemand: true,
		},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var format string
	cmd := &cobra.Command{
		Use:           "suites [name...]",
		Short:         "Run test suites and summarize them",
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, names []string) error {
			chosen, err := choose(allSuites(), names)
			if err != nil {
				return err
			}
			return runAll(cmd.Context(), chosen, format)
		},
	}
	cmd.Flags().StringVar(&format, "format", "pkgname-and-test-fails", "how progress is printed: a format of gotestsum")
	if err := cmd.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "suites:", err)
		os.Exit(1)
	}
}

func choose(all []suite, names []string) ([]suite, error) {
	if len(names) == 0 {
		return slices.DeleteFunc(all, func(s suite) bool { return s.onDemand }), nil
	}
	var chosen []suite
	for _, name := range names {
		i := slices.IndexFunc(all, func(s suite) bool { return s.name == name })
		if i < 0 {
			known := make([]string, 0, len(all))
			for _, s := range all {
				known = append(known, s.name)
			}
			return nil, fmt.Errorf("unknown suite %q: it must be one of %s", name, strings.Join(known, ", "))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// result is what one suite came to.
type result struct {
	suite                   suite
	passed, failed, skipped int
	elapsed                 time.Duration
	execution               *testjson.Execution
	err                     error
}

func runAll(ctx context.Context, suites []suite, format string) error {
	var results []result
	for _, s := range suites {
		if ctx.Err() != nil {
			results = append(results, result{suite: s, err: context.Cause(ctx)}) // not run: not passed
			continue
		}
		fmt.Printf("\n== %s: %s\n", s.name, s.about)
		results = append(results, run(ctx, s, format))
	}
	return summarize(results)
}

func run(ctx context.Context, s suite, format string) result {
	started := time.Now()
	args := append([]string{"test", "-json", "-timeout=" + s.timeout.String()}, s.args...)
	cmd := exec.CommandContext(ctx, "go", append(args, s.packages...)...)
	// A suite must be able to stop its clusters: interrupt it, and kill it only if it does not end.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 30 * time.Second
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return result{suite: s, err: err}
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return result{suite: s, err: err}
	}
	if err := cmd.Start(); err != nil {
		return result{suite: s, err: err}
	}
	execution, scanErr := testjson.ScanTestOutput(testjson.ScanConfig{
		Stdout: stdout, Stderr: stderr,
		Handler:                  printer{testjson.NewEventFormatter(os.Stdout, format, testjson.FormatOptions{})},
		IgnoreNonJSONOutputLines: true,
	})
	err = errors.Join(scanErr, cmd.Wait())
	r := result{suite: s, elapsed: time.Since(started), execution: execution, err: err}
	if execution != nil {
		r.failed, r.skipped = len(execution.Failed()), len(execution.Skipped())
		r.passed = max(execution.Total()-r.failed-r.skipped, 0) // a package that does not build has failed without a test
	}
	if r.passed+r.failed+r.skipped == 0 && r.err == nil {
		r.err = errors.New("no test ran")
	}
	return r
}

// printer shows events as they come, and what tests measured or counted: lines that begin with "measured:" or "explored".
type printer struct{ testjson.EventFormatter }

func (p printer) Event(event testjson.TestEvent, execution *testjson.Execution) error {
	if event.Action == testjson.ActionOutput {
		if text := message(event.Output); strings.HasPrefix(text, "measured:") || strings.HasPrefix(text, "explored ") {
			fmt.Printf("   %s: %s\n", event.Test, text)
		}
	}
	return p.Format(event, execution)
}

func (printer) Err(text string) error {
	fmt.Fprintln(os.Stderr, text)
	return nil
}

func summarize(results []result) error {
	passed, failed, skipped := 0, 0, 0
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.AppendHeader(table.Row{"suite", "passed", "failed", "skipped", "seconds", ""})
	var broken []error
	for _, r := range results {
		note := ""
		if r.execution != nil && r.failed+r.skipped > 0 {
			testjson.PrintSummary(os.Stdout, r.execution, testjson.SummarizeFailed|testjson.SummarizeErrors|testjson.SummarizeSkipped)
		}
		if r.err != nil {
			note = r.err.Error()
			broken = append(broken, fmt.Errorf("%s: %w", r.suite.name, r.err))
			if r.failed == 0 {
				r.failed = 1 // a suite that did not build or ran nothing has failed
			}
		}
		passed, failed, skipped = passed+r.passed, failed+r.failed, skipped+r.skipped
		t.AppendRow(table.Row{r.suite.name, r.passed, r.failed, r.skipped, fmt.Sprintf("%.0f", r.elapsed.Seconds()), note})
	}
	fmt.Printf("\n%s\n", t.Render())
	for _, r := range results {
		if r.execution == nil {
			continue
		}
		for _, test := range r.execution.Skipped() {
			fmt.Printf("skipped %s: %s\n", test.Test, reason(r.execution.OutputLines(test)))
		}
	}
	fmt.Printf("\n%d passed, %d failed, %d skipped\n", passed, failed, skipped)
	return errors.Join(broken...)
}

// reason finds the sentence a test was skipped with among the lines it printed.
func reason(lines []string) string {
	for _, line := range lines {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "===") || strings.HasPrefix(line, "---") {
			continue
		}
		return message(line)
	}
	return "no reason given"
}

// message is a line of output without the place in the code that logged it.
func message(line string) string {
	if _, after, found := strings.Cut(line, ".go:"); found {
		if _, text, ok := strings.Cut(after, ": "); ok {
			line = text
		}
	}
	return strings.TrimSpace(line)
}
