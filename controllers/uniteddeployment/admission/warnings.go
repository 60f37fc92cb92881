// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/united"
)

// Warnings are about permitted parts with a surprising effect.
func Warnings(set, old *appsv1beta1.UnitedDeployment) []string {
	spec := &set.Spec
	replicas := int(ptr.Deref(spec.Replicas, 1))
	var warnings []string
	if least, _ := sumOf(set, func(sub *appsv1beta1.Subset) *intstr.IntOrString { return sub.MinReplicas }); least > replicas {
		warnings = append(warnings, fmt.Sprintf(
			"spec.topology.subsets: minReplicas add up to %d, which is more than spec.replicas (%d): subsets that are earlier in the list get theirs first", least, replicas))
	}
	if fixed, _ := sized(set); fixed {
		if sum, open := sumOf(set, fixedSize); sum > replicas || !open && sum < replicas {
			warnings = append(warnings, fmt.Sprintf(
				"spec.topology.subsets: replicas add up to %d, and spec.replicas is %d: they are cut or filled up in the order of the list", sum, replicas))
		}
	}
	given := united.Given(&spec.Template)
	if len(given) != 1 {
		return warnings
	}
	adapter := given[0]
	if old != nil {
		if before := united.Given(&old.Spec.Template); len(before) == 1 && before[0].Field != adapter.Field {
			warnings = append(warnings, fmt.Sprintf("spec.template: the workloads of %s are replaced by those of %s, and their pods are deleted at once",
				before[0].Field, adapter.Field))
		}
	}
	return append(warnings, ignored(set, adapter)...)
}

// ignored are warnings of values without effect.
func ignored(set *appsv1beta1.UnitedDeployment, adapter united.Adapter) []string {
	var warnings []string
	manual := set.Spec.UpdateStrategy.ManualUpdate
	if adapter.Field == "deploymentTemplate" && manual != nil && len(manual.Partitions) > 0 {
		warnings = append(warnings, "spec.updateStrategy.manualUpdate.partitions: have no effect, because Deployments have no partition")
	}
	if adapter.Field != "cloneSetTemplate" {
		return warnings
	}
	content := map[string]any{}
	if err := json.Unmarshal(adapter.Template(&set.Spec.Template).Spec.Raw, &content); err != nil {
		return warnings
	}
	const path = "spec.template.cloneSetTemplate.spec."
	if content["replicas"] != nil {
		warnings = append(warnings, path+"replicas: has no effect: it follows from spec.replicas and spec.topology")
	}
	if value, found, _ := unstructured.NestedFieldNoCopy(content, "updateStrategy", "rollingUpdate", "partition"); found && value != nil {
		warnings = append(warnings, path+"updateStrategy.rollingUpdate.partition: has no effect: it follows from spec.updateStrategy.manualUpdate.partitions")
	}
	return warnings
}
