// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"cmp"

	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/webhook/rules"
)

// Default fills in the user's omissions. Templates stay as written: their own kind has its defaults.
func Default(set *appsv1beta1.UnitedDeployment) {
	spec := &set.Spec
	rules.OrDefault(&spec.Replicas, 1)
	rules.OrDefault(&spec.RevisionHistoryLimit, 10)
	spec.UpdateStrategy.Type = cmp.Or(spec.UpdateStrategy.Type, appsv1beta1.ManualUpdateStrategyType)
	rules.OrDefault(&spec.UpdateStrategy.ManualUpdate, appsv1beta1.ManualUpdate{})

	fixed, bounded := sized(set)
	for i := range spec.Topology.Subsets {
		if bounded && !fixed {
			rules.OrDefault(&spec.Topology.Subsets[i].MinReplicas, intstr.FromInt32(0))
		}
	}
}

// sized says whether any subset has a fixed size, and any has bounds.
func sized(set *appsv1beta1.UnitedDeployment) (fixed, bounded bool) {
	for i := range set.Spec.Topology.Subsets {
		sub := &set.Spec.Topology.Subsets[i]
		fixed = fixed || sub.Replicas != nil
		bounded = bounded || sub.MinReplicas != nil || sub.MaxReplicas != nil
	}
	return fixed, bounded
}
