// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package cloneset

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// Options are the feature gates and flags as far as they concern this kind.
type Options struct {
	// PartitionRollback moves updated pods back when the partition is raised (feature gate CloneSetPartitionRollback).
	PartitionRollback bool
	// PreparingUpdateAsUpdate counts pods that wait for their inPlaceUpdate hook as updated when pods are created or removed
	// (PreparingUpdateAsUpdate).
	PreparingUpdateAsUpdate bool
	// ExcludePreparingDelete is scaleStrategy.excludePreparingDelete for all sets (flag cloneset-scaling-exclude-preparing-delete).
	ExcludePreparingDelete bool
	// PreDownloadImages has images pulled ahead of updates in place (PreDownloadImageForInPlaceUpdate).
	PreDownloadImages bool
	// InPlace says what may change in place, and with ShortHash how revisions are written on pods (CloneSetShortHash).
	InPlace inplace.Options
	// NodeLabel is the value of a label of a node; "" when the node has none or is not known. Only asked for the keys of the template's
	// topology spread constraints. Nil: no node is known.
	NodeLabel func(node, key string) string
}

// wanted is the spec with everything left out filled in and percentages as numbers.
type wanted struct {
	numbers
	onDelete, paused bool
	policy           shared.PodUpdatePolicy
	grace            time.Duration
	minReady         time.Duration
	order            podorder.UpdateOrder
	podsToDelete     map[string]bool

	claims      claims.Template
	reuseClaims bool
}

// asked says that the user wants the pod deleted.
func (w *wanted) asked(pod *corev1.Pod) bool {
	_, labeled := pod.Labels[shared.LabelSpecifiedDelete]
	return labeled || w.podsToDelete[pod.Name]
}

// read understands the spec. The error names the field that cannot be read; of the result only replicas and minReady are then of use.
func read(set *appsv1beta1.CloneSet, o Options) (wanted, error) {
	spec := &set.Spec
	replicas := max(ptr.Deref(spec.Replicas, 1), 0)
	w := wanted{
		numbers: numbers{
			replicas: int(replicas), excludeParked: spec.ScaleStrategy.ExcludePreparingDelete || o.ExcludePreparingDelete,
		},
		onDelete:     spec.UpdateStrategy.Type == appsv1beta1.OnDeleteCloneSetUpdateStrategyType,
		policy:       shared.RecreatePods,
		minReady:     time.Duration(spec.MinReadySeconds) * time.Second,
		podsToDelete: map[string]bool{},
		claims:       claims.Template{Namespace: set.Namespace, Claims: spec.VolumeClaimTemplates},
		reuseClaims:  spec.ScaleStrategy.EnablePVCReuse,
	}
	for _, name := range spec.ScaleStrategy.PodsToDelete {
		w.podsToDelete[name] = true
	}
	if _, err := podset.Selector(spec.Selector); err != nil {
		return w, err
	}
	w.claims.Labels = spec.Selector.MatchLabels

	limit, err := budget.CloneSetScaleMaxUnavailable(spec.ScaleStrategy.MaxUnavailable, replicas)
	if err != nil {
		return w, fmt.Errorf("spec.%w", err)
	}
	w.scaleMaxUnavailable = int(limit)

	const field = "spec.updateStrategy.rollingUpdate."
	rolling := spec.UpdateStrategy.RollingUpdate
	if rolling == nil {
		rolling = &appsv1beta1.RollingUpdateCloneSetStrategy{}
	}
	if w.onDelete {
		limit, err := budget.CloneSetOnDeleteMaxUnavailable(rolling.MaxUnavailable, replicas)
		if err != nil {
			return w, fmt.Errorf(field+"%w", err)
		}
		w.maxUnavailable = int(limit)
		return w, nil
	}
	w.paused = rolling.Paused
	if rolling.PodUpdatePolicy != "" {
		w.policy = rolling.PodUpdatePolicy
	}
	if rolling.InPlaceUpdateStrategy != nil {
		w.grace = time.Duration(rolling.InPlaceUpdateStrategy.GracePeriodSeconds) * time.Second
	}
	w.order = podorder.UpdateOrder{Priority: rolling.PriorityStrategy, Scatter: rolling.ScatterStrategy}
	partition, err := budget.CloneSetPartition(rolling.Partition, replicas)
	if err != nil {
		return w, fmt.Errorf(field+"%w", err)
	}
	unavailable, surge, err := budget.CloneSetLimits(rolling.MaxUnavailable, rolling.MaxSurge, replicas, rolling.Paused)
	if err != nil {
		return w, fmt.Errorf(field+"%w", err)
	}
	w.partition, w.maxUnavailable, w.maxSurge = int(partition), int(unavailable), int(surge)
	w.rollBack = o.PartitionRollback
	return w, nil
}

// pullingWorkload is the set as far as pulling images ahead of an update is concerned; false when its spec cannot be read.
func pullingWorkload(set *appsv1beta1.CloneSet, s podset.Snapshot, o Options) (pulls.Workload, bool) {
	w, err := read(set, o)
	if err != nil {
		return pulls.Workload{}, false
	}
	// Whether a rollout is over in one step is judged by maxUnavailable rounded down, whichever way it is rounded for the rollout.
	atOnce := w.maxUnavailable
	if rolling := set.Spec.UpdateStrategy.RollingUpdate; rolling != nil && rolling.MaxUnavailable != nil {
		if n, err := budget.Count(*rolling.MaxUnavailable, int32(w.replicas), budget.Down); err == nil {
			atOnce = int(n)
		}
	}
	counted := countedOf(s)
	counts := podset.Tally(&counted)
	current := s.Current
	if rolledOut(counts, w.replicas) {
		current = s.Update // as the status of this pass says; nothing wakes a set for it again
	}
	settings, _ := pulls.ReadSettings(inPlaceStrategy(set), set.Annotations, int32(w.replicas))
	return pulls.Workload{
		Namespace: set.Namespace, Owner: *metav1.NewControllerRef(set, Kind()), Selector: set.Spec.Selector,
		Replicas: int32(w.replicas), Partition: int32(w.partition), MaxUnavailable: int32(atOnce),
		OnDelete: w.onDelete, Policy: w.policy, InPlace: o.InPlace, Settings: settings,
		UpdatedReady: counts.UpdatedReady, Current: current, Update: s.Update,
	}, true
}

func inPlaceStrategy(set *appsv1beta1.CloneSet) *shared.InPlaceUpdateStrategy {
	if rolling := set.Spec.UpdateStrategy.RollingUpdate; rolling != nil {
		return rolling.InPlaceUpdateStrategy
	}
	return nil
}
