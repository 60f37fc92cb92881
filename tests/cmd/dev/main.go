// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Command dev installs the operator's kinds, rights and webhooks into a cluster and runs the operator as a local process against it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/controllers"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
	"github.com/kruise-operator/kruise-operator/tests/framework/install"
	"github.com/kruise-operator/kruise-operator/tests/framework/reach"
	"github.com/kruise-operator/kruise-operator/tests/framework/repository"
)

// account has the rights of the operator in the cluster.
const account = "kruise-system/kruise-operator-manager"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		stop()
		os.Exit(1)
	}
}

func command() *cobra.Command {
	url := ""
	root := &cobra.Command{
		Use:               "dev",
		Short:             "The operator as a local process, in the cluster that KUBECONFIG names",
		SilenceUsage:      true,
		SilenceErrors:     true,
		PersistentPreRunE: func(*cobra.Command, []string) error { return repository.EnterRoot() },
	}
	root.PersistentFlags().StringVar(&url, "webhook-url", "https://127.0.0.1:9443", "Where the API server reaches this machine.")
	root.AddCommand(&cobra.Command{
		Use:   "install",
		Short: "Install kinds, rights and webhooks",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return installation(cmd.Context(), url, install.Install) },
	}, &cobra.Command{
		Use:   "uninstall",
		Short: "Remove what install installed; refuses while objects of our kinds exist",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return installation(cmd.Context(), url, install.Uninstall) },
	}, &cobra.Command{
		Use:   "run [-- flags of the operator]",
		Short: "Build the operator, run it, and end it when the API server does not reach its webhooks",
		RunE:  func(cmd *cobra.Command, args []string) error { return run(cmd.Context(), url, args) },
	})
	return root
}

func installation(ctx context.Context, url string, do func(context.Context, client.Client, install.Options) error) error {
	direct, err := connect()
	if err != nil {
		return err
	}
	return do(ctx, direct, install.Options{WebhookURL: url, Report: func(line string) { fmt.Println(line) }})
}

// connect returns a client for the cluster of KUBECONFIG.
func connect() (client.Client, error) {
	server, err := ctrl.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the API server: %w", err)
	}
	types, err := scheme.New()
	if err != nil {
		return nil, err
	}
	return client.New(server, client.Options{Scheme: types})
}

// run runs the operator with the rights of its service account until ctx is done.
func run(ctx context.Context, url string, flags []string) error {
	direct, err := connect()
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "kruise-operator-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder) //nolint:errcheck // it is temporary
	program := filepath.Join(folder, "kruise-operator")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, ".")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("building the operator: %w", err)
	}
	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	operator := exec.CommandContext(running, program, append([]string{"run", "--service-account=" + account, "--webhook-url=" + url}, flags...)...)
	operator.Stdout, operator.Stderr = os.Stdout, os.Stderr
	operator.Cancel = func() error { return operator.Process.Signal(syscall.SIGTERM) }
	operator.WaitDelay = time.Minute
	if err := operator.Start(); err != nil {
		return fmt.Errorf("starting the operator: %w", err)
	}
	go func() {
		if err := check(running, direct, url, flags); err != nil && running.Err() == nil {
			stop(err)
		}
	}()
	err = operator.Wait()
	if cause := context.Cause(running); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// check makes the API server call the webhooks of an enabled kind.
func check(ctx context.Context, direct client.Client, url string, args []string) error {
	c := config.Config{Table: controllers.Table()}
	flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
	c.AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	object, _, err := config.Load(ctx, direct)
	if err != nil {
		return err
	}
	merged, err := config.Merge(c, config.Given(flags), config.SpecOf(object))
	if err != nil || merged.Config.WebhookPort == 0 {
		return err
	}
	return reach.Check(ctx, direct, url, merged.Config.Kinds...)
}
