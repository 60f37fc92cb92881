// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
)

// warnings are about fields that do nothing while no requests are routed.
func warnings(r, _ *v1beta1.Rollout) []string {
	r, path := unified(r, field.NewPath("spec", "strategy"))
	canary := r.Spec.Strategy.Canary
	if canary == nil || len(canary.TrafficRoutings) > 0 || canary.TrafficRoutingRef != "" {
		return nil
	}
	var all []string
	warn := func(is bool, at *field.Path) {
		if is {
			all = append(all, at.String()+": has no effect, since no requests are routed")
		}
	}
	warn(canary.DisableGenerateCanaryService, path.Child("disableGenerateCanaryService"))
	for i := range canary.Steps {
		step, at := &canary.Steps[i], path.Child("steps").Index(i)
		// The weight of a step in v1alpha1 is the size of the step as well.
		warn(step.Traffic != nil && (step.Replicas == nil || step.Replicas.String() != *step.Traffic), at.Child("traffic"))
		warn(len(step.Matches) > 0, at.Child("matches"))
		warn(step.RequestHeaderModifier != nil, at.Child("requestHeaderModifier"))
	}
	return all
}
