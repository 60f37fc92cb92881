// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"cmp"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
	"github.com/kruise-operator/kruise-operator/internal/webhook/rules"
)

// Options are the feature gates that admission of a CloneSet depends on.
type Options struct {
	// PreDownloadImage is the gate PreDownloadImageForInPlaceUpdate: the fields imagePreDownload* are honored.
	PreDownloadImage bool
}

// OptionsOf are the gates as far as they concern admission of CloneSets.
func OptionsOf(gates features.Set) Options {
	return Options{PreDownloadImage: gates.Enabled(features.PreDownloadImageForInPlaceUpdate)}
}

// Default fills in what the user left out. Pod and claim templates stay as written: defaults in them would show up as drift
// in whatever the manifest is kept in.
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

// Keep brings back from the stored object what an update through v1alpha1 left out because that version has no words for it. A
// client that reads the object before it writes carries these fields along in an annotation; one that writes a whole manifest
// does not, and does not mean to switch anything off.
//
// The field excludePreparingDelete is a label in v1alpha1, so it is kept only where the label does not say something.
func Keep(set, old *appsv1beta1.CloneSet) {
	const label = v1alpha1.LabelExcludePreparingDelete
	if old.Spec.ScaleStrategy.ExcludePreparingDelete && old.Labels[label] == "" && set.Labels[label] == "" {
		set.Spec.ScaleStrategy.ExcludePreparingDelete = true
	}
}
