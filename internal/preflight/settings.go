// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
)

// Settings are what OpenKruise's manager was told, in the words of this operator.
type Settings struct {
	// Args are the flags to start this operator with.
	Args []string
	// Dropped are OpenKruise's settings that do not come along, each with the reason.
	Dropped []string
	// Notes are what the feature gates say of themselves.
	Notes []string
}

// ParseManagerArgs reads the command line of OpenKruise's manager.
//
// Feature gates have the same names and defaults here. The numbers of workers have the same names too, for the kinds that are here.
// Addresses, probes, leader election and certificates are this operator's own.
func ParseManagerArgs(args []string, table kinds.Table) Settings {
	var s Settings
	given := flags(args)
	ours := pflag.NewFlagSet("run", pflag.ContinueOnError)
	(&config.Config{Table: table}).AddFlags(ours)
	for _, name := range slices.Sorted(maps.Keys(given)) {
		value := given[name]
		switch {
		case name == "feature-gates":
			s.gates(value)
		case strings.HasSuffix(name, "-workers"):
			if ours.Lookup(name) == nil {
				s.Dropped = append(s.Dropped, fmt.Sprintf("--%s=%s: there is no such kind here", name, value))
				continue
			}
			s.Args = append(s.Args, fmt.Sprintf("--%s=%s", name, value))
		case slices.Contains(carried(), name) && ours.Lookup(name) != nil:
			s.Args = append(s.Args, fmt.Sprintf("--%s=%s", name, value))
		default:
			s.Dropped = append(s.Dropped, fmt.Sprintf("--%s=%s: this operator has its own", name, value))
		}
	}
	return s
}

// carried are flags of OpenKruise, beside those of workers, that mean the same here.
func carried() []string {
	return []string{"assign-bcj-pods-by-scheduler", "assign-pods-by-scheduler", "cloneset-scaling-exclude-preparing-delete"}
}

// gates keeps the gates that are known here, in a form that the operator accepts.
func (s *Settings) gates(text string) {
	kept, dropped := splitGates(text)
	for _, part := range dropped {
		s.Dropped = append(s.Dropped, fmt.Sprintf("feature gate %s: not known here", part))
	}
	kept = slices.DeleteFunc(kept, func(part string) bool {
		name, _, _ := strings.Cut(part, "=")
		if why := withoutEffect(features.Gate(name)); why != "" {
			s.Dropped = append(s.Dropped, fmt.Sprintf("feature gate %s: %s", part, why))
			return true
		}
		return false
	})
	if len(kept) == 0 {
		return
	}
	carried := strings.Join(kept, ",")
	_, notes, err := features.Parse(carried)
	if err != nil {
		s.Dropped = append(s.Dropped, fmt.Sprintf("--feature-gates=%s: %v", carried, err))
		return
	}
	s.Notes = append(s.Notes, notes...)
	s.Args = append(s.Args, "--feature-gates="+carried)
}

// withoutEffect says why a gate does nothing here, whatever its value; empty when it does something.
func withoutEffect(gate features.Gate) string {
	if !features.IsKnown(gate) {
		return ""
	}
	return cmp.Or(info(gate).Ignored, info(gate).Missing)
}

// splitGates splits a list of feature gates into those that are known here and the others.
func splitGates(text string) (kept, dropped []string) {
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		name, _, _ := strings.Cut(part, "=")
		switch {
		case name == "":
		case features.Accepts(features.Gate(name)):
			kept = append(kept, part)
		default:
			dropped = append(dropped, part)
		}
	}
	return kept, dropped
}

// flags reads a command line: --name=value, --name value, or --name for true. The last value of a repeated flag counts, but feature gates add up.
func flags(args []string) map[string]string {
	given := map[string]string{}
	for i := 0; i < len(args); i++ {
		word, found := strings.CutPrefix(args[i], "-")
		if !found {
			continue
		}
		name, value, assigned := strings.Cut(strings.TrimPrefix(word, "-"), "=")
		if !assigned {
			value = "true"
			if i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
				i++
				value = args[i]
			}
		}
		if before := given[name]; before != "" && name == "feature-gates" {
			value = before + "," + value
		}
		given[name] = value
	}
	return given
}
