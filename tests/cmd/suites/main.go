// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Command suites runs the test suites of this repository, two side by side, goes on when one fails, and prints what ran, how long it
// took, what was skipped and why, and what was not run. Without arguments it runs all suites but those that must be asked for.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/kruise-operator/kruise-operator/tests/framework/repository"
)

// options are those of the command line.
type options struct {
	// format of gotestsum in which progress is printed.
	format string
	// lanes is how many suites run at the same time.
	lanes int
	// events is a folder for the events of each suite, in the form of `go test -json`. Empty: they are not kept.
	events string
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
			chosen, err := choose(allSuites(), names)
			if err != nil {
				return err
			}
			results := runAll(cmd.Context(), chosen, o)
			return summarize(os.Stdout, results, unchosen(allSuites(), chosen))
		},
	}
	cmd.Flags().StringVar(&o.format, "format", "pkgname-and-test-fails", "how progress is printed: a format of gotestsum")
	cmd.Flags().IntVar(&o.lanes, "lanes", 2, "how many suites run at the same time")
	cmd.Flags().StringVar(&o.events, "events", "", "folder to write the events of each suite to, for tools such as `gotestsum tool slowest`")
	if err := cmd.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "suites:", err)
		os.Exit(1)
	}
}

// choose returns the named suites, or without names those that are not on demand.
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

// unchosen says what is not run: the other suites, and what is no suite.
func unchosen(all, chosen []suite) []string {
	var left []string
	for _, s := range all {
		if !slices.ContainsFunc(chosen, func(c suite) bool { return c.name == s.name }) {
			left = append(left, s.name+", "+s.about+": make test SUITES="+s.name)
		}
	}
	return append(left, notSuites()...)
}
