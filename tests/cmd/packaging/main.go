// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Command packaging makes and checks what the Operator Lifecycle Manager installs from.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/binaries"
	"github.com/kruise-operator/kruise-operator/tests/framework/packaging"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{Use: "packaging", Short: "Make and check bundle, catalog and community tree", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(bundle(), validate())
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "packaging:", err)
		os.Exit(1)
	}
}

// bundle writes the bundle of this tree.
func bundle() *cobra.Command {
	b := packaging.Bundle{Progress: os.Stderr}
	cmd := &cobra.Command{
		Use:   "bundle",
		Short: "Write bundle/ and bundle.Dockerfile of this tree",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			root, err := binaries.RepositoryRoot()
			if err != nil {
				return err
			}
			if err := packaging.Generate(cmd.Context(), root, b.Progress); err != nil {
				return err
			}
			b.Root, b.Output, b.Dockerfile = root, filepath.Join(root, "bundle"), filepath.Join(root, "bundle.Dockerfile")
			return b.Write(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&b.Version, "version", "v0.0.0", "The version.")
	cmd.Flags().StringVar(&b.Image, "image", "", "The manager's image.")
	cmd.Flags().StringVar(&b.ScorecardImage, "scorecard-image", "", "The image of our own scorecard tests.")
	cmd.Flags().StringVar(&b.Created, "created", "2026-01-01T00:00:00Z", "When the version was made.")
	return cmd
}

func validate() *cobra.Command {
	return &cobra.Command{
		Use:   "validate [bundle folder]",
		Short: "Check a bundle with every validator that applies; a warning is an error",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return packaging.Validate(cmd.Context(), args[0], os.Stdout)
		},
	}
}
