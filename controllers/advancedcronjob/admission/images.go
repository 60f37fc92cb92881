// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/webhook/rules"
)

// maxDeadline is the longest activeDeadlineSeconds.
const maxDeadline = 24 * 60 * 60

// validateImageListPullJob checks an ImageListPullJob template:
// by the rules of the kind, and of runs. path is the template's.
func validateImageListPullJob(template *appsv1beta1.ImageListPullJobTemplateSpec, path *field.Path) field.ErrorList {
	errs := rules.TemplateMetadata(&template.ObjectMeta, path.Child("metadata"))
	spec, path := &template.Spec, path.Child("spec")
	errs = append(errs, rules.Images(spec.Images, path.Child("images"))...)
	policy, at := &spec.CompletionPolicy, path.Child("completionPolicy")
	if policy.Type != appsv1beta1.CompleteAlways {
		errs = append(errs, field.Invalid(at.Child("type"), policy.Type, "must be Always: a run that never completes stays active for ever"))
	}
	if d := policy.ActiveDeadlineSeconds; d != nil && *d > maxDeadline {
		errs = append(errs, field.Invalid(at.Child("activeDeadlineSeconds"), *d, fmt.Sprintf("must be at most %d", maxDeadline)))
	}
	if ttl := policy.TTLSecondsAfterFinished; ttl != nil {
		errs = append(errs, field.Invalid(at.Child("ttlSecondsAfterFinished"), *ttl, "must be absent: the history limits say how long runs are kept"))
	}
	pull := spec.ImagePullJobTemplate // as a run has it: what is said above is not said twice
	pull.CompletionPolicy.Type, pull.CompletionPolicy.TTLSecondsAfterFinished = appsv1beta1.CompleteAlways, nil
	return append(errs, rules.ImagePull(&pull, path)...)
}
