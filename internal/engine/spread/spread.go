// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package spread divides pods of a workload among the subsets of a WorkloadSpread.
//
// The reconcilers of our own workloads, the webhook on pods of others and the controller of WorkloadSpreads all ask it.
package spread

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/subset"
	"github.com/kruise-operator/kruise-operator/internal/quantity"
)

// Kind is WorkloadSpread, in the stored version.
func Kind() schema.GroupVersionKind { return appsv1beta1.GroupVersion().WithKind("WorkloadSpread") }

// AnyVersion is the version of pods of kinds without versions.
const AnyVersion = "versionIgnored"

// None is the index of no subset.
const None = -1

// Spread is a parsed WorkloadSpread.
type Spread struct {
	Namespace, Name string
	UID             types.UID
	// Target and TargetName name the workload, whatever its version.
	Target     schema.GroupVersionKind
	TargetName string
	// Between are kinds of owners between the workload and its pods.
	Between []schema.GroupKind
	// Selector chooses managed pods; Filter is its source, nil without one.
	Selector labels.Selector
	Filter   *metav1.LabelSelector
	// Paths are targetFilter.replicasPathList.
	Paths   []string
	Subsets []Subset
	// Critical is how long a pod may find no node; 0: any time.
	Critical time.Duration
	// KeepMetadata leaves labels and annotations of existing pods alone.
	KeepMetadata bool
	// FailClosed refuses pods while the webhook does not answer.
	FailClosed bool
}

// Subset is a parsed subset.
type Subset struct {
	Name string
	// Max is the limit; nil: none.
	Max         *subset.Size
	Required    *corev1.NodeSelectorTerm
	Preferred   []corev1.PreferredSchedulingTerm
	Tolerations []corev1.Toleration
	// Patch is a strategic merge patch of a pod; nil: none.
	Patch map[string]any
}

// Parse parses a WorkloadSpread. A fault names its field.
func Parse(ws *appsv1beta1.WorkloadSpread) (*Spread, error) {
	s := &Spread{
		Namespace: ws.Namespace, Name: ws.Name, UID: ws.UID, Selector: labels.Everything(),
		KeepMetadata: ws.Annotations[shared.AnnotationSpreadIgnoreMetadata] == "true",
		FailClosed:   ws.Annotations[shared.AnnotationInjectionFailurePolicy] == "Fail",
	}
	target := ws.Spec.TargetReference
	if target == nil {
		return nil, errors.New("spec.targetRef: is missing")
	}
	s.Target, s.TargetName = schema.FromAPIVersionAndKind(target.APIVersion, target.Kind), target.Name
	if s.Target.Group == "apps" && s.Target.Kind == "Deployment" {
		s.Between = []schema.GroupKind{{Group: "apps", Kind: "ReplicaSet"}}
	}
	if filter := ws.Spec.TargetFilter; filter != nil {
		s.Paths = filter.ReplicasPathList
		if filter.Selector != nil {
			selector, err := metav1.LabelSelectorAsSelector(filter.Selector)
			if err != nil {
				return nil, fmt.Errorf("spec.targetFilter.selector: %w", err)
			}
			s.Selector, s.Filter = selector, filter.Selector
		}
	}
	if len(ws.Spec.Subsets) == 0 {
		return nil, errors.New("spec.subsets: there is none")
	}
	for i := range ws.Spec.Subsets {
		parsed, err := parseSubset(&ws.Spec.Subsets[i])
		if err != nil {
			return nil, fmt.Errorf("spec.subsets[%d].%w", i, err)
		}
		s.Subsets = append(s.Subsets, parsed)
	}
	strategy := ws.Spec.ScheduleStrategy
	if strategy.Type == appsv1beta1.AdaptiveWorkloadSpreadScheduleStrategyType && strategy.Adaptive != nil && strategy.Adaptive.RescheduleCriticalSeconds != nil {
		s.Critical = time.Duration(*strategy.Adaptive.RescheduleCriticalSeconds) * time.Second
	}
	return s, nil
}

func parseSubset(from *appsv1beta1.WorkloadSpreadSubset) (Subset, error) {
	parsed := Subset{Name: from.Name, Required: from.RequiredNodeSelector, Preferred: from.PreferredNodeSelector, Tolerations: from.Tolerations}
	if from.MaxReplicas != nil {
		size, err := subset.Parse(*from.MaxReplicas)
		if err != nil {
			return parsed, fmt.Errorf("maxReplicas: %w", err)
		}
		parsed.Max = size.RoundedUp()
	}
	if raw := from.Patch.Raw; len(raw) > 0 && string(raw) != "null" {
		if err := json.Unmarshal(raw, &parsed.Patch); err != nil {
			return parsed, fmt.Errorf("patch: %w", err)
		}
	}
	return parsed, nil
}

// ParseStored parses a WorkloadSpread as it is stored; nil for one that cannot be used or is being deleted.
func ParseStored(stored *unstructured.Unstructured) *Spread {
	if stored.GetDeletionTimestamp() != nil {
		return nil
	}
	ws, err := Decode(stored)
	if err != nil {
		return nil
	}
	s, err := Parse(ws)
	if err != nil {
		return nil
	}
	return s
}

