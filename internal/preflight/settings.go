// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
)

// ParseManagerArgs reads the command line of OpenKruise's manager: the flags to start this operator with, and the feature gates that are known here.
//
// Feature gates have the same names and defaults here; those without effect do not come along. The numbers of workers have the same names too, for the
// kinds that are here. Addresses, probes, leader election and certificates are this operator's own.
func ParseManagerArgs(args []string, table kinds.Table) (carried []string, gates features.Set) {
	same := []string{"assign-bcj-pods-by-scheduler", "assign-pods-by-scheduler", "cloneset-scaling-exclude-preparing-delete"}
	for _, kind := range table.Switchable() {
		same = append(same, kind.WorkersFlag)
	}
	given := flags(args)
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if slices.Contains(same, name) {
			carried = append(carried, fmt.Sprintf("--%s=%s", name, given[name]))
		}
	}
	var known, kept []string
	for part := range strings.SplitSeq(strings.ReplaceAll(given["feature-gates"], " ", ""), ",") {
		name, _, _ := strings.Cut(part, "=")
		if !features.Accepts(features.Gate(name)) {
			continue
		}
		known = append(known, part)
		if is := info(features.Gate(name)); is.Ignored == "" && is.Missing == "" {
			kept = append(kept, part)
		}
	}
	gates, _, err := features.Parse(strings.Join(known, ","))
	if err == nil && len(kept) > 0 {
		carried = append(carried, "--feature-gates="+strings.Join(kept, ","))
	}
	return carried, gates
}

// flags reads a command line: --name=value, --name value, or --name for true. The last value of a repeated flag counts, but feature gates add up.
func flags(args []string) map[string]string {
	given := map[string]string{}
	for i, arg := range args {
		word, found := strings.CutPrefix(arg, "-")
		if !found {
			continue
		}
		name, value, assigned := strings.Cut(strings.TrimPrefix(word, "-"), "=")
		if !assigned {
			value = "true"
			if i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
				value = args[i+1]
			}
		}
		if before := given[name]; before != "" && name == "feature-gates" {
			value = before + "," + value
		}
		given[name] = value
	}
	return given
}

// info describes a gate; one that is not known says nothing.
func info(gate features.Gate) features.Info {
	known := features.Known()
	if i := slices.IndexFunc(known, func(i features.Info) bool { return i.Name == gate }); i >= 0 {
		return known[i]
	}
	return features.Info{}
}
