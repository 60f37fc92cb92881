// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"cmp"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/statefulset/plan"
	"github.com/kruise-operator/kruise-operator/internal/webhook/rules"
)

// Default fills in the user's omissions. Pod and claim templates stay as written: defaults in them
// would be drift from the manifest.
func Default(set *appsv1beta1.StatefulSet, o plan.Options) {
	spec := &set.Spec
	rules.OrDefault(&spec.Replicas, 1)
	rules.OrDefault(&spec.RevisionHistoryLimit, 10)
	spec.PodManagementPolicy = cmp.Or(spec.PodManagementPolicy, appsv1.OrderedReadyPodManagement)

	spec.UpdateStrategy.Type = cmp.Or(spec.UpdateStrategy.Type, appsv1.RollingUpdateStatefulSetStrategyType)
	if spec.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType {
		if spec.UpdateStrategy.RollingUpdate == nil {
			spec.UpdateStrategy.RollingUpdate = &appsv1beta1.RollingUpdateStatefulSetStrategy{}
		}
		rolling := spec.UpdateStrategy.RollingUpdate
		rules.OrDefault(&rolling.Partition, 0)
		rules.OrDefault(&rolling.MaxUnavailable, intstr.FromInt32(1))
		rules.OrDefault(&rolling.MinReadySeconds, 0)
		rolling.PodUpdatePolicy = cmp.Or(rolling.PodUpdatePolicy, shared.RecreatePods)
	}

	if o.AutoDeletePVC {
		if spec.PersistentVolumeClaimRetentionPolicy == nil {
			spec.PersistentVolumeClaimRetentionPolicy = &appsv1beta1.StatefulSetPersistentVolumeClaimRetentionPolicy{}
		}
		retention := spec.PersistentVolumeClaimRetentionPolicy
		retention.WhenDeleted = cmp.Or(retention.WhenDeleted, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
		retention.WhenScaled = cmp.Or(retention.WhenScaled, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	}
	if o.AutoResizePVC {
		spec.VolumeClaimUpdateStrategy.Type = cmp.Or(spec.VolumeClaimUpdateStrategy.Type,
			appsv1beta1.OnDeleteVolumeClaimUpdateStrategyType)
	}
}
