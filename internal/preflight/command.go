// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/discovery"
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

// request is the command line.
type request struct {
	output                          string
	removeWebhooks, clearConversion bool
	namespace                       string
	options                         Options
}

// Command returns the checks. They fail while something blocks a takeover.
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

// connected is a Reading of the cluster in KUBECONFIG.
func connected(cmd *cobra.Command, namespace string, table kinds.Table) (Reading, error) {
	r := Reading{
		Clock: clock.RealClock{}, Table: table, Lease: client.ObjectKey{Namespace: namespace, Name: confirmation.LeaseName},
		Progress: func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), line) },
	}
	types, err := scheme.New()
	if err == nil {
		err = apiextensionsv1.AddToScheme(types)
	}
	if err != nil {
		return r, err
	}
	server, err := connection.Config(version.UserAgent())
	if err != nil {
		return r, err
	}
	if r.Client, err = client.New(server, client.Options{Scheme: types}); err != nil {
		return r, err
	}
	kubernetes, err := discovery.NewDiscoveryClientForConfigOrDie(server).ServerVersion()
	if err == nil {
		r.Version = kubernetes.GitVersion
	}
	return r, err
}

func (r request) run(cmd *cobra.Command) error {
	if r.output != "text" && r.output != "json" {
		return fmt.Errorf("--output: %q is neither text nor json", r.output)
	}
	if _, _, err := features.Parse(r.options.FeatureGates); err != nil {
		return fmt.Errorf("--feature-gates: %w", err)
	}
	reading, err := connected(cmd, r.namespace, r.options.Table)
	if err != nil {
		return err
	}
	found, err := reading.Read(cmd.Context())
	if err == nil && r.clearConversion {
		err = ClearConversion(cmd.Context(), reading.Client, &found, reading.Progress)
	}
	if err == nil && r.removeWebhooks {
		err = RemoveWebhooks(cmd.Context(), reading.Client, &found, r.options, reading.Progress)
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

func write(out io.Writer, format string, all []Finding) error {
	if format == "json" {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		return encoder.Encode(map[string]any{"ready": Blocked(all) == 0, "findings": append([]Finding{}, all...)})
	}
	if len(all) == 0 {
		fmt.Fprintln(out, "Nothing of OpenKruise is in this cluster, and nothing waits to be confirmed.")
	}
	for _, f := range all {
		fmt.Fprintf(out, "%s  %s\n  %s\n  Next: %s\n\n", strings.ToUpper(string(f.Severity)), f.Subject, f.Finding, f.Next)
	}
	return nil
}