// Decode is a stored WorkloadSpread in its type, without its status.
func Decode(stored *unstructured.Unstructured) (*appsv1beta1.WorkloadSpread, error) {
	ws := &appsv1beta1.WorkloadSpread{}
	return ws, quantity.FromUnstructured(map[string]any{"metadata": stored.Object["metadata"], "spec": stored.Object["spec"]}, ws)
}

// Groups are those of a kind whose workloads can be spread without being listed by an administrator.
func Groups(kind string) []string {
	return map[string][]string{
		"CloneSet": {"apps.kruise.io"}, "Deployment": {"apps"}, "ReplicaSet": {"apps"}, "StatefulSet": {"apps", "apps.kruise.io"}, "Job": {"batch"},
	}[kind]
}

// IsCustom reports whether an administrator has to list the target's kind.
func (s *Spread) IsCustom() bool { return len(Groups(s.Target.Kind)) == 0 }

// Listed is the spread of a workload of a kind with these owners between it and its pods. An empty path is the usual field.
func (s *Spread) Listed(between []schema.GroupVersionKind, replicasPath string) *Spread {
	listed := *s
	for _, kind := range between {
		listed.Between = append(listed.Between, kind.GroupKind())
	}
	if len(listed.Paths) == 0 && replicasPath != "" {
		listed.Paths = []string{replicasPath}
	}
	return &listed
}

// IsFor reports whether a workload is the target.
func (s *Spread) IsFor(kind schema.GroupKind, name string) bool {
	return s.Target.GroupKind() == kind && s.TargetName == name
}

// Replicas is what percentages are of: the sum of the paths, else the workload's usual field.
func (s *Spread) Replicas(workload map[string]any) int {
	paths := s.Paths
	if len(paths) == 0 {
		paths = []string{"spec.replicas"}
		if s.Target.Kind == "Job" {
			paths = []string{"spec.parallelism"}
		}
	}
	sum := 0
	for _, path := range paths {
		n, found := numberAt(workload, strings.Split(path, "."))
		if !found && len(s.Paths) == 0 {
			n = 1 // the default of both fields
		}
		sum += n
	}
	return sum
}

