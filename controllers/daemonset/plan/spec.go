// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/budget"
	pulls "github.com/kruise-operator/kruise-operator/internal/engine/image"
	"github.com/kruise-operator/kruise-operator/internal/engine/inplace"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

// Kind is the planned kind, in the stored version.
func Kind() schema.GroupVersionKind { return appsv1beta1.GroupVersion().WithKind("DaemonSet") }

// Options are the feature gates and flags as far as they concern this kind.
type Options struct {
	// AssignNodes binds pods to their nodes without the scheduler (flag
	// assign-pods-by-scheduler=false).
	AssignNodes bool
	// PruneIneligibleNodes leaves unwanted nodes out of updates (DaemonSetPruneIneligibleNodes).
	PruneIneligibleNodes bool
	// PreDownloadImages has images pulled ahead of updates (PreDownloadImageForDaemonSetUpdate).
	PreDownloadImages bool
	// InPlace are the allowed changes in place.
	InPlace inplace.Options
}

// Spec is a DaemonSet for the planner, parsed once in a pass: defaults are filled in, and
// percentages are nodes. Its Replicas are the wanted nodes. Comments name the fields of the API.
type Spec struct {
	podset.Spec
	// Set is the set itself. Read-only.
	Set     *appsv1beta1.DaemonSet
	Options Options

	// MaxSurge is updateStrategy.rollingUpdate.maxSurge: on how many nodes a new pod may run beside the old one.
	MaxSurge int
	// NodeSelector is updateStrategy.rollingUpdate.selector: the nodes to update. Nil: all.
	NodeSelector labels.Selector
	// Burst is burstReplicas.
	Burst int
	// PartitionedScaling is scaleStrategy.partitionedScaling: the partition limits creations, too.
	PartitionedScaling bool

	// PreDownload are the annotations about pulling images ahead of updates.
	PreDownload pulls.Settings
}

// Parse parses the spec of a set with desired wanted nodes. Invalid of the result names an
// unreadable field.
func Parse(set *appsv1beta1.DaemonSet, desired int, o Options) *Spec {
	spec := &set.Spec
	s := &Spec{
		Spec: podset.Spec{
			Namespace:       set.Namespace,
			Owner:           *metav1.NewControllerRef(set, Kind()),
			Deleting:        set.DeletionTimestamp != nil,
			Replicas:        desired,
			MinReady:        time.Duration(spec.MinReadySeconds) * time.Second,
			OnDelete:        spec.UpdateStrategy.Type == appsv1beta1.OnDeleteDaemonSetStrategyType,
			PodUpdatePolicy: shared.RecreatePods,
			PolicyField:     "rollingUpdateType",
			NeedsGate:       true,
			InPlace:         o.InPlace,
		},
		Set:                set,
		Options:            o,
		PartitionedScaling: spec.ScaleStrategy != nil && spec.ScaleStrategy.PartitionedScaling,
	}
	s.InPlace.ShortHash, s.InPlace.AsWritten = true, true
	if spec.Lifecycle != nil {
		s.Lifecycle.PreDelete = spec.Lifecycle.PreDelete // the other hooks have no effect
	}
	s.PreDownload = pulls.Parse("PreDownloadImageForDaemonSetUpdate", o.PreDownloadImages, nil, set.Annotations, desired, &s.Ignored)
	if s.Invalid = s.ParseSelector(spec.Selector, &spec.Template); s.Invalid == nil {
		s.Invalid = s.parseRolling()
	}
	return s
}

// parseRolling parses burstReplicas and spec.updateStrategy.rollingUpdate. With OnDelete only its
// partition has an effect: it may limit creations.
func (s *Spec) parseRolling() error {
	const field = "spec.updateStrategy.rollingUpdate."
	spec, desired := &s.Set.Spec, int32(s.Replicas)
	burst, err := budget.DaemonSetBurst(spec.BurstReplicas, desired)
	if err != nil {
		return fmt.Errorf("spec.%w", err)
	}
	s.Burst = int(burst)

	rolling := spec.UpdateStrategy.RollingUpdate
	if rolling == nil {
		rolling = &appsv1beta1.RollingUpdateDaemonSet{}
	}
	s.Paused = ptr.Deref(rolling.Paused, false)
	if rolling.Type == appsv1beta1.InplaceRollingUpdateType {
		s.PodUpdatePolicy = shared.InPlaceIfPossible
	}
	partition, err := budget.DaemonSetPartition(rolling.Partition, desired)
	if err != nil {
		return fmt.Errorf(field+"%w", err)
	}
	unavailable, surge, err := budget.DaemonSetLimits(rolling.MaxUnavailable, rolling.MaxSurge, desired)
	if err != nil {
		return fmt.Errorf(field+"%w", err)
	}
	s.Partition, s.MaxUnavailable, s.MaxSurge = int(partition), int(unavailable), int(surge)
	if port := Shared(&spec.Template); port != "" && s.surges() {
		s.Ignored.NoEffect = append(s.Ignored.NoEffect, field+"maxSurge: a new pod cannot run beside the old one, because of "+port)
	}
	if rolling.Selector != nil {
		if s.NodeSelector, err = metav1.LabelSelectorAsSelector(rolling.Selector); err != nil {
			return fmt.Errorf(field+"selector: %w", err)
		}
	}
	return nil
}

// Shared names the port that keeps two pods of the template from one node; empty without one.
func Shared(template *corev1.PodTemplateSpec) string {
	for _, container := range slices.Concat(template.Spec.InitContainers, template.Spec.Containers) {
		for _, port := range container.Ports {
			number := port.HostPort
			if template.Spec.HostNetwork {
				number = cmp.Or(number, port.ContainerPort)
			}
			if number > 0 {
				return fmt.Sprintf("port %d of the node, which container %s uses", number, container.Name)
			}
		}
	}
	return ""
}

// surges: updates run the new pod beside the old one.
func (s *Spec) surges() bool { return s.MaxSurge > 0 && !s.OnDelete }
