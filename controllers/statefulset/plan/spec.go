// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/budget"
	"github.com/kruise-operator/kruise-operator/internal/engine/claims"
	pulls "github.com/kruise-operator/kruise-operator/internal/engine/image"
	"github.com/kruise-operator/kruise-operator/internal/engine/inplace"
	"github.com/kruise-operator/kruise-operator/internal/engine/ordinal"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

// Kind is the planned kind, in the stored version.
func Kind() schema.GroupVersionKind { return appsv1beta1.GroupVersion().WithKind("StatefulSet") }

// Options are the feature gates as far as they concern this kind.
type Options struct {
	// StartOrdinal honors spec.ordinals.start (feature gate StatefulSetStartOrdinal).
	StartOrdinal bool
	// AutoDeletePVC honors the claim retention policy (StatefulSetAutoDeletePVC).
	AutoDeletePVC bool
	// AutoResizePVC honors the claim update strategy (StatefulSetAutoResizePVCGate).
	AutoResizePVC bool
	// PodIndexLabel gives new pods their ordinal as a label (PodIndexLabel).
	PodIndexLabel bool
	// PreDownloadImages has images pulled ahead of updates in place (PreDownloadImageForInPlaceUpdate).
	PreDownloadImages bool
	// InPlace are the allowed changes in place.
	InPlace inplace.Options
}

// Spec is a StatefulSet for the planner, parsed once in a pass: defaults are filled in, percentages
// are pods, and fields with a closed gate are left out. Comments name the fields of the API.
type Spec struct {
	podset.Spec
	// Set is the set itself. Read-only.
	Set     *appsv1beta1.StatefulSet
	Options Options

	// Ordinals are the wanted ones: spec.replicas of them from spec.ordinals.start, without
	// spec.reserveOrdinals.
	Ordinals ordinal.Set
	// Parallel is spec.podManagementPolicy; otherwise it is OrderedReady.
	Parallel bool
	// Unordered is updateStrategy.rollingUpdate.unorderedUpdate, PriorityStrategy the field in it.
	Unordered        bool
	PriorityStrategy *shared.UpdatePriorityStrategy

	// Claims are spec.volumeClaimTemplates.
	Claims claims.Template
	// Retention is spec.persistentVolumeClaimRetentionPolicy. It is followed only with the option AutoDeletePVC.
	Retention claims.Retention
	// Resize is spec.volumeClaimUpdateStrategy: claims grow with their template when their pod is updated.
	Resize bool

	// PreDownload are the fields imagePreDownload* and their annotations.
	PreDownload pulls.Settings
}

// Parse parses the spec of a set. Invalid of the result names an unreadable field.
func Parse(set *appsv1beta1.StatefulSet, o Options) *Spec {
	spec := &set.Spec
	s := &Spec{
		Spec: podset.Spec{
			Namespace:           set.Namespace,
			Owner:               *metav1.NewControllerRef(set, Kind()),
			Deleting:            set.DeletionTimestamp != nil,
			Replicas:            int(ptr.Deref(spec.Replicas, 1)),
			Lifecycle:           ptr.Deref(spec.Lifecycle, shared.Lifecycle{}),
			OnDelete:            spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType,
			PodUpdatePolicy:     shared.RecreatePods,
			MaxUnavailable:      1,
			ScaleMaxUnavailable: int(budget.Unlimited),
			InPlace:             o.InPlace,
		},
		Set:       set,
		Options:   o,
		Parallel:  spec.PodManagementPolicy == appsv1.ParallelPodManagement,
		Claims:    claims.Template{Namespace: set.Namespace, Claims: spec.VolumeClaimTemplates},
		Retention: claims.RetentionOf(spec.PersistentVolumeClaimRetentionPolicy),
		Resize:    o.AutoResizePVC && growsClaims(set),
	}
	if spec.Selector != nil {
		s.Claims.Labels = spec.Selector.MatchLabels
	}
	s.parseIgnored()
	if s.Invalid = s.parseOrdinals(); s.Invalid == nil {
		s.Invalid = s.parseRolling()
	}
	return s
}

