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
		ToV1alpha1: func(o *conversion.Object) error {
			return conversion.Each(o.Spec, func(subset conversion.Members) {
				subset.Rename("requiredNodeSelector", "requiredNodeSelectorTerm")
				subset.Rename("preferredNodeSelector", "preferredNodeSelectorTerms")
			}, "subsets", "*")
		},
		FromV1alpha1: fromV1alpha1,
	}
}

func fromV1alpha1(o *conversion.Object) error {
	if err := conversion.Each(o.Top, giveReason, conversion.StatusField, "subsetStatuses", "*", "conditions", "*"); err != nil {
		return err
	}
	if err := conversion.Each(o.Top, giveReason, conversion.StatusField, "versionedSubsetStatuses", "*", "*", "conditions", "*"); err != nil {
		return err
	}
	return conversion.Each(o.Spec, func(subset conversion.Members) {
		subset.Rename("requiredNodeSelectorTerm", "requiredNodeSelector")
		subset.Rename("preferredNodeSelectorTerms", "preferredNodeSelector")
	}, "subsets", "*")
}

// giveReason fills in a missing reason.
func giveReason(condition conversion.Members) {
	var reason string
	if err := json.Unmarshal(condition["reason"], &reason); condition["reason"] == nil || err == nil && reason == "" {
		condition["reason"] = json.RawMessage(`"Unknown"`)
	}
}
