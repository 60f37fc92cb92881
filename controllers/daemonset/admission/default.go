// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"cmp"

	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/budget"
	"github.com/kruise-operator/kruise-operator/internal/webhook/rules"
)

// Default fills in the user's omissions. The pod template stays as written: defaults in it would show up as drift in whatever the manifest is
// kept in.
func Default(set *appsv1beta1.DaemonSet) {
	spec := &set.Spec
	rules.OrDefault(&spec.BurstReplicas, intstr.FromInt32(250))
	rules.OrDefault(&spec.RevisionHistoryLimit, 10)

	spec.UpdateStrategy.Type = cmp.Or(spec.UpdateStrategy.Type, appsv1beta1.RollingUpdateDaemonSetStrategyType)
	if spec.UpdateStrategy.Type != appsv1beta1.RollingUpdateDaemonSetStrategyType {
		return
	}
	if spec.UpdateStrategy.RollingUpdate == nil {
		spec.UpdateStrategy.RollingUpdate = &appsv1beta1.RollingUpdateDaemonSet{}
	}
	rolling := spec.UpdateStrategy.RollingUpdate
	rolling.Type = cmp.Or(rolling.Type, appsv1beta1.StandardRollingUpdateType)
	if rolling.MaxUnavailable != nil {
		return
	}
	if rolling.MaxSurge == nil {
		rules.OrDefault(&rolling.MaxSurge, intstr.FromInt32(0))
	}
	if isZero(rolling.MaxSurge) {
		rules.OrDefault(&rolling.MaxUnavailable, intstr.FromInt32(1))
	}
}

// isZero is a count of no node, of however many.
func isZero(v *intstr.IntOrString) bool {
	if v == nil {
		return true
	}
	n, err := budget.Count(*v, budget.Unlimited, budget.Up)
	return err == nil && n == 0
}
