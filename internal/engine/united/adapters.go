// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/budget"
)

// Adapter is the difference between the kinds of subsets.
type Adapter struct {
	// Kind is the workloads', in the applied version.
	Kind schema.GroupVersionKind
	// Field is the template's in spec.template.
	Field string
	// Template is the value of Field.
	Template func(*appsv1beta1.SubsetTemplate) *appsv1beta1.WorkloadTemplate
	// partition is where the partition is in the spec. Nil: the kind has none.
	partition []string
	// paused is the place of paused updates in the spec. Nil: the kind cannot pause them.
	paused []string
	// onlyRolling: a partition needs the update strategy RollingUpdate, or none.
	onlyRolling bool
	// maxUnavailable is where the limit of updates is in the spec. Nil: it is left as the template says.
	maxUnavailable []string
	// defaultLimit is the limit of a template without one.
	defaultLimit string
	// Reservable: pods are interchangeable, so unschedulable ones can stay while other subsets run
	// replacements.
	Reservable bool
	// Stuck: an update can wait for pods that never become ready, until somebody deletes them.
	Stuck bool
	// Silent: a workload does not say why its pods are not ready.
	Silent bool
	// changeable are the changeable fields of the spec; others are fixed for a workload. Nil: all
	// may change.
	changeable []string
	// typed is the type of the spec, to compare templates with.
	typed func() any
	// asWritten: pods are made from the template as written, and an unwritten imagePullPolicy
	// follows the tag.
	asWritten bool
}

func rollingPartition() []string { return []string{"updateStrategy", "rollingUpdate", "partition"} }

// Adapters are all kinds of subsets.
func Adapters() []Adapter {
	return []Adapter{
		{
			Kind:  appsv1.SchemeGroupVersion.WithKind("StatefulSet"),
			Field: "statefulSetTemplate", Template: func(t *appsv1beta1.SubsetTemplate) *appsv1beta1.WorkloadTemplate { return t.StatefulSetTemplate },
			partition: rollingPartition(), onlyRolling: true, Stuck: true, Silent: true,
			changeable: []string{"template", "updateStrategy", "persistentVolumeClaimRetentionPolicy", "minReadySeconds", "ordinals", "revisionHistoryLimit"},
			typed:      func() any { return &appsv1.StatefulSetSpec{} }, asWritten: true,
		},
		{
			Kind:  appsv1beta1.GroupVersion().WithKind("StatefulSet"),
			Field: "advancedStatefulSetTemplate", Template: func(t *appsv1beta1.SubsetTemplate) *appsv1beta1.WorkloadTemplate {
				return t.AdvancedStatefulSetTemplate
			},
			partition: rollingPartition(), onlyRolling: true, paused: []string{"updateStrategy", "rollingUpdate", "paused"},
			changeable: []string{
				"template", "updateStrategy", "persistentVolumeClaimRetentionPolicy", "ordinals", "revisionHistoryLimit", "lifecycle",
				"scaleStrategy", "reserveOrdinals", "volumeClaimTemplates", "volumeClaimUpdateStrategy",
			},
			typed: func() any { return &appsv1beta1.StatefulSetSpec{} },
		},
		{
			Kind:  appsv1beta1.GroupVersion().WithKind("CloneSet"),
			Field: "cloneSetTemplate", Template: func(t *appsv1beta1.SubsetTemplate) *appsv1beta1.WorkloadTemplate { return t.CloneSetTemplate },
			partition: rollingPartition(), maxUnavailable: []string{"updateStrategy", "rollingUpdate", "maxUnavailable"}, defaultLimit: "20%", Reservable: true,
			paused: []string{"updateStrategy", "rollingUpdate", "paused"},
			typed:  func() any { return &appsv1beta1.CloneSetSpec{} },
		},
		{
			Kind:  appsv1.SchemeGroupVersion.WithKind("Deployment"),
			Field: "deploymentTemplate", Template: func(t *appsv1beta1.SubsetTemplate) *appsv1beta1.WorkloadTemplate { return t.DeploymentTemplate },
			maxUnavailable: []string{"strategy", "rollingUpdate", "maxUnavailable"}, defaultLimit: "25%", Reservable: true, paused: []string{"paused"}, Silent: true,
			typed: func() any { return &appsv1.DeploymentSpec{} }, asWritten: true,
		},
	}
}

