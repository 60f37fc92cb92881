// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"cmp"
	"fmt"
	"maps"
	"strconv"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/conversion"
)

// ToV1alpha1 writes to spoke what hub is in v1alpha1.
func ToV1alpha1(hub *v1beta1.CloneSet, spoke *v1alpha1.CloneSet) error {
	hub = hub.DeepCopy()
	kept := conversion.Take[fieldsV1alpha1, fieldsV1beta1](&hub.ObjectMeta, v1alpha1.GroupVersion())

	is := fieldsOfV1beta1(hub)
	will := lower(is)
	if kept != nil {
		rebased, err := conversion.Rebase(kept.Fields.withType(), lower(kept.Shown), will)
		if err != nil {
			return fmt.Errorf("converting CloneSet %s to v1alpha1: %w", hub.Name, err)
		}
		if kept.Fields.onDelete() != will.onDelete() {
			rebased.UpdateStrategy = will.UpdateStrategy // the kept fields are about a strategy that is gone
		}
		will = rebased
	}

	spoke.ObjectMeta = hub.ObjectMeta
	setAnnotations(&spoke.ObjectMeta, will.Annotations)
	spoke.Spec = v1alpha1.CloneSetSpec{
		Replicas:                hub.Spec.Replicas,
		Selector:                hub.Spec.Selector,
		Template:                hub.Spec.Template,
		VolumeClaimTemplates:    hub.Spec.VolumeClaimTemplates,
		RevisionHistoryLimit:    hub.Spec.RevisionHistoryLimit,
		MinReadySeconds:         hub.Spec.MinReadySeconds,
		ProgressDeadlineSeconds: hub.Spec.ProgressDeadlineSeconds,
		Lifecycle:               hub.Spec.Lifecycle,
		ScaleStrategy: v1alpha1.CloneSetScaleStrategy{
			PodsToDelete:    hub.Spec.ScaleStrategy.PodsToDelete,
			MaxUnavailable:  hub.Spec.ScaleStrategy.MaxUnavailable,
			DisablePVCReuse: !hub.Spec.ScaleStrategy.EnablePVCReuse,
		},
		UpdateStrategy: will.UpdateStrategy,
	}
	spoke.Status = hub.Status

	if equality.Semantic.DeepEqual(raise(will), is) {
		return nil
	}
	return conversion.Keep(&spoke.ObjectMeta, v1beta1.GroupVersion(), is, will)
}

// FromV1alpha1 writes to hub what spoke is in the hub version.
func FromV1alpha1(spoke *v1alpha1.CloneSet, hub *v1beta1.CloneSet) error {
	spoke = spoke.DeepCopy()
	kept := conversion.Take[fieldsV1beta1, fieldsV1alpha1](&spoke.ObjectMeta, v1beta1.GroupVersion())

	is := fieldsOfV1alpha1(spoke)
	will := raise(is)
	if kept != nil {
		original, shown := kept.Fields, kept.Shown
		rebased, err := conversion.Rebase(original, raiseWhole(shown), raiseWhole(is))
		if err != nil {
			return fmt.Errorf("converting CloneSet %s from v1alpha1: %w", spoke.Name, err)
		}
		if !original.sharesStrategyWith(is) {
			rebased.UpdateStrategy = will.UpdateStrategy
		}
		rebased.ExcludeLabel = is.ExcludeLabel
		rebased.ExcludePreparingDelete = original.ExcludePreparingDelete
		if is.ExcludeLabel != shown.ExcludeLabel {
			rebased.ExcludePreparingDelete = will.ExcludePreparingDelete
		}
		will = rebased
	}

	hub.ObjectMeta = spoke.ObjectMeta
	setAnnotations(&hub.ObjectMeta, will.Annotations)
	hub.Spec = v1beta1.CloneSetSpec{
		Replicas:                spoke.Spec.Replicas,
		Selector:                spoke.Spec.Selector,
		Template:                spoke.Spec.Template,
		VolumeClaimTemplates:    spoke.Spec.VolumeClaimTemplates,
		RevisionHistoryLimit:    spoke.Spec.RevisionHistoryLimit,
		MinReadySeconds:         spoke.Spec.MinReadySeconds,
		ProgressDeadlineSeconds: spoke.Spec.ProgressDeadlineSeconds,
		Lifecycle:               spoke.Spec.Lifecycle,
		ScaleStrategy: v1beta1.CloneSetScaleStrategy{
			PodsToDelete:           spoke.Spec.ScaleStrategy.PodsToDelete,
			MaxUnavailable:         spoke.Spec.ScaleStrategy.MaxUnavailable,
			EnablePVCReuse:         !spoke.Spec.ScaleStrategy.DisablePVCReuse,
			ExcludePreparingDelete: will.ExcludePreparingDelete,
		},
		UpdateStrategy: will.UpdateStrategy,
	}
	hub.Status = spoke.Status

	if equality.Semantic.DeepEqual(lower(will), is) {
		return nil
	}
	return conversion.Keep(&hub.ObjectMeta, v1alpha1.GroupVersion(), is, will)
}

