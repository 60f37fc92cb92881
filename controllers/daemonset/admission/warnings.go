// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/daemonset/plan"
	"github.com/kruise-operator/kruise-operator/internal/webhook/rules"
)

// surges: new pods are to run beside the old ones.
func surges(s *appsv1beta1.DaemonSetUpdateStrategy) bool {
	r := s.RollingUpdate
	return s.Type != appsv1beta1.OnDeleteDaemonSetStrategyType && r != nil && !isZero(r.MaxSurge)
}

// annotationTemplateGeneration is left on manifests copied from a native DaemonSet.
const annotationTemplateGeneration = "deprecated.daemonset.template.generation"

// Warnings are about permitted parts with a surprising effect. old is nil for a creation.
func Warnings(set, _ *appsv1beta1.DaemonSet) []string {
	warnings := rules.ReservedLabels(&set.Spec.Template)
	warnings = append(warnings, rules.Hooks(set.Spec.Lifecycle, field.NewPath("spec", "lifecycle"))...)
	annotation := func(key string) string { return field.NewPath("metadata", "annotations").Key(key).String() }
	if _, found := set.Annotations[v1alpha1.AnnotationProgressiveCreatePod]; found {
		warnings = append(warnings, annotation(v1alpha1.AnnotationProgressiveCreatePod)+
			": has no effect here; v1beta1 has the field spec.scaleStrategy.partitionedScaling")
	}
	if _, found := set.Annotations[annotationTemplateGeneration]; found {
		warnings = append(warnings, annotation(annotationTemplateGeneration)+": has no effect; pods are compared by the hash of their revision")
	}
	strategy := &set.Spec.UpdateStrategy
	if strategy.Type == appsv1beta1.OnDeleteDaemonSetStrategyType && strategy.RollingUpdate != nil {
		warnings = append(warnings, rules.OnDelete)
	}
	if l := set.Spec.Lifecycle; l != nil && l.PreNormal != nil {
		warnings = append(warnings, "spec.lifecycle.preNormal: has no effect on a DaemonSet")
	}
	if l := set.Spec.Lifecycle; l != nil && l.InPlaceUpdate != nil {
		warnings = append(warnings, "spec.lifecycle.inPlaceUpdate: has no effect on a DaemonSet")
	}
	if port := plan.Shared(&set.Spec.Template); port != "" && surges(strategy) {
		warnings = append(warnings, "spec.updateStrategy.rollingUpdate.maxSurge: no pod will be updated: a new one cannot run beside the old one, because of "+port)
	}
	return warnings
}
