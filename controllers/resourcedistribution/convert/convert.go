// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package convert converts ResourceDistributions between their versions.
package convert

import (
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/conversion"
)

// Converter converts ResourceDistributions. Two fields have other names in v1alpha1; everything else passes through as it is.
func Converter() conversion.Converter {
	return conversion.Converter{
		GroupKind: v1beta1.GroupVersion().WithKind("ResourceDistribution").GroupKind(),
		Renamed: []conversion.Renamed{
			{Path: "spec.targets", Name: "namespaceSelector", InV1alpha1: "namespaceLabelSelector"},
			{Path: "status.conditions.*", Name: "failedNamespaces", InV1alpha1: "failedNamespace"},
		},
	}
}