// fieldsV1beta1 are the parts of a CloneSet that v1alpha1 says otherwise, as v1beta1 has them.
type fieldsV1beta1 struct {
	// Annotations are those about pulling images ahead, and no others.
	Annotations map[string]string `json:"annotations,omitempty"`
	// ExcludeLabel is the value of v1alpha1.LabelExcludePreparingDelete, empty when there is none.
	ExcludeLabel           string                         `json:"excludeLabel,omitempty"`
	ExcludePreparingDelete bool                           `json:"excludePreparingDelete,omitempty"`
	UpdateStrategy         v1beta1.CloneSetUpdateStrategy `json:"updateStrategy"`
}

// fieldsV1alpha1 are the same parts as v1alpha1 has them.
type fieldsV1alpha1 struct {
	Annotations    map[string]string               `json:"annotations,omitempty"`
	ExcludeLabel   string                          `json:"excludeLabel,omitempty"`
	UpdateStrategy v1alpha1.CloneSetUpdateStrategy `json:"updateStrategy"`
}

func fieldsOfV1beta1(set *v1beta1.CloneSet) fieldsV1beta1 {
	return fieldsV1beta1{
		Annotations:            preDownloadAnnotations(set.Annotations),
		ExcludeLabel:           set.Labels[v1alpha1.LabelExcludePreparingDelete],
		ExcludePreparingDelete: set.Spec.ScaleStrategy.ExcludePreparingDelete,
		UpdateStrategy:         set.Spec.UpdateStrategy,
	}
}

func fieldsOfV1alpha1(set *v1alpha1.CloneSet) fieldsV1alpha1 {
	return fieldsV1alpha1{
		Annotations:    preDownloadAnnotations(set.Annotations),
		ExcludeLabel:   set.Labels[v1alpha1.LabelExcludePreparingDelete],
		UpdateStrategy: set.Spec.UpdateStrategy,
	}.withType()
}

// withType fills in the type that admission of v1alpha1 gives where there is none. Admission works on v1beta1, which says it always.
func (f fieldsV1alpha1) withType() fieldsV1alpha1 {
	f.UpdateStrategy.Type = cmp.Or(f.UpdateStrategy.Type, v1alpha1.RecreateCloneSetUpdateStrategyType)
	return f
}

func (f fieldsV1alpha1) onDelete() bool {
	return f.UpdateStrategy.Type == v1alpha1.OnDeleteCloneSetUpdateStrategyType
}

// sharesStrategyWith says whether a written strategy is the kept one with changes. When the type OnDelete came or went, it is
// another one. It also is when the kept one is OnDelete without rollingUpdate: v1alpha1 has no way to ask for an empty one.
func (f fieldsV1beta1) sharesStrategyWith(written fieldsV1alpha1) bool {
	kept := &f.UpdateStrategy
	if kept.Type == v1beta1.OnDeleteCloneSetUpdateStrategyType {
		return written.onDelete() && kept.RollingUpdate != nil
	}
	return !written.onDelete()
}

// lower is the rule from v1beta1 to v1alpha1: one type for both choices, and annotations for pulling images ahead.
func lower(from fieldsV1beta1) fieldsV1alpha1 {
	to := fieldsV1alpha1{Annotations: maps.Clone(from.Annotations), ExcludeLabel: from.ExcludeLabel}
	strategy := &to.UpdateStrategy
	strategy.Type = v1alpha1.RecreateCloneSetUpdateStrategyType

	if rolling := from.UpdateStrategy.RollingUpdate.DeepCopy(); rolling != nil {
		switch rolling.PodUpdatePolicy {
		case shared.InPlaceIfPossible:
			strategy.Type = v1alpha1.InPlaceIfPossibleCloneSetUpdateStrategyType
		case shared.InPlaceOnly:
			strategy.Type = v1alpha1.InPlaceOnlyCloneSetUpdateStrategyType
		}
		strategy.Partition = rolling.Partition
		strategy.MaxUnavailable = rolling.MaxUnavailable
		strategy.MaxSurge = rolling.MaxSurge
		strategy.Paused = rolling.Paused
		strategy.PriorityStrategy = rolling.PriorityStrategy
		strategy.ScatterStrategy = rolling.ScatterStrategy
		if inPlace := rolling.InPlaceUpdateStrategy; inPlace != nil {
			written := annotatePreDownload(&to.Annotations, inPlace)
			// An empty object stays one, or tools would see a difference to the manifest that has it.
			if inPlace.GracePeriodSeconds != 0 || !written {
				strategy.InPlaceUpdateStrategy = &shared.InPlaceUpdateStrategy{GracePeriodSeconds: inPlace.GracePeriodSeconds}
			}
		}
	}
	if from.UpdateStrategy.Type == v1beta1.OnDeleteCloneSetUpdateStrategyType {
		strategy.Type = v1alpha1.OnDeleteCloneSetUpdateStrategyType
	}
	return to
}

// raise is the rule from v1alpha1 to v1beta1. With the type OnDelete no other field has a meaning, so none is raised.
func raise(from fieldsV1alpha1) fieldsV1beta1 {
	to := raiseWhole(from)
	if from.onDelete() {
		to.UpdateStrategy.RollingUpdate = nil
	}
	return to
}

