// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package united says what the spec of a UnitedDeployment means: its parsed form, the kinds of its
// workloads, the workload of a subset for an apply, and the record of templates. Its planner and
// its admission both need it.
//
//   - spec.go: Parse gives a Spec.
//   - adapters.go: the table of the kinds of subsets.
//   - manifest.go: the workload of a subset. drift.go: whether a workload is that already.
//   - revision.go: revisions of templates.
package united

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/subset"
)

const (
	// defaultCritical is rescheduleCriticalSeconds, defaultUnschedulable unschedulableDuration when it is omitted.
	defaultCritical      = 30 * time.Second
	defaultUnschedulable = 300 * time.Second
)

// Spec is the spec of a UnitedDeployment, parsed.
type Spec struct {
	// Set is the object. Read-only.
	Set *appsv1beta1.UnitedDeployment
	// Deleting objects have a deletion timestamp.
	Deleting bool
	// Invalid is why the spec cannot be followed; nil when it can.
	Invalid error

	// Replicas is how many pods there should be.
	Replicas int
	// Selector matches the pods.
	Selector labels.Selector
	// Adapter is the workloads' kind.
	Adapter Adapter
	// Metadata are labels and annotations of the workloads, Template is their spec.
	Metadata metav1.ObjectMeta
	Template map[string]any
	// Subsets are the subsets, in the order of the topology.
	Subsets []Subset
	// Mode says how unschedulable pods are handled.
	Mode subset.Mode
	// Critical is how long a pod may be unschedulable, Unschedulable how long its subset counts as unschedulable then.
	Critical, Unschedulable time.Duration
	// KeepRemoved: workloads of removed subsets wait for their replacements.
	KeepRemoved bool
}

// Subset is one subset, parsed.
type Subset struct {
	Name string
	// Requirements and Tolerations are added to the pod template.
	Requirements []corev1.NodeSelectorRequirement
	Tolerations  []corev1.Toleration
	// Replicas, Min and Max are nil when they are omitted.
	Replicas, Min, Max *subset.Size
	// Patch is a strategic merge patch of the pod template; nil when there is none. PatchText is the same as text.
	Patch     map[string]any
	PatchText string
	// Partition is how many pods stay at the revision before.
	Partition int
}

var errNoTemplate = errors.New("spec.template has none of statefulSetTemplate, advancedStatefulSetTemplate, cloneSetTemplate and deploymentTemplate")

// Parse reads the spec once. Faults are in Invalid.
func Parse(set *appsv1beta1.UnitedDeployment) *Spec {
	s := &Spec{
		Set: set, Deleting: set.DeletionTimestamp != nil,
		Replicas: int(max(ptr.Deref(set.Spec.Replicas, 1), 0)),
		Mode:     subset.Stay, Critical: defaultCritical, Unschedulable: defaultUnschedulable,
		KeepRemoved: set.Annotations[shared.AnnotationSubsetRemoval] == shared.SubsetRemovalAfterReplacement,
	}
	s.Invalid = errors.Join(s.parseSelector(), s.takeTemplate(&set.Spec.Template), s.parseSubsets())
	s.parseSchedule()
	return s
}

func (s *Spec) parseSelector() error {
	selector, err := metav1.LabelSelectorAsSelector(s.Set.Spec.Selector)
	if err != nil {
		return fmt.Errorf("spec.selector: %w", err)
	}
	if s.Set.Spec.Selector == nil || selector.Empty() {
		return errors.New("spec.selector is empty: it would match every pod")
	}
	s.Selector = selector
	return nil
}

// Recorded makes workloads from the recorded template with the same meaning, where OpenKruise
// filled it in: its defaults stay in force.
func (s *Spec) Recorded(t *appsv1beta1.SubsetTemplate) error {
	spec, _, err := typed(s.Adapter, s.Adapter.Template(t).Spec.Raw)
	if err != nil || !filledIn(s.Adapter, podTemplateOf(spec)) {
		return nil //nolint:nilerr // What cannot be read was not filled in.
	}
	return s.takeTemplate(t)
}

