// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/subset"
	"github.com/kruise-operator/kruise-operator/internal/engine/united"
	"github.com/kruise-operator/kruise-operator/internal/webhook/rules"
)

// Validate returns the faults of a UnitedDeployment after Default.
func Validate(set *appsv1beta1.UnitedDeployment) field.ErrorList {
	path := field.NewPath("spec")
	errs := rules.ObjectKeys(&set.ObjectMeta, field.NewPath("metadata"))
	pod, faults := validateTemplate(set, path)
	errs = append(errs, faults...)
	errs = append(errs, validateTopology(set, pod, path.Child("topology"))...)
	return append(errs, validatePartitions(set, path.Child("updateStrategy", "manualUpdate", "partitions"))...)
}

// validateTemplate requires one template with matching labels, and leaves the rest to its kind. It
// returns the pod template.
func validateTemplate(set *appsv1beta1.UnitedDeployment, path *field.Path) (map[string]any, field.ErrorList) {
	given := united.Given(&set.Spec.Template)
	at := path.Child("template")
	switch {
	case len(given) == 0:
		return nil, field.ErrorList{field.Required(at, "one of statefulSetTemplate, advancedStatefulSetTemplate, cloneSetTemplate and deploymentTemplate")}
	case len(given) > 1:
		return nil, field.ErrorList{field.Invalid(at, given[0].Field+", "+given[1].Field, "only one template may be set")}
	}
	adapter := given[0]
	template, at := adapter.Template(&set.Spec.Template), at.Child(adapter.Field)
	errs := rules.ObjectKeys(&template.Metadata, at.Child("metadata"))
	errs = append(errs, rules.Selects(set.Spec.Selector, template.Metadata.Labels, path.Child("selector"), at.Child("metadata", "labels"))...)

	spec := map[string]any{}
	if err := utiljson.Unmarshal(template.Spec.Raw, &spec); err != nil {
		return nil, append(errs, field.Invalid(at.Child("spec"), "", "must be an object"))
	}
	pod, ok := spec["template"].(map[string]any)
	if !ok {
		return nil, append(errs, field.Required(at.Child("spec", "template"), "the pod template"))
	}
	carried, _, err := unstructured.NestedStringMap(pod, "metadata", "labels")
	labelsAt := at.Child("spec", "template", "metadata", "labels")
	if err != nil {
		return nil, append(errs, field.Invalid(labelsAt, "", "must be a map of texts"))
	}
	if len(errs) == 0 {
		errs = rules.Selects(set.Spec.Selector, carried, path.Child("selector"), labelsAt)
	}
	if adapter.Field == "cloneSetTemplate" {
		return pod, errs // Values that a CloneSet's template should not have are ignored; see Warnings.
	}
	if value, found := spec["replicas"]; found && value != nil {
		errs = append(errs, field.Invalid(at.Child("spec", "replicas"), value, "must be absent: it follows from spec.replicas and spec.topology"))
	}
	value, found, _ := unstructured.NestedFieldNoCopy(spec, "updateStrategy", "rollingUpdate", "partition")
	if found && value != nil && adapter.Partitioned(spec) {
		errs = append(errs, field.Invalid(at.Child("spec", "updateStrategy", "rollingUpdate", "partition"), value,
			"must be absent: it follows from spec.updateStrategy.manualUpdate.partitions"))
	}
	return pod, errs
}

func validateTopology(set *appsv1beta1.UnitedDeployment, pod map[string]any, path *field.Path) field.ErrorList {
	topology := &set.Spec.Topology
	fixed, bounded := sized(set)
	errs := validateSchedule(set, path.Child("scheduleStrategy"))
	if fixed && bounded {
		errs = append(errs, field.Invalid(path.Child("subsets"), "", "replicas cannot be combined with minReplicas and maxReplicas, in any subset"))
	}
	adaptive := topology.ScheduleStrategy.Type == appsv1beta1.AdaptiveScheduleStrategy
	capped := len(topology.Subsets) > 0
	patches := newPatches(set, pod)
	for i := range topology.Subsets {
		sub, at := &topology.Subsets[i], path.Child("subsets").Index(i)
		if sub.Name == "" {
			errs = append(errs, field.Required(at.Child("name"), "a DNS label"))
		} else {
			errs = append(errs, rules.Faults(at.Child("name"), sub.Name, validation.IsDNS1123Label(sub.Name))...)
		}
		capped = capped && sub.MaxReplicas != nil
		if adaptive && sub.Replicas != nil {
			errs = append(errs, field.Forbidden(at.Child("replicas"), "cannot be combined with the schedule strategy Adaptive"))
		}
		errs = append(errs, validateNodes(&sub.NodeSelectorTerm, at.Child("nodeSelectorTerm"))...)
		for j := range sub.Tolerations {
			errs = append(errs, rules.Toleration(&sub.Tolerations[j], at.Child("tolerations").Index(j))...)
		}
		errs = append(errs, validateSizes(sub, int(ptr.Deref(set.Spec.Replicas, 1)), at)...)
		errs = append(errs, patches.validate(sub, at.Child("patch"))...)
	}
	if capped {
		errs = append(errs, field.Invalid(path.Child("subsets"), "", "at least one subset must have no maxReplicas"))
	}
	return errs
}

