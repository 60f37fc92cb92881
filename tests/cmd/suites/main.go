// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Command suites runs this repository's test suites, two side by side, continues after
// failures, and prints results, times, reasons for skips, and suites not run. Without
// arguments it runs all suites but those on demand, and of the long ones a part by the day.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/kruise-operator/kruise-operator/internal/testutil/sample"
	"github.com/kruise-operator/kruise-operator/tests/framework/repository"
	"github.com/kruise-operator/kruise-operator/tests/framework/speed"
)

// options are the command line's.
type options struct {
	// format is gotestsum's, for progress.
	format string
	// lanes is how many suites run at the same time.
	lanes int
	// events is a folder for the events of each suite, in the form of `go test -json`. Empty: they are not kept.
	events string
	// all runs everything: all suites, and all of the long ones.
	all bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var o options
	cmd := &cobra.Command{
		Use:           "suites [name...]",
		Short:         "Run test suites and summarize them",
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, names []string) error {
			if err := repository.EnterRoot(); err != nil {
				return err
			}
			chosen, err := choose(allSuites(), names, o.all)
			if err != nil {
				return err
			}
			if err := setSample(o.all, time.Now()); err != nil {
				return err
			}
			codec, err := speed.Measure()
			if err != nil {
				return err
			}
			fmt.Printf("%s=%s repeats today's part of long tests. Encoding and decoding a pod takes %s here; budgets are for %s.\n",
				sample.DayVariable, os.Getenv(sample.DayVariable), codec, referenceSpeed)
			fit(chosen, codec)
			results := runAll(cmd.Context(), chosen, o)
			return summarize(os.Stdout, results, unchosen(allSuites(), chosen, o.all))
		},
	}
	cmd.Flags().StringVar(&o.format, "format", "pkgname-and-test-fails", "how progress is printed: a format of gotestsum")
	cmd.Flags().IntVar(&o.lanes, "lanes", 2, "how many suites run at the same time")
	cmd.Flags().BoolVar(&o.all, "all", false, "run everything: suites that must be asked for, and all of the long tests")
	cmd.Flags().StringVar(&o.events, "events", "", "folder to write the events of each suite to, for tools such as `gotestsum tool slowest`")
	if err := cmd.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "suites:", err)
		os.Exit(1)
	}
}

// setSample chooses the tests' part of the long suites.
func setSample(all bool, now time.Time) error {
	if os.Getenv(sample.DayVariable) == "" {
		day := now.Unix() / int64(24*time.Hour/time.Second)
		if err := os.Setenv(sample.DayVariable, strconv.FormatInt(day, 10)); err != nil {
			return err
		}
	}
	if !all {
		return nil
	}
	return os.Setenv(sample.AllVariable, "true")
}

// choose returns the named suites, or by default those not on demand.
func choose(all []suite, names []string, everything bool) ([]suite, error) {
	if everything {
		for i := range all {
			all[i].onDemand, all[i].timeout, all[i].budget = false, longest, longest
		}
	}
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

// unchosen names everything not run: other suites, and tests outside of suites.
func unchosen(all, chosen []suite, everything bool) []string {
	var left []string
	for _, s := range all {
		if !slices.ContainsFunc(chosen, func(c suite) bool { return c.name == s.name }) {
			left = append(left, s.name+", "+s.about+": make test SUITES="+s.name)
		}
	}
	return append(left, notSuites(everything)...)
}
