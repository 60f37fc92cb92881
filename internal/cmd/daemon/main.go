// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// The node daemon. Its own program, so nodes do not hold the manager's memory.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kruise-operator/kruise-operator/internal/daemon"
	"github.com/kruise-operator/kruise-operator/internal/daemon/cri"
	"github.com/kruise-operator/kruise-operator/internal/platform/version"
)

func main() {
	if err := command().ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	o := daemon.Options{}
	command := &cobra.Command{
		Use:           "kruise-daemon",
		Short:         "Run the node daemon until the process is told to stop",
		Long:          "Run the node daemon, which works on its node through the container runtime.\nThe operator deploys it where something needs it.",
		Version:       version.String(),
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return daemon.Run(cmd.Context(), o) },
	}
	flags := command.Flags()
	flags.StringVar(&o.Node, "node", os.Getenv("NODE_NAME"), "Name of the node; $NODE_NAME when omitted.")
	flags.StringVar(&o.Namespace, "namespace", "kruise-daemon-config", "Namespace of the daemon, and of the Secrets that it may read.")
	flags.StringVar(&o.Address, "addr", ":10221", "Address that serves /healthz, /readyz and /metrics over http; 0 serves none.")
	flags.StringSliceVar(&o.Sockets, "runtime-socket", cri.Sockets("/hostrun"), "Sockets of container runtimes. The order decides between two of one name, and while the node runs no container.")
	flags.IntVar(&o.MaxPulls, "max-pulls", 3, "How many images of a namespace are pulled at the same time; all namespaces share all but one of these slots.")
	flags.StringVar(&o.CredentialProviders, "credential-provider-config", "",
		"CredentialProviderConfig of the kubelet: its plugins are asked for credentials that Secrets do not have.")
	flags.StringVar(&o.CredentialFolder, "credential-provider-bin-dir", "", "Folder of the plugins that the configuration names.")
	flags.BoolVar(&o.NoReports, "no-reports", false, "Report nothing about containers, and restart none for labels and annotations that they read.")
	flags.BoolVar(&o.NoProbes, "no-probes", false, "Carry out no probes of PodProbeMarkers.")
	flags.StringVar(&o.LogLevel, "log-level", "info", "error, info, debug, trace, or the highest verbosity as a number.")
	return command
}
