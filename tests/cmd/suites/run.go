// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"gotest.tools/gotestsum/testjson"

	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/binaries"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/realnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/repository"
)

// result is one suite's.
type result struct {
	suite                   suite
	passed, failed, skipped int
	// elapsed is the time on the clock with compiling; testing is `go test`'s own, without
	// it.
	elapsed, testing time.Duration
	// cpu is the use of compilers, tests and their clusters.
	cpu time.Duration
	// executions has one for each module with packages of the suite.
	executions []*testjson.Execution
	// left are the tests that another day runs.
	left []string
	err  error
}

// runAll runs suites in lanes, and builds the programs of their clusters beside them. The results are in the order of the suites.
func runAll(ctx context.Context, suites []suite, o options) []result {
	out := &lines{to: os.Stdout}
	queue := newQueue(suites)
	ctxBuild, stopBuilding := context.WithCancel(ctx)
	var building sync.WaitGroup
	building.Go(func() { buildPrograms(ctxBuild, programsOf(suites), queue, out.prefixed("programs")) })

	results := make([]result, len(suites))
	var lanes sync.WaitGroup
	for range max(min(o.lanes, len(suites)), 1) {
		lanes.Go(func() {
			for {
				i, found := queue.next()
				if !found {
					return
				}
				if ctx.Err() != nil {
					results[i] = result{suite: suites[i], err: context.Cause(ctx)} // not run: not passed
					continue
				}
				_, _ = fmt.Fprintf(out, "\n== %s: %s\n", suites[i].name, suites[i].about)
				results[i] = run(ctx, suites[i], o, out.prefixed(suites[i].name))
				_, _ = fmt.Fprintf(out, "== %s: %d passed, %d failed, %d skipped after %.0f s\n\n",
					suites[i].name, results[i].passed, results[i].failed, results[i].skipped, results[i].elapsed.Seconds())
			}
		})
	}
	lanes.Wait()
	stopBuilding()
	building.Wait()
	return results
}

// buildPrograms builds missing programs in sequence with low priority: suites without need
// of them run beside it. Failed builds count as ready, too: the suites try again, and fail
// or are skipped with the reason.
func buildPrograms(ctx context.Context, names []binaries.Name, queue *queue, progress io.Writer) {
	var missing []binaries.Name
	for _, name := range names {
		if cached, err := binaries.Cached(ctx, name); err != nil || cached {
			queue.ready(name)
		} else {
			missing = append(missing, name)
		}
	}
	noNodes := realnode.Check()
	for _, name := range missing {
		if name == binaries.Kubelet && noNodes != nil {
			_, _ = fmt.Fprintf(progress, "%s is not built: %v\n", name, noNodes)
		} else if _, err := binaries.Ensure(ctx, binaries.Options{Progress: progress, Background: true}, name); err != nil {
			_, _ = fmt.Fprintf(progress, "%s: %v\n", name, err)
		}
		queue.ready(name)
	}
	queue.allReady()
}

// run runs a suite, module by module.
func run(ctx context.Context, s suite, o options, out io.Writer) result {
	started := time.Now()
	byModule := map[string][]string{}
	for _, folder := range s.packages {
		module, pkg := repository.SplitPackage(folder)
		byModule[module] = append(byModule[module], pkg)
	}
	left, err := leftToday(s)
	r := result{suite: s, left: left, err: err}
	s.args = slices.Concat(s.args, skipping(left))
	for _, module := range slices.Sorted(maps.Keys(byModule)) {
		execution, cpu, err := runModule(ctx, s, module, byModule[module], o, out)
		r.err = errors.Join(r.err, err)
		r.cpu += cpu
		if execution == nil {
			continue
		}
		r.executions = append(r.executions, execution)
		failed, skipped := len(execution.Failed()), len(execution.Skipped())
		r.failed, r.skipped = r.failed+failed, r.skipped+skipped
		r.passed += max(execution.Total()-failed-skipped, 0) // a package that does not build has failed without a test
		for _, pkg := range execution.Packages() {
			r.testing += execution.Package(pkg).Elapsed()
		}
	}
	r.elapsed = time.Since(started)
	if r.passed+r.failed+r.skipped == 0 && r.err == nil {
		r.err = errors.New("no test ran")
	}
	return r
}

