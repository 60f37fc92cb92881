// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
)

// ParseManagerArgs reads the command line of OpenKruise's manager: flags to carry over, and its feature gates.
//
// Gates, and flags for workers, have the same names here. Addresses, probes, leader election and certificates differ.
func ParseManagerArgs(args []string, table kinds.Table) (carried []string, gates features.Set) {
	same := []string{"assign-bcj-pods-by-scheduler", "assign-pods-by-scheduler", "cloneset-scaling-exclude-preparing-delete"}
	for _, kind := range table.Switchable() {
		same = append(same, kind.WorkersFlag)
	}
	given := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	given.ParseErrorsAllowlist.UnknownFlags = true
	listed := given.StringSlice("feature-gates", nil, "")
	for _, name := range same {
		given.String(name, "", "")
		if !strings.HasSuffix(name, "-workers") {
			given.Lookup(name).NoOptDefVal = "true"
		}
	}
	_ = given.Parse(args) // What cannot be parsed is left out.
	var known, kept []string
	for _, part := range *listed {
		part = strings.TrimSpace(part)
		name, _, _ := strings.Cut(part, "=")
		if !features.Accepts(features.Gate(name)) {
			continue
		}
		known = append(known, part)
		if is, _ := features.Of(features.Gate(name)); is.Ignored == "" && is.Missing == "" {
			kept = append(kept, part)
		}
	}
	gates, _, err := features.Parse(strings.Join(known, ","))
	if err == nil && len(kept) > 0 {
		carried = append(carried, "--feature-gates="+strings.Join(kept, ","))
	}
	given.Visit(func(flag *pflag.Flag) {
		if slices.Contains(same, flag.Name) {
			carried = append(carried, "--"+flag.Name+"="+flag.Value.String())
		}
	})
	return carried, gates
}
