// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package convert converts BatchReleases between their versions.
package convert

import (
	"encoding/json"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/conversion"
)

const (
	workload = "workloadRef"
	target   = "targetReference"
)

// Converter converts BatchReleases: v1alpha1 has the name of the workload one level deeper.
func Converter() conversion.Converter {
	return conversion.Converter{
		GroupKind: v1beta1.GroupVersion().WithKind("BatchRelease").GroupKind(),
		ToV1alpha1: func(o *conversion.Object) error {
			reference, found := o.Spec[workload]
			if !found {
				return nil
			}
			delete(o.Spec, workload)
			o.Spec[target], _ = json.Marshal(conversion.Members{workload: reference}) // it was decoded
			return nil
		},
		FromV1alpha1: func(o *conversion.Object) error {
			if reference, _ := conversion.MembersOf(o.Spec[target]); reference[workload] != nil {
				delete(o.Spec, target)
				o.Spec[workload] = reference[workload]
			}
			return nil
		},
	}
}
