// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"fmt"

	"github.com/kruise-operator/kruise-operator/internal/platform/features"
)

// danger is a field of StatefulSets that deletes something if a gate is off here and on in
// OpenKruise, or on here. Empty: nothing.
type danger struct{ field, off, on string }

// dangers are the dangerous fields by gate.
func dangers() map[features.Gate]danger {
	return map[features.Gate]danger{
		features.StatefulSetStartOrdinal: {
			"spec.ordinals.start",
			"this operator would count from 0: it would delete the pods with the highest ordinals and create others from 0 on",
			"this operator would count from there: it would delete the pods with the lowest ordinals and create others",
		},
		features.StatefulSetAutoDeletePVC: {
			"spec.persistentVolumeClaimRetentionPolicy that deletes", "", "volume claims that OpenKruise keeps would be deleted with their pods or sets",
		},
	}
}

// findGates compares the gates of both managers. Without a Deployment of OpenKruise, its gates count as on.
func findGates(c Cluster, w Options) (all []Finding) {
	ours, _, err := features.Parse(w.FeatureGates)
	if err != nil {
		return []Finding{Blocker.of("--feature-gates", "give the value that the operator will be started with", "%v", err)}
	}
	known := len(c.Managers) > 0
	var theirs features.Set
	if known {
		_, theirs = ParseManagerArgs(c.Managers[0].Args, w.Table)
	}
	for _, gate := range features.Known() {
		on := ours.Enabled(gate.Name)
		if gate.Elsewhere || gate.Ignored != "" || gate.Missing != "" || known && theirs.Enabled(gate.Name) == on || !known && on {
			continue
		}
		next := fmt.Sprintf("start the operator with --feature-gates=%s=%t, and give preflight what --feature-gates will be", gate.Name, !on)
		state, other, danger, users := "off", "on", dangers()[gate.Name], c.Users[gate.Name]
		deletes := danger.off
		if on {
			state, other, deletes = "on", "off", danger.on
		}
		switch {
		case len(users) > 0 && deletes != "":
			all = append(all, Blocker.of("statefulsets.apps.kruise.io", next, "%d (%s) with %s. The feature gate %s is %s here and may be %s in OpenKruise: %s",
				len(users), some(users), danger.field, gate.Name, state, other, deletes))
		case known:
			all = append(all, Warning.of("--feature-gates", next, "%s is %s here and %s in OpenKruise. With it on, %s", gate.Name, state, other, gate.Effect))
		}
	}
	return all
}