// raiseWhole is raise that raises the other fields of OnDelete too, for telling what a client changed.
func raiseWhole(from fieldsV1alpha1) fieldsV1beta1 {
	strategy := from.UpdateStrategy.DeepCopy()
	rolling := &v1beta1.RollingUpdateCloneSetStrategy{
		PodUpdatePolicy:       shared.RecreatePods,
		Partition:             strategy.Partition,
		MaxUnavailable:        strategy.MaxUnavailable,
		MaxSurge:              strategy.MaxSurge,
		Paused:                strategy.Paused,
		PriorityStrategy:      strategy.PriorityStrategy,
		ScatterStrategy:       strategy.ScatterStrategy,
		InPlaceUpdateStrategy: inPlaceStrategy(strategy.InPlaceUpdateStrategy, from.Annotations),
	}
	to := fieldsV1beta1{
		Annotations:            maps.Clone(from.Annotations),
		ExcludeLabel:           from.ExcludeLabel,
		ExcludePreparingDelete: from.ExcludeLabel == "true",
		UpdateStrategy: v1beta1.CloneSetUpdateStrategy{
			Type: v1beta1.RollingUpdateCloneSetUpdateStrategyType, RollingUpdate: rolling,
		},
	}
	switch strategy.Type {
	case v1alpha1.InPlaceIfPossibleCloneSetUpdateStrategyType:
		rolling.PodUpdatePolicy = shared.InPlaceIfPossible
	case v1alpha1.InPlaceOnlyCloneSetUpdateStrategyType:
		rolling.PodUpdatePolicy = shared.InPlaceOnly
	case v1alpha1.OnDeleteCloneSetUpdateStrategyType:
		to.UpdateStrategy.Type = v1beta1.OnDeleteCloneSetUpdateStrategyType
		rolling.PodUpdatePolicy = "" // the type has its place
	}
	return to
}

// preDownloadKeys are the annotations that are fields of inPlaceUpdateStrategy in v1beta1.
func preDownloadKeys() []string {
	return []string{
		shared.AnnotationPreDownloadParallelism,
		shared.AnnotationPreDownloadTimeoutSeconds,
		shared.AnnotationPreDownloadMinUpdatedReadyPods,
	}
}

func preDownloadAnnotations(all map[string]string) map[string]string {
	var found map[string]string
	for _, key := range preDownloadKeys() {
		if value, ok := all[key]; ok {
			if found == nil {
				found = map[string]string{}
			}
			found[key] = value
		}
	}
	return found
}

// setAnnotations makes the annotations about pulling images ahead those given. The map of the object is replaced.
func setAnnotations(object *metav1.ObjectMeta, given map[string]string) {
	annotations := maps.Clone(object.Annotations)
	for _, key := range preDownloadKeys() {
		delete(annotations, key)
	}
	if annotations == nil && len(given) > 0 {
		annotations = map[string]string{}
	}
	maps.Copy(annotations, given)
	object.Annotations = annotations
}

// annotatePreDownload writes the fields that are set as annotations, and says whether there were any.
func annotatePreDownload(annotations *map[string]string, from *shared.InPlaceUpdateStrategy) bool {
	written := false
	set := func(key, value string) {
		if *annotations == nil {
			*annotations = map[string]string{}
		}
		(*annotations)[key] = value
		written = true
	}
	if v := from.ImagePreDownloadParallelism; v != nil {
		set(shared.AnnotationPreDownloadParallelism, v.String())
	}
	if v := from.ImagePreDownloadTimeoutSeconds; v != nil {
		set(shared.AnnotationPreDownloadTimeoutSeconds, strconv.Itoa(int(*v)))
	}
	if v := from.ImagePreDownloadMinUpdatedReadyPods; v != nil {
		set(shared.AnnotationPreDownloadMinUpdatedReadyPods, strconv.Itoa(int(*v)))
	}
	return written
}

// inPlaceStrategy reads the annotations into the strategy. What is not a whole number of at least 0 is ignored, percentages
// included: the fields hold none. The fields of the strategy that the annotations stand for have no effect in v1alpha1.
func inPlaceStrategy(strategy *shared.InPlaceUpdateStrategy, annotations map[string]string) *shared.InPlaceUpdateStrategy {
	read := shared.InPlaceUpdateStrategy{}
	if n := number(annotations[shared.AnnotationPreDownloadParallelism]); n != nil {
		parallelism := intstr.FromInt32(*n)
		read.ImagePreDownloadParallelism = &parallelism
	}
	read.ImagePreDownloadTimeoutSeconds = number(annotations[shared.AnnotationPreDownloadTimeoutSeconds])
	read.ImagePreDownloadMinUpdatedReadyPods = number(annotations[shared.AnnotationPreDownloadMinUpdatedReadyPods])
	if strategy == nil && equality.Semantic.DeepEqual(read, shared.InPlaceUpdateStrategy{}) {
		return nil
	}
	if strategy != nil {
		read.GracePeriodSeconds = strategy.GracePeriodSeconds
	}
	return &read
}

func number(text string) *int32 {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 {
		return nil
	}
	is := int32(n)
	return &is
}
