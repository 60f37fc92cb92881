// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Command bench starts pods and updates them in place: through an operator, and in turn
// with a bare client.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kruise-operator/kruise-operator/tests/framework/repository"
)

type options struct {
	kind        string
	pods, sets  int
	pairs       int
	writers     []int
	images      []string
	against     []string
	operatorArg []string
	installed   bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctrl.SetLogger(logr.Discard())
	var o options
	cmd := &cobra.Command{
		Use: "bench", Short: "Compare an operator with a bare client that only writes", Args: cobra.NoArgs,
		SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), o) },
	}
	cmd.AddCommand(distributionCommand())
	flags := cmd.Flags()
	flags.StringVar(&o.kind, "kind", "CloneSet", "CloneSet or StatefulSet")
	flags.IntVar(&o.pods, "pods", 2000, "how many pods there are")
	flags.IntVar(&o.sets, "sets", 1, "over how many sets the pods are spread")
	flags.IntVar(&o.pairs, "pairs", 5, "how often operator and bare client are measured in turn")
	flags.IntSliceVar(&o.writers, "writers", []int{16, 32, 64}, "how many requests the bare client has in flight; each number is tried once, and the fastest taken")
	flags.StringSliceVar(&o.images, "images", []string{"registry.k8s.io/pause:3.9", "registry.k8s.io/pause:3.10"}, "the image that pods start with, and the one they are moved to")
	flags.StringSliceVar(&o.against, "against", nil, "Git revisions whose operators are measured in turn as well")
	flags.StringArrayVar(&o.operatorArg, "operator-arg", nil, "an argument for the operator, such as --pprof-bind-address=127.0.0.1:6060; may be repeated")
	flags.BoolVar(&o.installed, "installed", false, "measure the operator that runs in the cluster of $KUBECONFIG, in a namespace of its own that is deleted afterwards")
	cmd.AddCommand(spreadCommand())
	cmd.AddCommand(evictionsCommand())
	cmd.AddCommand(rolloutsCommand())
	if err := cmd.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func (o options) check() error {
	switch {
	case !knows(o.kind):
		return fmt.Errorf("--kind: %q is neither CloneSet nor StatefulSet", o.kind)
	case o.sets < 1 || o.pods < o.sets || o.pods%o.sets != 0:
		return fmt.Errorf("--pods: %d cannot be spread evenly over %d sets", o.pods, o.sets)
	case o.pairs < 1 || len(o.writers) == 0 || len(o.images) != 2:
		return fmt.Errorf("at least one of --pairs and --writers is needed, and two --images")
	case o.installed && (len(o.against) > 0 || len(o.operatorArg) > 0):
		return fmt.Errorf("--against and --operator-arg are for the operator of this tree, not for one that is --installed")
	}
	return nil
}

func run(ctx context.Context, o options) (err error) {
	if err := o.check(); err != nil {
		return err
	}
	if err := repository.EnterRoot(); err != nil {
		return err
	}
	b, err := open(ctx, o)
	if b != nil {
		defer func() { err = errors.Join(err, b.close()) }()
	}
	if err != nil {
		return err
	}
	if err := b.rehearse(ctx); err != nil {
		return err
	}
	if err := b.sweep(ctx); err != nil {
		return err
	}
	err = b.turns(ctx)
	b.report(os.Stdout)
	return err
}

// turns measures everybody once a round. Every other round goes backwards, so a machine
// slowing down favors nobody.
func (b *bench) turns(ctx context.Context) error {
	all := b.contenders
	for round := range b.pairs {
		for i := range all {
			if round%2 == 1 {
				i = len(all) - 1 - i
			}
			if err := b.turn(ctx, all[i], fmt.Sprintf("round %d", round+1), b.pods); err != nil {
				return fmt.Errorf("%s: %w", all[i].name, err)
			}
		}
	}
	return nil
}

// rehearse runs each operator with few pods: a silent one is noticed at once.
func (b *bench) rehearse(ctx context.Context) error {
	for _, c := range b.contenders[1:] {
		if err := b.turn(ctx, &contender{actor: c.actor, name: c.name}, rehearsal, b.sets); err != nil {
			return fmt.Errorf("%s, %s: %w", c.name, rehearsal, err)
		}
	}
	return nil
}

// sweep finds how many writers are best for the bare client on this machine.
func (b *bench) sweep(ctx context.Context) error {
	if len(b.writers) == 1 {
		b.bare.writers = [2]int{b.writers[0], b.writers[0]}
		return nil
	}
	var best [2]float64
	for _, writers := range b.writers {
		trial := &contender{name: fmt.Sprintf("bare client, %d writers", writers), actor: &bare{bench: b, writers: [2]int{writers, writers}}}
		if err := b.turn(ctx, trial, "sweep", b.pods); err != nil {
			return fmt.Errorf("%s: %w", trial.name, err)
		}
		for i, step := range trial.samples {
			if seconds := step[0].seconds; best[i] == 0 || seconds < best[i] {
				best[i], b.bare.writers[i] = seconds, writers
			}
		}
	}
	return nil
}
