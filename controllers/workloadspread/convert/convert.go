// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package convert converts WorkloadSpreads between their versions.
package convert

import (
	"encoding/json"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/conversion"
)

// Converter converts WorkloadSpreads. Two fields of subsets have other names in v1alpha1, and an empty reason of a subset's
// condition there is Unknown in v1beta1.
func Converter() conversion.Converter {
	return conversion.Converter{
		GroupKind: v1beta1.GroupVersion().WithKind("WorkloadSpread").GroupKind(),
		Renamed: []conversion.Renamed{
			{Path: "spec.subsets.*", Name: "requiredNodeSelector", InV1alpha1: "requiredNodeSelectorTerm"},
			{Path: "spec.subsets.*", Name: "preferredNodeSelector", InV1alpha1: "preferredNodeSelectorTerms"},
		},
		FromV1alpha1: func(o *conversion.Object) error {
			o.Each("status.subsetStatuses.*.conditions.*", giveReason)
			o.Each("status.versionedSubsetStatuses.*.*.conditions.*", giveReason)
			return nil
		},
	}
}

// giveReason fills in a missing reason.
func giveReason(condition conversion.Members) {
	var reason string
	if err := json.Unmarshal(condition["reason"], &reason); condition["reason"] == nil || err == nil && reason == "" {
		condition["reason"] = json.RawMessage(`"Unknown"`)
	}
}
