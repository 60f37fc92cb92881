// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/budget"
	"github.com/kruise-operator/kruise-operator/internal/engine/claims"
	pulls "github.com/kruise-operator/kruise-operator/internal/engine/image"
	"github.com/kruise-operator/kruise-operator/internal/engine/inplace"
	"github.com/kruise-operator/kruise-operator/internal/engine/podorder"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

// Kind is the planned kind, in the stored version.
func Kind() schema.GroupVersionKind { return appsv1beta1.GroupVersion().WithKind("CloneSet") }

// Options are the feature gates and flags as far as they concern this kind.
type Options struct {
	// PartitionRollback moves updated pods back when the partition is raised (feature gate CloneSetPartitionRollback).
	PartitionRollback bool
	// PreparingUpdateAsUpdate counts pods at their inPlaceUpdate hook as updated in creations and
	// removals (PreparingUpdateAsUpdate).
	PreparingUpdateAsUpdate bool
	// ExcludePreparingDelete is scaleStrategy.excludePreparingDelete for all sets (flag cloneset-scaling-exclude-preparing-delete).
	ExcludePreparingDelete bool
	// PreDownloadImages has images pulled ahead of updates in place (PreDownloadImageForInPlaceUpdate).
	PreDownloadImages bool
	// InPlace are the allowed changes in place, and with ShortHash the pods' short revisions
	// (CloneSetShortHash).
	InPlace inplace.Options
}

// Spec is a CloneSet for the planner, parsed once in a pass: defaults are filled in, percentages
// are pods, and fields with a closed gate are left out. Comments name the fields of the API.
type Spec struct {
	podset.Spec
	// Set is the set itself. Read-only.
	Set     *appsv1beta1.CloneSet
	Options Options

	// PodsToDelete are the names in scaleStrategy.podsToDelete.
	PodsToDelete map[string]bool
	// ExcludePreparingDelete is scaleStrategy.excludePreparingDelete: pods at their preDelete hook do not count as replicas.
	ExcludePreparingDelete bool
	// EnablePVCReuse is scaleStrategy.enablePVCReuse: the claims of a deleted pod are kept for another one.
	EnablePVCReuse bool

	// MaxSurge is updateStrategy.rollingUpdate.maxSurge: how many pods there may be beyond replicas.
	MaxSurge int
	// Order is updateStrategy.rollingUpdate.priorityStrategy and scatterStrategy.
	Order podorder.UpdateOrder

	// Claims are spec.volumeClaimTemplates.
	Claims claims.Template
	// PreDownload are the fields imagePreDownload* and their annotations.
	PreDownload pulls.Settings
}

// Parse parses the spec of a set. Invalid of the result names an unreadable field.
func Parse(set *appsv1beta1.CloneSet, o Options) *Spec {
	spec := &set.Spec
	s := &Spec{
		Spec: podset.Spec{
			Namespace:       set.Namespace,
			Owner:           *metav1.NewControllerRef(set, Kind()),
			Deleting:        set.DeletionTimestamp != nil,
			Replicas:        int(max(ptr.Deref(spec.Replicas, 1), 0)),
			MinReady:        time.Duration(spec.MinReadySeconds) * time.Second,
			Lifecycle:       ptr.Deref(spec.Lifecycle, shared.Lifecycle{}),
			OnDelete:        spec.UpdateStrategy.Type == appsv1beta1.OnDeleteCloneSetUpdateStrategyType,
			PodUpdatePolicy: shared.RecreatePods,
			InPlace:         o.InPlace,
		},
		Set:                    set,
		Options:                o,
		PodsToDelete:           map[string]bool{},
		ExcludePreparingDelete: spec.ScaleStrategy.ExcludePreparingDelete || o.ExcludePreparingDelete,
		EnablePVCReuse:         spec.ScaleStrategy.EnablePVCReuse,
		Claims:                 claims.Template{Namespace: set.Namespace, Claims: spec.VolumeClaimTemplates},
	}
	for _, name := range spec.ScaleStrategy.PodsToDelete {
		s.PodsToDelete[name] = true
	}
	rolling := ptr.Deref(spec.UpdateStrategy.RollingUpdate, appsv1beta1.RollingUpdateCloneSetStrategy{})
	s.PreDownload = pulls.Parse("PreDownloadImageForInPlaceUpdate", o.PreDownloadImages, rolling.InPlaceUpdateStrategy, set.Annotations, s.Replicas, &s.Ignored)
	if s.Invalid = s.parseScale(); s.Invalid == nil {
		s.Invalid = s.parseRolling(&rolling)
	}
	return s
}