func validateSchedule(set *appsv1beta1.UnitedDeployment, path *field.Path) field.ErrorList {
	adaptive := set.Spec.Topology.ScheduleStrategy.Adaptive
	if adaptive == nil {
		return nil
	}
	path = path.Child("adaptive")
	errs := rules.NotNegative(adaptive.RescheduleCriticalSeconds, path.Child("rescheduleCriticalSeconds"))
	given := united.Given(&set.Spec.Template)
	if adaptive.ReserveUnschedulablePods && len(given) == 1 && !given[0].Reservable {
		errs = append(errs, field.Invalid(path.Child("reserveUnschedulablePods"), true, "is for cloneSetTemplate and deploymentTemplate only"))
	}
	return append(errs, rules.NotNegative(adaptive.UnschedulableDuration, path.Child("unschedulableDuration"))...)
}

const aSize = "must be a whole number of at least 0, or a whole percentage from 0% to 100%"

func validateSizes(sub *appsv1beta1.Subset, replicas int, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	parse := func(name string, value *intstr.IntOrString) *subset.Size {
		if value == nil {
			return nil
		}
		size, err := subset.Parse(*value)
		if err != nil {
			errs = append(errs, field.Invalid(path.Child(name), rules.Plain(*value), aSize))
		}
		return size
	}
	parse("replicas", sub.Replicas)
	least, most := parse("minReplicas", sub.MinReplicas), parse("maxReplicas", sub.MaxReplicas)
	if least != nil && most != nil && least.Of(replicas) > most.Of(replicas) {
		errs = append(errs, field.Invalid(path.Child("minReplicas"), rules.Plain(*sub.MinReplicas),
			fmt.Sprintf("must not be more than maxReplicas, which is %s", sub.MaxReplicas.String())))
	}
	return errs
}

func validatePartitions(set *appsv1beta1.UnitedDeployment, path *field.Path) field.ErrorList {
	manual := set.Spec.UpdateStrategy.ManualUpdate
	if manual == nil {
		return nil
	}
	var errs field.ErrorList
	known := subsetsByName(set)
	for _, name := range slices.Sorted(maps.Keys(manual.Partitions)) {
		if known[name] == nil {
			errs = append(errs, field.Invalid(path.Key(name), name, "is the name of no subset"))
		}
		kept := manual.Partitions[name]
		errs = append(errs, rules.NotNegative(&kept, path.Key(name))...)
	}
	return errs
}

// ValidateSum requires fixed sizes with the sum of all pods, or less where a subset has none. An
// update of other fields than the topology passes: the scale subresource, written by autoscalers,
// is not asked about, and has the same effect. The sizes are cut or filled up then, and the rest of
// the topology can still change.
func ValidateSum(set, old *appsv1beta1.UnitedDeployment) field.ErrorList {
	errs := sumFaults(set)
	if len(errs) == 0 || old == nil {
		return errs
	}
	if equality.Semantic.DeepEqual(set.Spec.Topology, old.Spec.Topology) || sameSizes(set, old) && len(sumFaults(old)) > 0 {
		return nil
	}
	return errs
}

// sumFaults returns the faults of the sum of fixed sizes.
func sumFaults(set *appsv1beta1.UnitedDeployment) field.ErrorList {
	sum, open := sumOf(set, fixedSize)
	replicas := int(ptr.Deref(set.Spec.Replicas, 1))
	path := field.NewPath("spec", "topology", "subsets")
	switch {
	case sum > replicas:
		return field.ErrorList{field.Invalid(path, sum, fmt.Sprintf("the replicas of the subsets must not add up to more than spec.replicas, which is %d", replicas))}
	case !open && sum != replicas:
		return field.ErrorList{field.Invalid(path, sum,
			fmt.Sprintf("the replicas of the subsets must add up to spec.replicas, which is %d, unless a subset has none", replicas))}
	}
	return nil
}

