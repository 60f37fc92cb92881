// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package advancedcronjob

import (
	"fmt"

	"github.com/distribution/reference"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/webhook/rules"
)

const (
	// maxImages is how many images one job may pull, maxDeadline its longest activeDeadlineSeconds.
	maxImages   = 255
	maxDeadline = 24 * 60 * 60
	// defaultTimeout is pullPolicy.timeoutSeconds when it is omitted.
	defaultTimeout = 600
)

// validateImageListPullJob returns what is wrong with the spec of an ImageListPullJob inside a template. path is that of the spec.
func validateImageListPullJob(spec *appsv1beta1.ImageListPullJobSpec, path *field.Path) field.ErrorList {
	errs := validateNodes(spec, path)
	errs = append(errs, validateImages(spec.Images, path.Child("images"))...)
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

func validateNodes(spec *appsv1beta1.ImageListPullJobSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if spec.Selector != nil && spec.PodSelector != nil {
		errs = append(errs, field.Invalid(path, "selector and podSelector", "only one of selector and podSelector may be set"))
	}
	if s := spec.Selector; s != nil {
		path := path.Child("selector")
		if len(s.Names) > 0 && len(s.MatchLabels)+len(s.MatchExpressions) > 0 {
			errs = append(errs, field.Invalid(path, s.Names, "names cannot be combined with matchLabels or matchExpressions"))
		}
		if names := sets.New(s.Names...); len(names) != len(s.Names) {
			errs = append(errs, field.Invalid(path, s.Names, "a node is named twice"))
		}
		errs = append(errs, rules.LabelSelector(&s.LabelSelector, path)...)
	}
	if s := spec.PodSelector; s != nil {
		errs = append(errs, rules.LabelSelector(&s.LabelSelector, path.Child("podSelector"))...)
	}
	return errs
}

func validateImages(images []string, path *field.Path) field.ErrorList {
	switch {
	case len(images) == 0:
		return field.ErrorList{field.Invalid(path, images, "must name an image")}
	case len(images) > maxImages:
		return field.ErrorList{field.Invalid(path, fmt.Sprintf("%d images", len(images)), fmt.Sprintf("must have at most %d", maxImages))}
	}
	var errs field.ErrorList
	seen := sets.New[string]()
	for i, image := range images {
		if seen.Has(image) {
			errs = append(errs, field.Invalid(path.Index(i), image, "is named twice"))
		}
		seen.Insert(image)
		if _, err := reference.ParseNormalizedNamed(image); err != nil {
			errs = append(errs, field.Invalid(path.Index(i), image, "is no image: "+err.Error()))
		}
	}
	return errs
}
