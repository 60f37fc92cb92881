// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecarspec"
	"github.com/kruise-operator/kruise-operator/internal/engine/budget"
	"github.com/kruise-operator/kruise-operator/internal/engine/inplace"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

// Kind is the planned kind, in its stored version.
func Kind() schema.GroupVersionKind { return appsv1beta1.GroupVersion().WithKind("SidecarSet") }

// Spec is a SidecarSet, parsed once a pass. Comments name the API's fields.
type Spec struct {
	// Set is the set itself. Read-only.
	Set *appsv1beta1.SidecarSet
	// Deleting: the set is being deleted.
	Deleting bool
	// Invalid is the fault of an unparsable spec.
	Invalid error

	// Selector is spec.selector, NamespaceSelector likewise; nil: every namespace.
	Selector, NamespaceSelector labels.Selector
	// UpdateSelector is updateStrategy.selector; nil: every pod.
	UpdateSelector labels.Selector
	// NotUpdate is updateStrategy.type, Paused likewise.
	NotUpdate, Paused bool

	// Containers are spec.containers.
	Containers []Container
	// List are the names of these and of the native sidecars, sorted, as pods carry them.
	List []string
	// Hashes of the present spec. A pod carrying them is up to date.
	Hashes sidecarspec.Hashes
	// Recorded are the images of recorded revisions, by revision and container.
	Recorded map[string]map[string]string
	// Kept names fields out of reach of running pods, by recorded revision.
	Kept map[string]string
}

// Container is a sidecar updated in place.
type Container struct {
	Name, Image string
	// Hot: a pod has two containers, the idle one with EmptyImage.
	Hot        bool
	EmptyImage string
}

// Parse parses a set with these hashes. Invalid names an unparsable field.
func Parse(set *appsv1beta1.SidecarSet, hashes sidecarspec.Hashes) *Spec {
	strategy := &set.Spec.UpdateStrategy
	s := &Spec{
		Set:       set,
		Deleting:  set.DeletionTimestamp != nil,
		NotUpdate: strategy.Type == appsv1beta1.NotUpdateSidecarSetStrategyType,
		Paused:    strategy.Paused,
		Hashes:    hashes,
	}
	for i := range set.Spec.Containers {
		c := &set.Spec.Containers[i]
		s.Containers = append(s.Containers, Container{
			Name: c.Name, Image: c.Image,
			Hot: c.UpgradeStrategy.UpgradeType == appsv1beta1.HotUpgrade, EmptyImage: c.UpgradeStrategy.HotUpgradeEmptyImage,
		})
		s.List = append(s.List, c.Name)
	}
	for i := range set.Spec.InitContainers {
		if c := &set.Spec.InitContainers[i]; sidecarspec.IsNative(c) {
			s.List = append(s.List, c.Name)
		}
	}
	slices.Sort(s.List)
	s.Invalid = s.parse()
	return s
}

func (s *Spec) parse() error {
	spec := &s.Set.Spec
	var err error
	if s.Selector, err = podset.Selector(spec.Selector); err != nil {
		return err
	}
	if s.NamespaceSelector, err = selector("spec.namespaceSelector", spec.NamespaceSelector); err != nil {
		return err
	}
	if s.UpdateSelector, err = selector("spec.updateStrategy.selector", spec.UpdateStrategy.Selector); err != nil {
		return err
	}
	if _, err := s.partition(0); err != nil {
		return err
	}
	if _, err := s.maxUnavailable(0); err != nil {
		return err
	}
	for i := range s.Containers {
		if c := &s.Containers[i]; c.Hot && c.EmptyImage == "" {
			return fmt.Errorf("spec.containers[%d].upgradeStrategy.hotUpgradeEmptyImage: HotUpgrade requires it", i)
		}
	}
	return nil
}

func selector(field string, s *metav1.LabelSelector) (labels.Selector, error) {
	if s == nil {
		return nil, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	return selector, nil
}

// partition is updateStrategy.partition of so many matched pods.
func (s *Spec) partition(matched int) (int, error) {
	n, err := budget.CloneSetPartition(s.Set.Spec.UpdateStrategy.Partition, int32(matched)) //nolint:gosec // pods of one cluster
	if err != nil {
		return 0, fmt.Errorf("spec.updateStrategy.%w", err)
	}
	return int(n), nil
}

// maxUnavailable is updateStrategy.maxUnavailable of so many matched pods.
func (s *Spec) maxUnavailable(matched int) (int, error) {
	n, err := budget.MaxUnavailable(s.Set.Spec.UpdateStrategy.MaxUnavailable, int32(matched), intstr.FromInt32(1), budget.Up) //nolint:gosec // as above
	if err != nil {
		return 0, fmt.Errorf("spec.updateStrategy.%w", err)
	}
	return int(n), nil
}

// record is where the last update of a pod's sidecars is remembered on the pod.
func (s *Spec) record() inplace.Record {
	return inplace.Record{
		State: shared.AnnotationSidecarSetInPlaceState, Evidence: shared.AnnotationSidecarSetInPlaceEvidence, Member: s.Set.Name,
	}
}

// NeedsNamespaces reports whether namespace labels must be read. A selector of one name does without.
func (s *Spec) NeedsNamespaces() bool {
	if s.NamespaceSelector == nil {
		return false
	}
	requirements, _ := s.NamespaceSelector.Requirements()
	return slices.ContainsFunc(requirements, func(r labels.Requirement) bool { return r.Key() != corev1.LabelMetadataName })
}

// SelectsNamespace reports whether the set selects pods of this namespace.
func (s *Spec) SelectsNamespace(name string, all map[string]string) bool {
	if s.NamespaceSelector == nil {
		return true
	}
	if all == nil {
		all = map[string]string{corev1.LabelMetadataName: name}
	}
	return s.NamespaceSelector.Matches(labels.Set(all))
}
