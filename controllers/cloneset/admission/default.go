// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"cmp"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/webhook/rules"
)

// Default fills in the user's omissions. Pod and claim templates stay as written: defaults in them
// would be drift from the manifest.
func Default(set *appsv1beta1.CloneSet) {
	spec := &set.Spec
	rules.OrDefault(&spec.Replicas, 1)
	rules.OrDefault(&spec.RevisionHistoryLimit, 10)

	spec.UpdateStrategy.Type = cmp.Or(spec.UpdateStrategy.Type, appsv1beta1.RollingUpdateCloneSetUpdateStrategyType)
	if spec.UpdateStrategy.Type != appsv1beta1.RollingUpdateCloneSetUpdateStrategyType {
		return
	}
	if spec.UpdateStrategy.RollingUpdate == nil {
		spec.UpdateStrategy.RollingUpdate = &appsv1beta1.RollingUpdateCloneSetStrategy{}
	}
	rolling := spec.UpdateStrategy.RollingUpdate
	rolling.PodUpdatePolicy = cmp.Or(rolling.PodUpdatePolicy, shared.RecreatePods)
	if rolling.PodUpdatePolicy == shared.InPlaceIfPossible || rolling.PodUpdatePolicy == shared.InPlaceOnly {
		rules.OrDefault(&rolling.InPlaceUpdateStrategy, shared.InPlaceUpdateStrategy{})
	}
	rules.OrDefault(&rolling.Partition, intstr.FromInt32(0))
	rules.OrDefault(&rolling.MaxUnavailable, intstr.FromString("20%"))
	rules.OrDefault(&rolling.MaxSurge, intstr.FromInt32(0))
}

// Keep brings back fields of the stored object without words in v1alpha1, after an update through
// that version. A client that reads before it writes carries them along in an annotation. One with
// a whole manifest does not, and does not mean to switch anything off.
//
// The field excludePreparingDelete is a label in v1alpha1, so it is kept only while the label is
// silent.
func Keep(set, old *appsv1beta1.CloneSet) {
	const label = v1alpha1.LabelExcludePreparingDelete
	if old.Spec.ScaleStrategy.ExcludePreparingDelete && old.Labels[label] == "" && set.Labels[label] == "" {
		set.Spec.ScaleStrategy.ExcludePreparingDelete = true
	}
}
