// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package convert converts Batons between their versions.
package convert

import (
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/conversion"
)

// Converter converts Batons: the workload of v1alpha1 is a deployment.
func Converter() conversion.Converter {
	return conversion.Converter{
		GroupKind:    v1beta1.GroupVersion().WithKind("Baton").GroupKind(),
		ToV1alpha1:   func(o *conversion.Object) error { return rename(o, "deployment", "workload") },
		FromV1alpha1: func(o *conversion.Object) error { return rename(o, "workload", "deployment") },
	}
}

func rename(o *conversion.Object, from, to string) error {
	if value, found := o.Spec[from]; found {
		delete(o.Spec, from)
		o.Spec[to] = value
	}
	return nil
}
