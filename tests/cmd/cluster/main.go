// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Command cluster starts the test suites' Kubernetes control plane for work by hand, or only builds its programs.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/binaries"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/realnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
)

// watchInterval is how often a running cluster's components are checked.
const watchInterval = time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		stop()
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "cluster",
		Short:         "Run a real Kubernetes control plane on this machine",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newUp(), newBuild(), newCheckNodes())
	return root
}

func newUp() *cobra.Command {
	var options cluster.Options
	var gates map[string]string
	var audit bool
	var nodes int
	command := &cobra.Command{
		Use:   "up",
		Short: "Start a control plane with nodes and keep it until Ctrl-C",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			var err error
			if options.FeatureGates, err = parseGates(gates); err != nil {
				return err
			}
			if audit {
				options.Audit = &cluster.Audit{}
			}
			options.Progress = command.ErrOrStderr()
			return up(command, options, nodes)
		},
	}
	flags := command.Flags()
	addVersionFlag(command, &options.KubernetesVersion)
	flags.IntVar(&nodes, "nodes", 3, "number of simulated nodes; 0 is a cluster without nodes")
	flags.IntVar(&options.RealNodes, "real-nodes", 0,
		"number of real nodes, each with a kubelet and containerd; see check-nodes for what they need")
	flags.StringToStringVar(&gates, "feature-gates", nil, "feature gates of every component, such as Name=true,Other=false")
	flags.BoolVar(&audit, "audit", false, "write an audit log with one event for each request")
	flags.StringVar(&options.LogDir, "log-dir", "", "folder for the components' logs, kept afterwards")
	return command
}

// up runs a cluster until the context ends or a component does.
func up(command *cobra.Command, options cluster.Options, nodes int) (err error) {
	ctx := command.Context()
	start := time.Now()
	c, err := cluster.Start(ctx, options)
	if err != nil {
		return err
	}
	defer func() {
		if stopErr := c.Stop(); err == nil {
			err = stopErr
		}
	}()
	if nodes > 0 {
		simulated, err := simnode.Start(ctx, c.Config(), simnode.Options{
			Nodes:       nodes,
			Delays:      simnode.RealisticDelays(),
			Provisioner: true,
		})
		if err != nil {
			return fmt.Errorf("starting simulated nodes: %w", err)
		}
		defer simulated.Stop()
	}
	kubectl := c.Kubectl(ctx)
	if kubectl.Err != nil {
		return kubectl.Err
	}

	out := command.OutOrStdout()
	fmt.Fprintf(out, "Kubernetes %s is ready after %.1f s at %s\n\n", c.Version(), time.Since(start).Seconds(), c.APIServerURL())
	fmt.Fprintf(out, "  export KUBECONFIG=%s\n  %s get nodes\n\n", c.AdminKubeconfig(), kubectl.Path)
	fmt.Fprintf(out, "Logs: %s\n", c.Logs("*"))
	if options.Audit != nil {
		fmt.Fprintf(out, "Audit log: %s\n", c.AuditLog())
	}
	fmt.Fprintln(out, "Ctrl-C stops the cluster and deletes its data.")

	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if err := c.Exited(); err != nil {
				return err
			}
		}
	}
}

func newBuild() *cobra.Command {
	var version string
	programs := []binaries.Name{
		binaries.Etcd, binaries.KubeAPIServer, binaries.KubeControllerManager, binaries.KubeScheduler, binaries.Kubectl,
	}
	all := append(slices.Clone(programs), binaries.Kubelet)
	command := &cobra.Command{
		Use:   "build [program...]",
		Short: "Build programs into the cache and print where they are",
		Long: "Build programs into the cache and print where they are.\n\n" +
			"Without arguments it builds all but kubelet, which only real nodes need.\nPrograms: " + join(all) + ".",
		ValidArgs: toStrings(all),
		Args:      cobra.OnlyValidArgs,
		RunE: func(command *cobra.Command, args []string) error {
			names := programs
			if len(args) > 0 {
				names = nil
				for _, arg := range args {
					names = append(names, binaries.Name(arg))
				}
			}
			set, err := binaries.Ensure(command.Context(), binaries.Options{
				Version:  version,
				Progress: command.ErrOrStderr(),
			}, names...)
			if err != nil {
				return err
			}
			for _, name := range names {
				fmt.Fprintln(command.OutOrStdout(), set.Path(name))
			}
			return nil
		},
	}
	addVersionFlag(command, &version)
	return command
}

func newCheckNodes() *cobra.Command {
	var packages bool
	command := &cobra.Command{
		Use:   "check-nodes",
		Short: "Tell whether real nodes can run on this machine, and what is missing",
		Long: "Tell whether real nodes can run on this machine, and what is missing.\n\n" +
			"On Debian and Ubuntu the missing programs are installed by:\n" +
			"  apt-get install --no-install-recommends $(go -C tests run ./cmd/cluster check-nodes --packages)",
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			err := realnode.Check()
			if !packages {
				if err == nil {
					fmt.Fprintln(command.OutOrStdout(), "real nodes can run here")
				}
				return err
			}
			// Only missing ones: a machine may have the same programs from packages
			// excluding Debian's.
			var unavailable *realnode.UnavailableError
			if errors.As(err, &unavailable) {
				fmt.Fprintln(command.OutOrStdout(), strings.Join(unavailable.Packages, " "))
			}
			return nil
		},
	}
	command.Flags().BoolVar(&packages, "packages", false, "print the missing packages instead, and succeed")
	return command
}

func addVersionFlag(command *cobra.Command, version *string) {
	command.Flags().StringVar(version, "version", "",
		"Kubernetes version, such as v1.35.2, or 1.35 for its newest patch (default: $"+binaries.VersionVariable+
			", else the version that tools/kubernetes pins)")
}

func parseGates(values map[string]string) (map[string]bool, error) {
	gates := make(map[string]bool, len(values))
	for name, value := range values {
		on, err := strconv.ParseBool(value)
		if err != nil {
			return nil, fmt.Errorf("feature gate %s: %w", name, err)
		}
		gates[name] = on
	}
	return gates, nil
}

func toStrings(names []binaries.Name) []string {
	texts := make([]string, 0, len(names))
	for _, name := range names {
		texts = append(texts, string(name))
	}
	return texts
}

func join(names []binaries.Name) string {
	return strings.Join(toStrings(names), ", ")
}
