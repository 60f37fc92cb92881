// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package statefulset

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	// InPlace says what may change in place.
	InPlace inplace.Options
}

// wanted is the spec with everything left out filled in, percentages as numbers, and what a feature gate forbids left out.
type wanted struct {
	replicas int
	ordinals ordinal.Set
	parallel bool

	onDelete  bool
	paused    bool
	partition int
	unordered bool
	priority  *shared.UpdatePriorityStrategy
	policy    shared.PodUpdatePolicy
	grace     time.Duration
	minReady  time.Duration
	// maxUnavailable limits updates, scaleMaxUnavailable creation.
	maxUnavailable, scaleMaxUnavailable int

	claims    claims.Template
	retention claims.Retention
	// owners says that the owners of claims are ours to keep right, resize that claims grow with their template.
	owners, resize bool
}

// read understands the spec. The error names the field that cannot be read; of the result only replicas is then of use.
func read(set *appsv1beta1.StatefulSet, o Options) (wanted, error) {
	spec := &set.Spec
	replicas := ptr.Deref(spec.Replicas, 1)
	w := wanted{
		replicas:       int(replicas),
		parallel:       spec.PodManagementPolicy == appsv1.ParallelPodManagement,
		onDelete:       spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType,
		policy:         shared.RecreatePods,
		maxUnavailable: 1, scaleMaxUnavailable: int(budget.Unlimited),
		owners:    o.AutoDeletePVC,
		retention: claims.RetentionOf(spec.PersistentVolumeClaimRetentionPolicy),
		resize:    o.AutoResizePVC && spec.VolumeClaimUpdateStrategy.Type == appsv1beta1.OnPodRollingUpdateVolumeClaimUpdateStrategyType,
	}
	w.claims = claims.Template{Namespace: set.Namespace, Claims: spec.VolumeClaimTemplates}
	if spec.Selector != nil {
		w.claims.Labels = spec.Selector.MatchLabels
	}

	if _, err := podset.Selector(spec.Selector); err != nil {
		return w, err
	}
	var start int32
	if o.StartOrdinal && spec.Ordinals != nil {
		if start = spec.Ordinals.Start; start < 0 {
			return w, fmt.Errorf("spec.ordinals.start: %d is negative", start)
		}
	}
	var err error
	if w.ordinals, err = ordinal.New(start, replicas, spec.ReserveOrdinals); err != nil {
		return w, fmt.Errorf("spec.reserveOrdinals: %w", err)
	}
	if scale := spec.ScaleStrategy; scale != nil {
		limit, err := budget.StatefulSetScaleMaxUnavailable(scale.MaxUnavailable, replicas)
		if err != nil {
			return w, fmt.Errorf("spec.%w", err)
		}
		w.scaleMaxUnavailable = int(limit)
	}
	rolling := spec.UpdateStrategy.RollingUpdate
	if rolling == nil {
		return w, nil
	}
	w.paused = rolling.Paused
	w.partition = int(max(ptr.Deref(rolling.Partition, 0), 0))
	w.minReady = time.Duration(ptr.Deref(rolling.MinReadySeconds, 0)) * time.Second
	if rolling.PodUpdatePolicy != "" {
		w.policy = rolling.PodUpdatePolicy
	}
	if rolling.InPlaceUpdateStrategy != nil {
		w.grace = time.Duration(rolling.InPlaceUpdateStrategy.GracePeriodSeconds) * time.Second
	}
	if rolling.UnorderedUpdate != nil {
		w.unordered, w.priority = true, rolling.UnorderedUpdate.PriorityStrategy
	}
	limit, err := budget.StatefulSetMaxUnavailable(rolling.MaxUnavailable, replicas)
	if err != nil {
		return w, fmt.Errorf("spec.updateStrategy.rollingUpdate.%w", err)
	}
	w.maxUnavailable = int(limit)
	return w, nil
}

// staysOld says whether the ordinal is one of the lowest that the partition keeps at the current revision.
func (w *wanted) staysOld(o int) bool {
	return w.partition >= w.replicas || w.partition > 0 && o < w.ordinals.Nth(w.partition)
}

// pullingWorkload is the set as far as pulling images ahead of an update is concerned; false when its spec cannot be read.
func pullingWorkload(set *appsv1beta1.StatefulSet, s podset.Snapshot, o Options) (pulls.Workload, bool) {
	w, err := read(set, o)
	if err != nil {
		return pulls.Workload{}, false
	}
	counts := podset.Tally(&s)
	current := s.Current
	if !w.onDelete && rolledOut(counts, w.replicas) {
		current = s.Update // as the status of this pass says; nothing wakes a set for it again
	}
	settings, _ := pulls.ReadSettings(inPlaceStrategy(set), set.Annotations, int32(w.replicas))
	return pulls.Workload{
		Namespace: set.Namespace, Owner: *metav1.NewControllerRef(set, Kind()), Selector: set.Spec.Selector,
		Replicas: int32(w.replicas), Partition: int32(w.partition), MaxUnavailable: int32(w.maxUnavailable),
		OnDelete: w.onDelete, Policy: w.policy, InPlace: o.InPlace, Settings: settings,
		UpdatedReady: counts.UpdatedReady, Current: current, Update: s.Update,
	}, true
}

func inPlaceStrategy(set *appsv1beta1.StatefulSet) *shared.InPlaceUpdateStrategy {
	if rolling := set.Spec.UpdateStrategy.RollingUpdate; rolling != nil {
		return rolling.InPlaceUpdateStrategy
	}
	return nil
}