// sameSizes: two sets have the same subsets with the same fixed sizes.
func sameSizes(a, b *appsv1beta1.UnitedDeployment) bool {
	known := subsetsByName(b)
	return len(a.Spec.Topology.Subsets) == len(b.Spec.Topology.Subsets) && !slices.ContainsFunc(a.Spec.Topology.Subsets, func(sub appsv1beta1.Subset) bool {
		other := known[sub.Name]
		return other == nil || !equality.Semantic.DeepEqual(sub.Replicas, other.Replicas)
	})
}

func fixedSize(sub *appsv1beta1.Subset) *intstr.IntOrString { return sub.Replicas }

// sumOf adds up sizes of one sort; open: a subset has none.
func sumOf(set *appsv1beta1.UnitedDeployment, sizeOf func(*appsv1beta1.Subset) *intstr.IntOrString) (sum int, open bool) {
	open = len(set.Spec.Topology.Subsets) == 0
	for i := range set.Spec.Topology.Subsets {
		value := sizeOf(&set.Spec.Topology.Subsets[i])
		if value == nil {
			open = true
			continue
		}
		if size, err := subset.Parse(*value); err == nil {
			sum += size.Of(int(ptr.Deref(set.Spec.Replicas, 1)))
		}
	}
	return sum, open
}

// subsetsByName are the subsets of a set; of those with the same name, the first.
func subsetsByName(set *appsv1beta1.UnitedDeployment) map[string]*appsv1beta1.Subset {
	subsets := make(map[string]*appsv1beta1.Subset, len(set.Spec.Topology.Subsets))
	for i := range set.Spec.Topology.Subsets {
		if sub := &set.Spec.Topology.Subsets[i]; subsets[sub.Name] == nil {
			subsets[sub.Name] = sub
		}
	}
	return subsets
}

// ValidateUpdate returns forbidden changes. Default has filled in both objects.
func ValidateUpdate(set, old *appsv1beta1.UnitedDeployment) field.ErrorList {
	path := field.NewPath("spec")
	var errs field.ErrorList
	stored := subsetsByName(old)
	for i := range set.Spec.Topology.Subsets {
		sub := &set.Spec.Topology.Subsets[i]
		before, path := stored[sub.Name], path.Child("topology", "subsets").Index(i)
		if before == nil {
			continue
		}
		if changed(sub.NodeSelectorTerm.MatchExpressions, before.NodeSelectorTerm.MatchExpressions, rules.NodeRequirement) {
			errs = append(errs, field.Forbidden(path.Child("nodeSelectorTerm"), "cannot be changed once the subset exists; patch can select other nodes"))
		}
		if changed(sub.Tolerations, before.Tolerations, rules.Toleration) {
			errs = append(errs, field.Forbidden(path.Child("tolerations"), "cannot be changed once the subset exists; patch can tolerate other taints"))
		}
	}
	return append(errs, validateTemplateUpdate(set, old, path.Child("template"))...)
}

// changed: a list differs from the stored one, which pods could have. Values against every pod can be corrected: no workload was made of them.
func changed[T any](now, before []T, faults func(*T, *field.Path) field.ErrorList) bool {
	refused := func(item T) bool { return len(faults(&item, nil)) > 0 }
	return !equality.Semantic.DeepEqual(now, before) && !slices.ContainsFunc(before, refused)
}

// validateTemplateUpdate refuses changes fixed by the kind of the workloads: they could never
// follow.
func validateTemplateUpdate(set, old *appsv1beta1.UnitedDeployment, path *field.Path) field.ErrorList {
	now, before := united.Given(&set.Spec.Template), united.Given(&old.Spec.Template)
	if len(now) != 1 || len(before) != 1 || now[0].Field != before[0].Field {
		return nil
	}
	var errs field.ErrorList
	for _, name := range now[0].Fixed(now[0].Template(&set.Spec.Template), now[0].Template(&old.Spec.Template)) {
		errs = append(errs, field.Forbidden(path.Child(now[0].Field, "spec", name), "cannot be changed: the workloads of the subsets do not let it change"))
	}
	return errs
}