// numberAt is the number of a path; numbers in it index lists.
func numberAt(value any, path []string) (int, bool) {
	for _, part := range path {
		switch at := value.(type) {
		case map[string]any:
			value = at[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(at) {
				return 0, false
			}
			value = at[i]
		default:
			return 0, false
		}
	}
	switch n := value.(type) {
	case int64:
		return int(max(n, 0)), true
	case float64:
		return int(max(n, 0)), n == float64(int(n))
	}
	return 0, false
}

// Place says which subsets n new pods get, in the order of the list: each the index of its subset, or None. counts are the
// pods there, of one version; shut subsets get none.
func (s *Spread) Place(n, replicas int, counts []int, shut []bool) []int {
	subsets := make([]subset.Subset, len(s.Subsets))
	for i := range s.Subsets {
		subsets[i] = subset.Subset{Name: s.Subsets[i].Name, Max: s.Subsets[i].Max, Present: counts[i], Unschedulable: i < len(shut) && shut[i]}
	}
	shares := subset.Add(n, replicas, subsets)
	placed := make([]int, 0, n)
	for i, size := range shares.Sizes {
		placed = append(placed, slices.Repeat([]int{i}, size)...)
	}
	return append(placed, slices.Repeat([]int{None}, shares.Unplaced)...)
}

// Ordinal is the subset of a StatefulSet's pod: the first with its limit, added to those of the subsets before, above the ordinal.
func (s *Spread) Ordinal(ordinal int, shut []bool) int {
	sum := 0
	for i := range s.Subsets {
		if i < len(shut) && shut[i] {
			continue
		}
		if s.Subsets[i].Max == nil {
			return i
		}
		if sum += s.Subsets[i].Max.Of(0); ordinal < sum {
			return i
		}
	}
	return None
}

// Limit is how many pods a subset may have; -1: any number.
func (s *Spread) Limit(i, replicas int) int {
	if s.Subsets[i].Max == nil {
		return -1
	}
	return s.Subsets[i].Max.Of(replicas)
}

// Missing is how many more pods a subset may get; -1: any number.
func (s *Spread) Missing(i, replicas, there int) int32 {
	if limit := s.Limit(i, replicas); limit >= 0 {
		return int32(max(limit-there, 0)) //nolint:gosec // both are numbers of pods
	}
	return -1
}

// HasPercent reports whether limits depend on the workload.
func (s *Spread) HasPercent() bool {
	return slices.ContainsFunc(s.Subsets, func(sub Subset) bool { return sub.Max != nil && sub.Max.Of(0) != sub.Max.Of(100) })
}

// Index is the subset of this name, or None.
func (s *Spread) Index(name string) int {
	return slices.IndexFunc(s.Subsets, func(sub Subset) bool { return sub.Name == name })
}

// Counted is the version by which a pod is counted. Only pods of Deployments and ReplicaSets have versions.
func (s *Spread) Counted(pod map[string]string) string {
	if s.Target.Group == "apps" && (s.Target.Kind == "Deployment" || s.Target.Kind == "ReplicaSet") {
		if hash := pod[shared.LabelPodTemplateHash]; hash != "" {
			return hash
		}
	}
	return AnyVersion
}

// HasCost reports whether the target's scale-in looks at deletion costs.
func (s *Spread) HasCost() bool {
	return slices.Contains([]string{"Deployment", "ReplicaSet", "CloneSet"}, s.Target.Kind)
}

// HasOrdinals reports whether pods get their subset by ordinal.
func (s *Spread) HasOrdinals() bool { return s.Target.Kind == "StatefulSet" }

// Cost is the deletion cost of a pod within its subset's limit.
func (s *Spread) Cost(i int) int { return 100 * (len(s.Subsets) - i) }

// SurplusCost is that of a pod beyond the limit; for None of a pod in no subset.
func (s *Spread) SurplusCost(i int) int {
	if i == None {
		i = len(s.Subsets)
	}
	return -100 * (i + 1)
}

// Statuses are those of all subsets in their order, as far as they are known.
func (s *Spread) Statuses(known []appsv1beta1.WorkloadSpreadSubsetStatus) []appsv1beta1.WorkloadSpreadSubsetStatus {
	statuses := make([]appsv1beta1.WorkloadSpreadSubsetStatus, len(s.Subsets))
	for i := range s.Subsets {
		statuses[i].Name = s.Subsets[i].Name
	}
	for _, status := range known {
		if i := s.Index(status.Name); i != None {
			statuses[i] = status
		}
	}
	return statuses
}

// Version are the statuses of a version among those of all.
func (s *Spread) Version(all map[string][]appsv1beta1.WorkloadSpreadSubsetStatus, version string) []appsv1beta1.WorkloadSpreadSubsetStatus {
	if all[version] == nil {
		all[version] = s.Statuses(nil)
	}
	return all[version]
}

// Shut are the subsets without room on nodes, by the conditions in a status.
func (s *Spread) Shut(statuses []appsv1beta1.WorkloadSpreadSubsetStatus) []bool {
	shut := make([]bool, len(s.Subsets))
	for _, status := range statuses {
		i := s.Index(status.Name)
		if i == None {
			continue
		}
		for _, c := range status.Conditions {
			shut[i] = shut[i] || c.Type == appsv1beta1.SpreadSubsetSchedulable && c.Status == metav1.ConditionFalse
		}
	}
	return shut
}

// StatusOf is the status of a stored WorkloadSpread; empty if it cannot be decoded.
func StatusOf(stored *unstructured.Unstructured) appsv1beta1.WorkloadSpreadStatus {
	var status appsv1beta1.WorkloadSpreadStatus
	fields, _ := stored.Object["status"].(map[string]any)
	if runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &status) != nil {
		return appsv1beta1.WorkloadSpreadStatus{}
	}
	return status
}

// Placing is a WorkloadSpread for the new pods of one workload of ours.
type Placing struct {
	*Spread
	// Replicas is what percentages are of, Shut the subsets without room on nodes.
	Replicas int
	Shut     []bool
	// counts are the staying pods of each subset.
	counts []int
}

// Count counts the pods that stay.
func (p *Placing) Count(pods []*corev1.Pod) { p.counts = p.Counts(pods) }

// Beyond is how many pods each subset has beyond its share of the workload.
func (p *Placing) Beyond(pods []*corev1.Pod) []int {
	over := p.Counts(pods)
	for _, i := range p.Place(p.Replicas, p.Replicas, make([]int, len(p.Subsets)), p.Shut) {
		if i != None {
			over[i]--
		}
	}
	for i := range over {
		over[i] = max(over[i], 0)
	}
	return over
}

// Put makes a new pod of a workload one of a subset, and counts it. An unmanaged pod, and one without room, stays as it is.
func (p *Placing) Put(pod *corev1.Pod, selector labels.Selector) {
	if p.counts == nil {
		p.counts = make([]int, len(p.Subsets))
	}
	if i := p.Place(1, p.Replicas, p.counts, p.Shut)[0]; p.put(pod, i, selector) {
		p.counts[i]++
	}
}

// PutOrdinal is Put for a pod of a StatefulSet.
func (p *Placing) PutOrdinal(pod *corev1.Pod, ordinal int, selector labels.Selector) {
	p.put(pod, p.Ordinal(ordinal, p.Shut), selector)
}

// put injects. A patch in conflict with the pod is left out; a condition of the WorkloadSpread says so.
func (p *Placing) put(pod *corev1.Pod, i int, selector labels.Selector) bool {
	if i == None || !p.Selector.Matches(labels.Set(pod.Labels)) {
		return false
	}
	_ = p.Inject(pod, i, "", selector)
	return true
}
