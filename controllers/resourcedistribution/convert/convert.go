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
		ToV1alpha1: func(o *conversion.Object) error {
			return rename(o, [2]string{"namespaceSelector", "namespaceLabelSelector"}, [2]string{"failedNamespaces", "failedNamespace"})
		},
		FromV1alpha1: func(o *conversion.Object) error {
			return rename(o, [2]string{"namespaceLabelSelector", "namespaceSelector"}, [2]string{"failedNamespace", "failedNamespaces"})
		},
	}
}

// rename renames the selector of the targets, and the namespaces of the conditions.
func rename(o *conversion.Object, selector, failed [2]string) error {
	if err := conversion.Each(o.Spec, func(m conversion.Members) { m.Rename(selector[0], selector[1]) }, "targets"); err != nil {
		return err
	}
	return conversion.Each(o.Top, func(m conversion.Members) { m.Rename(failed[0], failed[1]) }, conversion.StatusField, "conditions", "*")
}
