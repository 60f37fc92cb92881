// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/confirmation"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/platform/connection"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
	"github.com/kruise-operator/kruise-operator/internal/platform/version"
)

// Program is its name, in the image and for users.
const Program = "kruise-preflight"

// request is what the command line asks for.
type request struct {
	output                          string
	removeWebhooks, clearConversion bool
	namespace                       string
	options                         Options
}

// Command returns the command that looks at the cluster and says what a takeover meets. It fails while something blocks it.
func Command(table kinds.Table) *cobra.Command {
	r := request{options: Options{Table: table}}
	cmd := &cobra.Command{
		Use:   Program,
		Short: "Say what a takeover from OpenKruise meets in the cluster that KUBECONFIG names; fail while something blocks it",
		Long: "Looks for what OpenKruise has in the cluster and says, for each finding, what to do next. It needs the rights to read\n" +
			"webhook configurations, CRDs, pods and all objects of OpenKruise's kinds, and changes nothing unless a flag says so.",
		Args:    cobra.NoArgs,
		Version: version.String(), SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error { return r.run(cmd) },
	}
	cmd.PersistentFlags().StringVar(&r.namespace, "namespace", "kruise-system", "Namespace of the operator, as given to run.")
	flags := cmd.Flags()
	flags.StringVarP(&r.output, "output", "o", "text", "text or json.")
	flags.BoolVar(&r.removeWebhooks, "remove-webhooks", false,
		"Delete OpenKruise's webhook configurations; the webhook on new pods last, when this operator injects all SidecarSets. Refused while OpenKruise runs.")
	flags.BoolVar(&r.clearConversion, "clear-conversion", false,
		"Replace the conversion by None in CRDs of OpenKruise's that need none with this operator; findings do not make that fail. Refused while it runs.")
	flags.StringSliceVar(&r.options.Served, "kinds", table.Switchable().Names(), "Kinds that the operator will manage, as given to run.")
	flags.BoolVar(&r.options.AcceptUnserved, "accept-unserved-kinds", false, "Objects of other kinds warn and do not block.")
	flags.StringVar(&r.options.FeatureGates, "feature-gates", "", "Feature gates of the operator, as they will be given to run. What stored objects say is compared with them.")
	cmd.AddCommand(goingBack(&r.namespace))
	return cmd
}

// connect returns a client of the cluster that KUBECONFIG names, and how to reach it.
func connect() (client.Client, *rest.Config, error) {
	server, err := connection.Config(version.UserAgent())
	if err != nil {
		return nil, nil, err
	}
	types, err := scheme.New()
	if err == nil {
		err = apiextensionsv1.AddToScheme(types)
	}
	if err != nil {
		return nil, nil, err
	}
	c, err := client.New(server, client.Options{Scheme: types})
	return c, server, err
}

func (r request) run(cmd *cobra.Command) error {
	if r.output != "text" && r.output != "json" {
		return fmt.Errorf("--output: %q is neither text nor json", r.output)
	}
	if _, _, err := features.Parse(r.options.FeatureGates); err != nil {
		return fmt.Errorf("--feature-gates: %w", err)
	}
	c, server, err := connect()
	if err != nil {
		return err
	}
	asking, err := discovery.NewDiscoveryClientForConfig(server)
	if err != nil {
		return err
	}
	kubernetes, err := asking.ServerVersion()
	if err != nil {
		return err
	}
	ctx, say := cmd.Context(), speaker(cmd)
	reading := Reading{Client: c, Clock: clock.RealClock{}, Progress: say, Lease: leaseIn(r.namespace), Table: r.options.Table, Version: kubernetes.GitVersion}
	found, err := reading.Read(ctx)
	if err == nil {
		err = r.act(ctx, reading, &found)
	}
	if err != nil {
		return err
	}
	all := Findings(found, r.options)
	if err := write(cmd.OutOrStdout(), r.output, all); err != nil {
		return err
	}
	if n := Blocked(all); n > 0 && (!r.clearConversion || r.removeWebhooks) { // between the two, the webhooks block
		return fmt.Errorf("%d of %d findings block a takeover", n, len(all))
	}
	return nil
}

// act does what flags ask for, and reads anew what that changes.
func (r request) act(ctx context.Context, reading Reading, found *Cluster) error {
	if r.clearConversion {
		if err := ClearConversion(ctx, reading.Client, *found, reading.Progress); err != nil {
			return err
		}
	}
	if r.removeWebhooks {
		if err := RemoveWebhooks(ctx, reading.Client, *found, r.options, reading.Progress); err != nil {
			return err
		}
	}
	if !r.clearConversion && !r.removeWebhooks {
		return nil
	}
	if err := reading.readWebhooks(ctx, found); err != nil {
		return err
	}
	return reading.readCRDs(ctx, found)
}

// speaker tells what happens beside the output.
func speaker(cmd *cobra.Command) func(string) {
	return func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), line) }
}

// leaseIn names the Lease of this operator's leader.
func leaseIn(namespace string) client.ObjectKey {
	return client.ObjectKey{Namespace: namespace, Name: confirmation.LeaseName}
}

// report is what -o json prints.
type report struct {
	// Ready says that nothing blocks a takeover.
	Ready    bool      `json:"ready"`
	Findings []Finding `json:"findings"`
}

func write(out io.Writer, format string, all []Finding) error {
	if format == "json" {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		return encoder.Encode(report{Ready: Blocked(all) == 0, Findings: append([]Finding{}, all...)})
	}
	if len(all) == 0 {
		fmt.Fprintln(out, "Nothing of OpenKruise is in this cluster, and nothing waits to be confirmed.")
	}
	for _, f := range all {
		fmt.Fprintf(out, "%s  %s\n  %s\n  Next: %s\n\n", strings.ToUpper(string(f.Severity)), f.Subject, f.Finding, f.Next)
	}
	return nil
}
