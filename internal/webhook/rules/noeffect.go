// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
)

// ClaimTemplates warns of claim templates that are new or changed: pods and claims that exist stay as they are. grow says that claims grow with
// their template.
func ClaimTemplates(templates, old []corev1.PersistentVolumeClaim, grow bool) []string {
	before := map[string]*corev1.PersistentVolumeClaim{}
	for i := range old {
		before[old[i].Name] = &old[i]
	}
	var warnings []string
	for i := range templates {
		path := field.NewPath("spec", "volumeClaimTemplates").Index(i)
		switch was := before[templates[i].Name]; {
		case was == nil:
			warnings = append(warnings, fmt.Sprintf("%s: pods that exist get this claim only when they are recreated", path))
		case !grow && !equality.Semantic.DeepEqual(was.Spec.Resources, templates[i].Spec.Resources):
			warnings = append(warnings, fmt.Sprintf("%s.spec.resources: claims that exist keep their size", path))
		}
	}
	return warnings
}

// OnlyInPlace warns of what has an effect on updates in place alone, where pods are replaced.
func OnlyInPlace(policy shared.PodUpdatePolicy, strategy *shared.InPlaceUpdateStrategy, hooks *shared.Lifecycle, policyField string) []string {
	if policy == shared.InPlaceIfPossible || policy == shared.InPlaceOnly {
		return nil
	}
	var warnings []string
	if strategy != nil && strategy.GracePeriodSeconds > 0 {
		warnings = append(warnings, "spec.updateStrategy.rollingUpdate.inPlaceUpdateStrategy.gracePeriodSeconds: has no effect, because "+policyField+" replaces pods")
	}
	if hooks != nil && hooks.InPlaceUpdate != nil {
		warnings = append(warnings, "spec.lifecycle.inPlaceUpdate: has no effect, because "+policyField+" replaces pods")
	}
	return warnings
}

// EndedJob warns of an edit of a job that has ended. Only its time to live, which the caller has made equal, still counts.
func EndedJob[S any](ended bool, spec, old *S) []string {
	if !ended || equality.Semantic.DeepEqual(spec, old) {
		return nil
	}
	return []string{"spec: has no effect, because the job has ended: create another job"}
}