// parseScale parses the selector, and the limit of creations.
func (s *Spec) parseScale() error {
	spec := &s.Set.Spec
	if err := s.ParseSelector(spec.Selector, &spec.Template); err != nil {
		return err
	}
	s.Claims.Labels = spec.Selector.MatchLabels
	limit, err := budget.CloneSetScaleMaxUnavailable(spec.ScaleStrategy.MaxUnavailable, int32(s.Replicas))
	if err != nil {
		return fmt.Errorf("spec.%w", err)
	}
	s.ScaleMaxUnavailable = int(limit)
	return nil
}

// parseRolling parses spec.updateStrategy.rollingUpdate. With OnDelete all of it but maxUnavailable has no effect.
func (s *Spec) parseRolling(rolling *appsv1beta1.RollingUpdateCloneSetStrategy) error {
	const field = "spec.updateStrategy.rollingUpdate."
	replicas := int32(s.Replicas)
	if s.OnDelete {
		limit, err := budget.CloneSetOnDeleteMaxUnavailable(rolling.MaxUnavailable, replicas)
		if err != nil {
			return fmt.Errorf(field+"%w", err)
		}
		s.MaxUnavailable = int(limit)
		return nil
	}
	s.Paused = rolling.Paused
	if rolling.PodUpdatePolicy != "" {
		s.PodUpdatePolicy = rolling.PodUpdatePolicy
	}
	if rolling.InPlaceUpdateStrategy != nil {
		s.GracePeriod = time.Duration(rolling.InPlaceUpdateStrategy.GracePeriodSeconds) * time.Second
	}
	s.Order = podorder.UpdateOrder{Priority: rolling.PriorityStrategy, Scatter: rolling.ScatterStrategy}
	partition, err := budget.CloneSetPartition(rolling.Partition, replicas)
	if err != nil {
		return fmt.Errorf(field+"%w", err)
	}
	unavailable, surge, err := budget.CloneSetLimits(rolling.MaxUnavailable, rolling.MaxSurge, replicas, rolling.Paused)
	if err != nil {
		return fmt.Errorf(field+"%w", err)
	}
	s.Partition, s.MaxUnavailable, s.MaxSurge = int(partition), int(unavailable), int(surge)
	ofMany, _ := budget.CloneSetPartition(rolling.Partition, 100)
	s.KeepsOld = ofMany > 0
	return nil
}

// userDeletes: the user asks for the deletion of a pod, by its label or by
// scaleStrategy.podsToDelete.
func (s *Spec) userDeletes(pod *corev1.Pod) bool {
	_, labeled := pod.Labels[shared.LabelSpecifiedDelete]
	return labeled || s.PodsToDelete[pod.Name]
}

// PreDownload describes the set for pulling images ahead of an update; nil without any.
func PreDownload(spec *Spec, s podset.Snapshot) *pulls.Workload {
	if !spec.Options.PreDownloadImages || spec.Deleting || spec.Invalid != nil {
		return nil
	}
	counted := countedOf(s)
	counts := podset.CountsOf(&counted)
	about := pulls.WorkloadOf(&spec.Spec, spec.PreDownload, &s, counts.UpdatedReady)
	// The rounding down of maxUnavailable tells whether a rollout is one step, however the rollout
	// rounds it.
	if rolling := spec.Set.Spec.UpdateStrategy.RollingUpdate; rolling != nil && rolling.MaxUnavailable != nil {
		if n, err := budget.Count(*rolling.MaxUnavailable, int32(spec.Replicas), budget.Down); err == nil {
			about.MaxUnavailable = int(n)
		}
	}
	if rolledOut(spec, counts) {
		about.Current = s.Update // as the status of this pass says; nothing triggers a pass for it again
	}
	return about
}
