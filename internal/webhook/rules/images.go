// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"

	"github.com/distribution/reference"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	engineimage "github.com/kruise-operator/kruise-operator/internal/engine/image"
)

const (
	// maxImages is how many images one job may pull, maxNodes how many nodes it may name, maxSecrets how many Secrets.
	maxImages  = 255
	maxNodes   = 5000
	maxSecrets = 64
	// pullTimeout and pullBackoff are the defaults of spec.pullPolicy.
	pullTimeout = 600
	pullBackoff = 3
	// longestTimeout and maxRetries are their limits.
	longestTimeout = engineimage.LongestTimeout
	maxRetries     = 100
)

// DefaultImagePull fills in the omitted fields of a job that pulls images. Like OpenKruise
// it leaves parallelism out.
func DefaultImagePull(t *appsv1beta1.ImagePullJobTemplate) {
	if t.CompletionPolicy.Type == "" {
		t.CompletionPolicy.Type = appsv1beta1.CompleteAlways
	}
	if t.PullPolicy == nil {
		t.PullPolicy = &appsv1beta1.PullPolicy{}
	}
	OrDefault(&t.PullPolicy.TimeoutSeconds, pullTimeout)
	OrDefault(&t.PullPolicy.BackoffLimit, pullBackoff)
}

// ImagePull checks how images are pulled. path is the spec's.
func ImagePull(t *appsv1beta1.ImagePullJobTemplate, path *field.Path) field.ErrorList {
	errs := imagePullNodes(t, path)
	timeout := int64(pullTimeout)
	if p, at := t.PullPolicy, path.Child("pullPolicy"); p != nil {
		timeout = int64(ptr.Deref(p.TimeoutSeconds, pullTimeout))
		if timeout < 1 || timeout > longestTimeout {
			errs = append(errs, field.Invalid(at.Child("timeoutSeconds"), timeout, fmt.Sprintf("must be from 1 to %d", longestTimeout)))
		}
		if n := ptr.Deref(p.BackoffLimit, pullBackoff); n < 0 || n > maxRetries {
			errs = append(errs, field.Invalid(at.Child("backoffLimit"), n, fmt.Sprintf("must be from 0 to %d", maxRetries)))
		}
	}
	errs = append(errs, imagePullEnd(&t.CompletionPolicy, timeout, path.Child("completionPolicy"))...)
	errs = append(errs, OneOf(path.Child("imagePullPolicy"), t.ImagePullPolicy, "", appsv1beta1.PullAlways, appsv1beta1.PullIfNotPresent)...)
	if len(t.PullSecrets) > maxSecrets {
		errs = append(errs, field.TooMany(path.Child("pullSecrets"), len(t.PullSecrets), maxSecrets))
	}
	return errs
}

// imagePullEnd checks the deadlines of a job that ends. The schema refuses them for others.
func imagePullEnd(policy *appsv1beta1.CompletionPolicy, timeout int64, path *field.Path) field.ErrorList {
	if policy.Type == appsv1beta1.CompleteNever {
		return nil
	}
	errs := NotNegative(policy.TTLSecondsAfterFinished, path.Child("ttlSecondsAfterFinished"))
	if deadline := policy.ActiveDeadlineSeconds; deadline != nil && *deadline < timeout {
		errs = append(errs, field.Invalid(path.Child("activeDeadlineSeconds"), *deadline, fmt.Sprintf("must be at least pullPolicy.timeoutSeconds, which is %d", timeout)))
	}
	return errs
}

// imagePullNodes checks the choice of nodes to pull images to.
func imagePullNodes(t *appsv1beta1.ImagePullJobTemplate, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if t.Selector != nil && t.PodSelector != nil {
		errs = append(errs, field.Invalid(path, "selector and podSelector", "only one of selector and podSelector may be set"))
	}
	if s := t.Selector; s != nil {
		path := path.Child("selector")
		if len(s.Names) > maxNodes {
			errs = append(errs, field.TooMany(path.Child("names"), len(s.Names), maxNodes))
		}
		errs = append(errs, LabelSelector(&s.LabelSelector, path)...)
	}
	if s := t.PodSelector; s != nil {
		errs = append(errs, LabelSelector(&s.LabelSelector, path.Child("podSelector"))...)
	}
	return errs
}

// NobodyPulls refuses a job that pulls images, unless the node daemon may be used.
func NobodyPulls(daemon bool) field.ErrorList {
	if daemon {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec"), "nobody would pull the images: the feature gate KruiseDaemon is off")}
}

// Image checks the name of an image.
func Image(image string, path *field.Path) field.ErrorList {
	if _, err := reference.ParseNormalizedNamed(image); err != nil {
		return field.ErrorList{field.Invalid(path, image, "is no image: "+err.Error())}
	}
	return nil
}

// Images checks a list of images.
func Images(images []string, path *field.Path) field.ErrorList {
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
		errs = append(errs, Image(image, path.Index(i))...)
	}
	return errs
}
