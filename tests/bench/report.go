// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// sample is one step's figures.
type sample struct {
	seconds     float64
	server, cpu float64 // seconds of processor time: of the API server, of the operator
	writes      float64 // of pods, by whomever, a pod
	peak        float64 // MiB
}

type server struct{ cpu, writes float64 }

var podWrites = regexp.MustCompile(`^apiserver_request_total\{.*resource="pods".*verb="(?:POST|PUT|PATCH|DELETE|APPLY)".*\} (\S+)$`)

// server asks the API server for its use of resources; unknown if not allowed.
func (b *bench) server(ctx context.Context) (server, error) {
	text, err := b.core.RESTClient().Get().AbsPath("/metrics").SetHeader("Accept", "*/*").DoRaw(ctx)
	if apierrors.IsForbidden(err) {
		return server{math.NaN(), math.NaN()}, nil
	}
	if err != nil {
		return server{}, err
	}
	var s server
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, len(text)+1)
	for lines.Scan() {
		value, is := strings.CutPrefix(lines.Text(), "process_cpu_seconds_total ")
		if is {
			if s.cpu, err = strconv.ParseFloat(value, 64); err != nil {
				return s, err
			}
		}
		if match := podWrites.FindStringSubmatch(lines.Text()); match != nil {
			n, err := strconv.ParseFloat(match[1], 64)
			if err != nil {
				return s, err
			}
			s.writes += n
		}
	}
	return s, lines.Err()
}

// report writes a table for a page: medians, with the lowest and the highest in parentheses.
func (b *bench) report(w io.Writer) {
	fmt.Fprintf(w, "%d pods of a %s\n%s, Kubernetes %s, %d processors (%s), commit %s: `%s`\n\n", b.pods, b.kind, time.Now().UTC().Format(time.DateOnly), b.version,
		runtime.NumCPU(), processor(), commit(), strings.Join(append([]string{"bench"}, os.Args[1:]...), " "))
	fmt.Fprintln(w, "| | Seconds | Speed, by the bare client's | CPU of the API server | CPU of the operator | by the API server's | Its peak memory | Writes per pod |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|---|---|")
	bare := b.contenders[0]
	for step, name := range steps {
		for i, c := range b.contenders {
			who := c.name
			if i == 0 {
				who += fmt.Sprintf(", %d writers", b.bare.writers[step])
			}
			s := c.samples[step]
			fmt.Fprintf(w, "| %s: %s | %s | %s | %s | %s | %s | %s | %s |\n", name, who,
				cell("%.1f", "", s, sample.elapsed), cell("%.0f", " %", paired(bare.samples[step], s), sample.elapsed),
				cell("%.1f", " s", s, func(s sample) float64 { return s.server }), cell("%.2f", " s", s, func(s sample) float64 { return s.cpu }),
				cell("%.1f", " %", s, func(s sample) float64 { return 100 * s.cpu / s.server }),
				cell("%.0f", " MiB", s, func(s sample) float64 { return s.peak }), cell("%.2f", "", s, func(s sample) float64 { return s.writes }))
		}
	}
}

func (s sample) elapsed() float64 { return s.seconds }

// paired has the speed in percent of the bare client's of the same round in place of the seconds.
func paired(bare, all []sample) []sample {
	var speeds []sample
	for i := range min(len(bare), len(all)) {
		speeds = append(speeds, sample{seconds: 100 * bare[i].seconds / all[i].seconds})
	}
	return speeds
}

// cell is the median with the range. Unknown values are omitted.
func cell(format, unit string, all []sample, of func(sample) float64) string {
	var values []float64
	for _, s := range all {
		if v := of(s); !math.IsNaN(v) {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return ""
	}
	slices.Sort(values)
	middle := (values[(len(values)-1)/2] + values[len(values)/2]) / 2
	return fmt.Sprintf(format+"%s ("+format+" to "+format+")", middle, unit, values[0], values[len(values)-1])
}

// processor is the name of this machine's, where Linux tells.
func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	if match := regexp.MustCompile(`(?m)^model name\s*: (.*)$`).FindSubmatch(text); match != nil {
		return string(match[1])
	}
	return runtime.GOARCH
}

func commit() string {
	text, err := exec.Command("git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(text))
}
