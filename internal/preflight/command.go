// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/confirmation"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
)

// request is what the command line of preflight asks for.
type request struct {
	output          string
	removeWebhooks  bool
	clearConversion bool
	namespace       string
	options         Options
}

// Command returns the command that looks at the cluster and says what a takeover meets. It fails while something blocks it.
func Command(table kinds.Table, connect func() (*rest.Config, client.Client, error)) *cobra.Command {
	r := request{options: Options{Table: table}}
	cmd := &cobra.Command{
		Use:   "preflight",
		Short: "Say what a takeover from OpenKruise meets in the cluster that KUBECONFIG names; fails while something blocks it",
		Long: "Looks for what OpenKruise has in the cluster and says, for each finding, what to do next. It needs the rights to read\n" +
			"webhook configurations, CRDs, pods and all objects of OpenKruise's kinds, and changes nothing unless a flag says so.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if r.output != "table" && r.output != "json" {
				return fmt.Errorf("--output: %q is neither table nor json", r.output)
			}
			if _, _, err := features.Parse(r.options.FeatureGates); err != nil {
				return fmt.Errorf("--feature-gates: %w", err)
			}
			server, c, err := connect()
			if err != nil {
				return err
			}
			return r.run(cmd, server, c)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&r.output, "output", "o", "table", "table or json.")
	flags.BoolVar(&r.removeWebhooks, "remove-webhooks", false, "Delete OpenKruise's webhook configurations. Refused while it runs.")
	flags.BoolVar(&r.clearConversion, "clear-conversion", false,
		"Replace the conversion by None in CRDs of OpenKruise's that need none with this operator. Refused while it runs.")
	flags.StringSliceVar(&r.options.Served, "kinds", table.Switchable().Names(), "Kinds that the operator will manage, as given to run.")
	flags.StringVar(&r.namespace, "namespace", "kruise-system", "Namespace of the operator, as given to run.")
	flags.BoolVar(&r.options.AcceptUnserved, "accept-unserved-kinds", false, "Objects of other kinds warn and do not block.")
	flags.StringVar(&r.options.FeatureGates, "feature-gates", "", "Feature gates of the operator, as they will be given to run. What stored objects say is compared with them.")
	return cmd
}

func (r request) run(cmd *cobra.Command, server *rest.Config, c client.Client) error {
	ctx := cmd.Context()
	say := func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), line) }
	lease := client.ObjectKey{Namespace: r.namespace, Name: confirmation.LeaseName}
	reading := Reading{Client: c, Clock: clock.RealClock{}, Progress: say, Lease: lease, Table: r.options.Table, Version: func() (string, error) {
		asking, err := discovery.NewDiscoveryClientForConfig(server)
		if err != nil {
			return "", err
		}
		is, err := asking.ServerVersion()
		if err != nil {
			return "", err
		}
		return is.GitVersion, nil
	}}
	found, err := reading.Read(ctx)
	if err != nil {
		return err
	}
	if r.removeWebhooks {
		if err := RemoveWebhooks(ctx, c, found, say); err != nil {
			return err
		}
	}
	if r.clearConversion {
		if err := ClearConversion(ctx, c, found, say); err != nil {
			return err
		}
	}
	if r.removeWebhooks || r.clearConversion { // what is printed is what is there now
		if err := reading.readAgain(ctx, &found); err != nil {
			return err
		}
	}
	all := Findings(found, r.options)
	if err := write(cmd.OutOrStdout(), r.output, all); err != nil {
		return err
	}
	if n := Blocked(all); n > 0 {
		return fmt.Errorf("%d of %d findings block a takeover", n, len(all))
	}
	return nil
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
		return nil
	}
	t := table.NewWriter()
	t.SetOutputMirror(out)
	t.SetStyle(table.StyleLight)
	t.Style().Options.SeparateRows = true
	t.SetColumnConfigs([]table.ColumnConfig{
		{Number: 2, WidthMax: 44, WidthMaxEnforcer: text.WrapSoft},
		{Number: 3, WidthMax: 60, WidthMaxEnforcer: text.WrapSoft},
		{Number: 4, WidthMax: 60, WidthMaxEnforcer: text.WrapSoft},
	})
	t.AppendHeader(table.Row{"", "What", "Finding", "Next"})
	for _, f := range all {
		t.AppendRow(table.Row{strings.ToUpper(string(f.Severity)), f.Subject, f.Finding, f.Next})
	}
	t.Render()
	return nil
}
