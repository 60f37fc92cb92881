// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecarspec"
	"github.com/kruise-operator/kruise-operator/internal/engine/jobsidecar"
)

// Warnings names the accepted parts of a set without effect. old is nil for a creation.
func Warnings(set, old *appsv1beta1.SidecarSet) []string {
	spec := &set.Spec
	var warnings []string
	for i := range spec.Containers {
		warnings = append(warnings, jobsidecar.ContainerWarnings(&spec.Containers[i].Container, field.NewPath("spec", "containers").Index(i))...)
	}
	warnings = append(warnings, emptyTransfers(spec)...)
	strategy := &spec.UpdateStrategy
	if v := strategy.MaxUnavailable; v != nil && (v.IntValue() == 0 && v.StrVal == "" || v.StrVal == "0%") {
		warnings = append(warnings, "spec.updateStrategy.maxUnavailable: is 0, so pods that are ready are never updated")
	}
	if strategy.Type == appsv1beta1.NotUpdateSidecarSetStrategyType {
		return append(warnings, unusedStrategy(strategy)...)
	}
	if old != nil {
		warnings = append(warnings, keptByPods(spec, &old.Spec)...)
	}
	return warnings
}

// emptyTransfers warns of incomplete transferEnv.
func emptyTransfers(spec *appsv1beta1.SidecarSetSpec) []string {
	var warnings []string
	for _, c := range sidecarsOf(spec) {
		for i, transfer := range c.TransferEnv {
			if transfer.EnvName == "" && len(transfer.EnvNames) == 0 || transfer.SourceContainerName == "" && transfer.SourceContainerNameFrom == nil {
				warnings = append(warnings, fmt.Sprintf("%s.transferEnv[%d]: copies nothing: it needs a container and a variable", c.path, i))
			}
		}
	}
	return warnings
}

// unusedStrategy names what steers updates, where there are none.
func unusedStrategy(s *appsv1beta1.SidecarSetUpdateStrategy) []string {
	var fields []string
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"paused", s.Paused}, {"selector", s.Selector != nil}, {"partition", s.Partition != nil && *s.Partition != intstr.FromInt32(0)},
		{"priorityStrategy", s.PriorityStrategy != nil}, {"scatterStrategy", len(s.ScatterStrategy) > 0},
	} {
		if f.set {
			fields = append(fields, f.name)
		}
	}
	if len(fields) == 0 {
		return nil
	}
	return []string{"spec.updateStrategy: no pod is updated, because type is NotUpdate; without effect: " + strings.Join(fields, ", ")}
}

// keptByPods names the changed parts running pods cannot follow: only images of containers can.
func keptByPods(spec, old *appsv1beta1.SidecarSetSpec) []string {
	is, was := sidecarspec.PayloadOf(spec, nil), sidecarspec.PayloadOf(old, nil)
	const kept = ": pods that exist keep theirs until they are recreated"
	var warnings []string
	if !slices.EqualFunc(is.Containers, was.Containers, sameButImage) {
		warnings = append(warnings, "spec.containers: changes more than images"+kept)
	}
	for _, field := range sidecarspec.Kept(is, was) {
		warnings = append(warnings, field+kept)
	}
	if !equality.Semantic.DeepEqual(is.PatchPodMetadata, was.PatchPodMetadata) && equality.Semantic.DeepEqual(is.Containers, was.Containers) {
		warnings = append(warnings, "spec.patchPodMetadata: pods that exist get it with their next image")
	}
	return warnings
}

func sameButImage(is, was appsv1beta1.SidecarContainer) bool {
	is.Image, was.Image = "", ""
	return equality.Semantic.DeepEqual(is, was)
}
