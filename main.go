// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// The manager of kruise-operator runs the controllers and serves admission. internal/cmd/daemon runs on nodes;
// internal/cmd/preflight is for administrators coming from OpenKruise.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kruise-operator/kruise-operator/controllers"
	"github.com/kruise-operator/kruise-operator/internal/manager"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/internal/platform/version"
)

func main() {
	// Exit as soon as the manager has stopped: the lease is released by then, and another replica may lead already.
	if err := command().ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:           "kruise-operator",
		Short:         "Manages the workloads of apps.kruise.io",
		Version:       version.String(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	c := config.Config{Table: controllers.Table()}
	run := &cobra.Command{
		Use:   "run",
		Short: "Run the manager until the process is told to stop",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return manager.Run(cmd.Context(), c, config.Given(cmd.Flags()))
		},
	}
	c.AddFlags(run.Flags())
	root.AddCommand(run)
	return root
}