// parseOrdinals parses the wanted pods.
func (s *Spec) parseOrdinals() error {
	spec := &s.Set.Spec
	if err := s.ParseSelector(spec.Selector, &spec.Template); err != nil {
		return err
	}
	replicas := ptr.Deref(spec.Replicas, 1)
	var start int32
	if s.Options.StartOrdinal && spec.Ordinals != nil {
		if start = spec.Ordinals.Start; start < 0 {
			return fmt.Errorf("spec.ordinals.start: %d is negative", start)
		}
	}
	var err error
	if s.Ordinals, err = ordinal.New(start, replicas, spec.ReserveOrdinals); err != nil {
		return fmt.Errorf("spec.reserveOrdinals: %w", err)
	}
	if scale := spec.ScaleStrategy; scale != nil {
		limit, err := budget.StatefulSetScaleMaxUnavailable(scale.MaxUnavailable, replicas)
		if err != nil {
			return fmt.Errorf("spec.%w", err)
		}
		s.ScaleMaxUnavailable = int(limit)
	}
	return nil
}

// parseRolling parses spec.updateStrategy.rollingUpdate. Without it there is no partition, and one pod may be unavailable.
func (s *Spec) parseRolling() error {
	rolling := s.Set.Spec.UpdateStrategy.RollingUpdate
	if rolling == nil {
		return nil
	}
	s.Paused = rolling.Paused
	s.Partition = int(max(ptr.Deref(rolling.Partition, 0), 0))
	s.KeepsOld = s.Partition > 0
	s.MinReady = time.Duration(ptr.Deref(rolling.MinReadySeconds, 0)) * time.Second
	if rolling.PodUpdatePolicy != "" {
		s.PodUpdatePolicy = rolling.PodUpdatePolicy
	}
	if rolling.InPlaceUpdateStrategy != nil {
		s.GracePeriod = time.Duration(rolling.InPlaceUpdateStrategy.GracePeriodSeconds) * time.Second
	}
	if rolling.UnorderedUpdate != nil {
		s.Unordered, s.PriorityStrategy = true, rolling.UnorderedUpdate.PriorityStrategy
	}
	limit, err := budget.StatefulSetMaxUnavailable(rolling.MaxUnavailable, int32(s.Replicas))
	if err != nil {
		return fmt.Errorf("spec.updateStrategy.rollingUpdate.%w", err)
	}
	s.MaxUnavailable = int(limit)
	return nil
}

// parseIgnored records fields with their feature gate off, and unreadable optional settings.
func (s *Spec) parseIgnored() {
	spec, o := &s.Set.Spec, s.Options
	if !o.StartOrdinal && spec.Ordinals != nil && spec.Ordinals.Start != 0 {
		s.Ignored.ByGate("spec.ordinals.start", "StatefulSetStartOrdinal")
	}
	if !o.AutoDeletePVC && (s.Retention.WhenDeleted || s.Retention.WhenScaled) {
		s.Ignored.ByGate("spec.persistentVolumeClaimRetentionPolicy", "StatefulSetAutoDeletePVC")
	}
	if !o.AutoResizePVC && growsClaims(s.Set) {
		s.Ignored.ByGate("spec.volumeClaimUpdateStrategy.type", "StatefulSetAutoResizePVCGate")
	}
	rolling := ptr.Deref(spec.UpdateStrategy.RollingUpdate, appsv1beta1.RollingUpdateStatefulSetStrategy{})
	s.PreDownload = pulls.Parse("PreDownloadImageForInPlaceUpdate", o.PreDownloadImages, rolling.InPlaceUpdateStrategy, s.Set.Annotations, s.Replicas, &s.Ignored)
}

// creations is how many pods a plan creates at most.
func (s *Spec) creations() int { return podset.Creations(s.Claims.Claims) }

func growsClaims(set *appsv1beta1.StatefulSet) bool {
	return set.Spec.VolumeClaimUpdateStrategy.Type == appsv1beta1.OnPodRollingUpdateVolumeClaimUpdateStrategyType
}

// staysOld: the ordinal is one of the partition's, at the current revision.
func (s *Spec) staysOld(o int) bool {
	return s.Partition >= s.Replicas || s.Partition > 0 && o < s.Ordinals.Nth(s.Partition)
}

// PreDownload describes the set for pulling images ahead of an update; nil without any.
func PreDownload(spec *Spec, s podset.Snapshot) *pulls.Workload {
	if !spec.Options.PreDownloadImages || spec.Deleting || spec.Invalid != nil {
		return nil
	}
	counts := podset.CountsOf(&s)
	about := pulls.WorkloadOf(&spec.Spec, spec.PreDownload, &s, counts.UpdatedReady)
	if rolledOut(spec, counts) {
		about.Current = s.Update // as the status of this pass says; nothing triggers a pass for it again
	}
	return about
}