// runModule runs `go test` for a suite's packages in one module, and returns the CPU time.
func runModule(
	ctx context.Context, s suite, module string, packages []string, o options, out io.Writer,
) (*testjson.Execution, time.Duration, error) {
	// The linter vets.
	args := append([]string{"-C", module, "test", "-json", "-vet=off", "-timeout=" + s.timeout.String()}, s.args...)
	cmd := exec.CommandContext(ctx, "go", append(args, packages...)...)
	// A suite must be able to stop its clusters: interrupt it, and kill it only if it does not end.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 30 * time.Second
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, 0, err
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, 0, err
	}
	events, err := eventsFile(o.events, s.name, module)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = events.Close() }()
	if err := cmd.Start(); err != nil {
		return nil, 0, err
	}
	execution, scanErr := testjson.ScanTestOutput(testjson.ScanConfig{
		Stdout: io.TeeReader(stdout, events), Stderr: stderr,
		Handler:                  printer{testjson.NewEventFormatter(out, o.format, testjson.FormatOptions{}), out},
		IgnoreNonJSONOutputLines: true,
	})
	err = errors.Join(scanErr, cmd.Wait())
	return execution, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), err
}

// eventsFile is where the events of a suite in a module are written to.
func eventsFile(folder, name, module string) (*os.File, error) {
	if folder == "" {
		return os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	if module != "." {
		name += "-" + module
	}
	return os.Create(filepath.Join(folder, name+".json"))
}

// queue hands out suites in order, each when its programs are ready.
type queue struct {
	mutex   sync.Mutex
	changed *sync.Cond
	waiting []int
	// missing are the programs a suite still waits for.
	missing [][]binaries.Name
}

func newQueue(suites []suite) *queue {
	q := &queue{}
	q.changed = sync.NewCond(&q.mutex)
	for i, s := range suites {
		q.waiting = append(q.waiting, i)
		q.missing = append(q.missing, slices.Clone(s.programs))
	}
	return q
}

// next returns the index of the first suite ready to start. It waits for one, and returns
// false when none is left.
func (q *queue) next() (int, bool) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	for {
		if len(q.waiting) == 0 {
			return 0, false
		}
		if at := slices.IndexFunc(q.waiting, func(i int) bool { return len(q.missing[i]) == 0 }); at >= 0 {
			i := q.waiting[at]
			q.waiting = slices.Delete(q.waiting, at, at+1)
			return i, true
		}
		q.changed.Wait()
	}
}

// ready: a program is there.
func (q *queue) ready(name binaries.Name) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	for i := range q.missing {
		q.missing[i] = slices.DeleteFunc(q.missing[i], func(n binaries.Name) bool { return n == name })
	}
	q.changed.Broadcast()
}

// allReady ends all waiting for programs.
func (q *queue) allReady() {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	for i := range q.missing {
		q.missing[i] = nil
	}
	q.changed.Broadcast()
}

// printer shows events as they come, and the tests' figures: lines beginning with
// "measured:" or "explored".
type printer struct {
	testjson.EventFormatter
	out io.Writer
}

func (p printer) Event(event testjson.TestEvent, execution *testjson.Execution) error {
	if event.Action == testjson.ActionOutput {
		if text := message(event.Output); strings.HasPrefix(text, "measured:") || strings.HasPrefix(text, "explored ") {
			_, _ = fmt.Fprintf(p.out, "   %s: %s\n", event.Test, text)
		}
	}
	return p.Format(event, execution)
}

func (p printer) Err(text string) error {
	_, err := fmt.Fprintln(p.out, text)
	return err
}

// lines keeps apart the outputs of parallel suites.
type lines struct {
	mutex sync.Mutex
	to    io.Writer
}

func (l *lines) Write(text []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.to.Write(text)
}

// prefixed returns a writer of whole lines, each behind the name.
func (l *lines) prefixed(name string) io.Writer { return &prefixed{to: l, name: name} }

type prefixed struct {
	to   io.Writer
	name string

	mutex sync.Mutex
	rest  []byte
}

func (p *prefixed) Write(text []byte) (int, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.rest = append(p.rest, text...)
	for {
		line, rest, found := bytes.Cut(p.rest, []byte("\n"))
		if !found {
			return len(text), nil
		}
		if _, err := fmt.Fprintf(p.to, "%-12s %s\n", p.name, line); err != nil {
			return 0, err
		}
		p.rest = slices.Clone(rest)
	}
}