// Given are the adapters of the given templates.
func Given(t *appsv1beta1.SubsetTemplate) []Adapter {
	var given []Adapter
	for _, a := range Adapters() {
		if a.Template(t) != nil {
			given = append(given, a)
		}
	}
	return given
}

// Partitioned says whether a workload with this spec has a partition.
func (a *Adapter) Partitioned(spec map[string]any) bool {
	if a.partition == nil {
		return false
	}
	kind, _, _ := unstructured.NestedString(spec, "updateStrategy", "type")
	return !a.onlyRolling || kind == "" || kind == "RollingUpdate"
}

// PartitionOf is the partition of a workload; 0 without one.
func (a *Adapter) PartitionOf(workload *unstructured.Unstructured) int {
	if a.partition == nil {
		return 0
	}
	return Number(workload.Object, append([]string{"spec"}, a.partition...)...)
}

// Paused says that the spec of a workload keeps it from updating its pods.
func (a *Adapter) Paused(spec map[string]any) bool {
	if a.paused == nil {
		return false
	}
	paused, _, _ := unstructured.NestedBool(spec, a.paused...)
	return paused
}

// Fingerprint stands for the spec of a workload without a Target's numbers. Another one means other
// pods, or another way to update them.
func (a *Adapter) Fingerprint(spec map[string]any) uint64 {
	rest := runtime.DeepCopyJSON(spec)
	for _, path := range [][]string{{"replicas"}, a.partition, a.maxUnavailable} {
		if path != nil {
			unstructured.RemoveNestedField(rest, path...)
		}
	}
	sum := fnv.New64a()
	_ = json.NewEncoder(sum).Encode(rest) // Neither JSON that was read nor writing to a hash fails.
	return sum.Sum64()
}

// UpdatesOnDelete says that a workload with this spec updates pods only after their deletion.
func (a *Adapter) UpdatesOnDelete(spec map[string]any) bool {
	kind, _, _ := unstructured.NestedString(spec, "updateStrategy", "type")
	return kind == "OnDelete"
}

// mayRoll: the strategy of the spec has a limit of updates, so it may be written.
func (a *Adapter) mayRoll(spec map[string]any) bool {
	if a.maxUnavailable == nil {
		return false
	}
	kind, _, _ := unstructured.NestedString(spec, a.maxUnavailable[0], "type")
	return kind == "" || kind == "RollingUpdate"
}

// limitOf is how many of these pods an update may make unavailable, by the spec of a workload. A percentage is rounded down, and at least 1: where pods find
// no node, no surge lets an update go on.
func (a *Adapter) limitOf(spec map[string]any, pods int) (int, error) {
	text := a.defaultLimit
	if value, found, _ := unstructured.NestedFieldNoCopy(spec, a.maxUnavailable...); found {
		text = fmt.Sprint(value)
	}
	limit := intstr.Parse(text)
	least, err := budget.Count(limit, 100, budget.Up) // 0 only where the user says none
	if err != nil {
		return 0, fmt.Errorf("maxUnavailable: %w", err)
	}
	count, err := budget.Count(limit, int32(pods), budget.Down)
	return min(max(int(count), min(int(least), 1)), pods), err
}

// Number is a whole number in an object; 0 where there is none.
func Number(object map[string]any, path ...string) int {
	value, _, _ := unstructured.NestedFieldNoCopy(object, path...)
	switch value := value.(type) {
	case int64:
		return int(value)
	case float64:
		return int(value)
	case string:
		n, _ := strconv.Atoi(value)
		return n
	}
	return 0
}
