// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package advancedcronjob

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/webhook/rules"
)

const (
	// maxDeadline is the longest activeDeadlineSeconds.
	maxDeadline = 24 * 60 * 60
	// defaultTimeout is pullPolicy.timeoutSeconds when it is omitted.
	defaultTimeout = 600
)

// validateImageListPullJob returns what is wrong with the spec of an ImageListPullJob inside a template. path is that of the spec.
func validateImageListPullJob(spec *appsv1beta1.ImageListPullJobSpec, path *field.Path) field.ErrorList {
	errs := rules.ImagePullNodes(&spec.ImagePullJobTemplate, path)
	errs = append(errs, rules.Images(spec.Images, path.Child("images"))...)
	policy, path := &spec.CompletionPolicy, path.Child("completionPolicy")
	if policy.Type != appsv1beta1.CompleteAlways {
		errs = append(errs, field.Invalid(path.Child("type"), policy.Type, "must be Always: a run that never completes stays active for ever"))
	}
	timeout := int64(defaultTimeout)
	if spec.PullPolicy != nil {
		timeout = int64(ptr.Deref(spec.PullPolicy.TimeoutSeconds, defaultTimeout))
	}
	if d := policy.ActiveDeadlineSeconds; d != nil && (*d < timeout || *d > maxDeadline) {
		errs = append(errs, field.Invalid(path.Child("activeDeadlineSeconds"), *d,
			fmt.Sprintf("must be from pullPolicy.timeoutSeconds, which is %d, to %d", timeout, maxDeadline)))
	}
	if ttl := policy.TTLSecondsAfterFinished; ttl != nil {
		errs = append(errs, field.Invalid(path.Child("ttlSecondsAfterFinished"), *ttl, "must be absent: the history limits say how long runs are kept"))
	}
	return errs
}