func (s *Spec) takeTemplate(t *appsv1beta1.SubsetTemplate) error {
	given := Given(t)
	if len(given) == 0 {
		return errNoTemplate
	}
	if len(given) > 1 {
		return fmt.Errorf("spec.template has both %s and %s: only one may be set", given[0].Field, given[1].Field)
	}
	s.Adapter = given[0]
	template := s.Adapter.Template(t)
	s.Metadata, s.Template = template.Metadata, nil
	if err := json.Unmarshal(template.Spec.Raw, &s.Template); err != nil || s.Template == nil {
		return fmt.Errorf("spec.template.%s.spec is not an object", s.Adapter.Field)
	}
	dropNulls(s.Template)
	if _, ok := s.Template["template"].(map[string]any); !ok {
		return fmt.Errorf("spec.template.%s.spec.template is not an object", s.Adapter.Field)
	}
	return nil
}

func (s *Spec) parseSubsets() error {
	var partitions map[string]int32
	if manual := s.Set.Spec.UpdateStrategy.ManualUpdate; manual != nil {
		partitions = manual.Partitions
	}
	var errs []error
	for i := range s.Set.Spec.Topology.Subsets {
		given := &s.Set.Spec.Topology.Subsets[i]
		size := func(name string, value *intstr.IntOrString) *subset.Size {
			if value == nil {
				return nil
			}
			parsed, err := subset.Parse(*value)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s of subset %s: %w", name, given.Name, err))
			}
			return parsed
		}
		parsed := Subset{
			Name: given.Name, Requirements: given.NodeSelectorTerm.MatchExpressions, Tolerations: given.Tolerations,
			Replicas: size("replicas", given.Replicas), Min: size("minReplicas", given.MinReplicas), Max: size("maxReplicas", given.MaxReplicas),
			Partition: int(max(partitions[given.Name], 0)),
		}
		if given.Patch != nil && len(given.Patch.Raw) > 0 && string(given.Patch.Raw) != "null" {
			parsed.PatchText = string(given.Patch.Raw)
			if err := json.Unmarshal(given.Patch.Raw, &parsed.Patch); err != nil {
				errs = append(errs, fmt.Errorf("patch of subset %s: %w", given.Name, err))
			}
		}
		s.Subsets = append(s.Subsets, parsed)
	}
	return errors.Join(errs...)
}

func (s *Spec) parseSchedule() {
	schedule := &s.Set.Spec.Topology.ScheduleStrategy
	if schedule.Type != appsv1beta1.AdaptiveScheduleStrategy {
		return
	}
	s.Mode = subset.Reschedule
	adaptive := schedule.Adaptive
	if adaptive == nil {
		return
	}
	seconds := func(value *int32, def time.Duration) time.Duration {
		if value == nil || *value < 0 {
			return def
		}
		return time.Duration(*value) * time.Second
	}
	s.Critical = seconds(adaptive.RescheduleCriticalSeconds, defaultCritical)
	s.Unschedulable = seconds(adaptive.UnschedulableDuration, defaultUnschedulable)
	if adaptive.ReserveUnschedulablePods && s.Adapter.Reservable {
		s.Mode = subset.Reserve
	}
}

// LabelSelector is the pods' selector as text.
func (s *Spec) LabelSelector() string {
	if s.Selector == nil {
		return ""
	}
	text := s.Selector.String()
	if s.Mode == subset.Reserve {
		text += "," + shared.LabelReservedPod + "=false"
	}
	return text
}

// dropNulls removes nulls: they say nothing, and an apply would take them for values.
func dropNulls(object map[string]any) {
	for key, value := range object {
		switch value := value.(type) {
		case nil:
			delete(object, key)
		case map[string]any:
			dropNulls(value)
		case []any:
			for _, item := range value {
				if inner, ok := item.(map[string]any); ok {
					dropNulls(inner)
				}
			}
		}
	}
}
