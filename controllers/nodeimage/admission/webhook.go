// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package admission is admission for NodeImages of apps.kruise.io: it fills in defaults, sorts tags and refuses
// what cannot work. Both versions have the same fields, so v1alpha1 clients lose nothing.
package admission

import (
	"cmp"
	"slices"
	"time"

	"github.com/distribution/reference"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/image"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
	"github.com/kruise-operator/kruise-operator/internal/webhook/rules"
)

// +kubebuilder:webhook:path=/mutate-apps-kruise-io-v1beta1-nodeimage,mutating=true,groups=apps.kruise.io,resources=nodeimages,verbs=create;update,versions=v1beta1,name=default.nodeimages.apps.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system
// +kubebuilder:webhook:path=/validate-apps-kruise-io-v1beta1-nodeimage,mutating=false,groups=apps.kruise.io,resources=nodeimages,verbs=create;update,versions=v1beta1,name=validate.nodeimages.apps.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system

// keptSeconds is the default time a tag stays after its end.
const keptSeconds = 24 * 60 * 60

// tags are how many there are. All are written to the API server whenever one changes.
func tags(list *appsv1beta1.NodeImage) int {
	n := 0
	for _, entry := range image.Places(&list.Spec) {
		n += len(entry.Tags)
	}
	return n
}

// Kind are the rules for NodeImages.
func Kind() admit.Kind[appsv1beta1.NodeImage, *appsv1beta1.NodeImage] {
	return admit.Kind[appsv1beta1.NodeImage, *appsv1beta1.NodeImage]{
		GroupVersionKind: appsv1beta1.GroupVersion().WithKind("NodeImage"),
		Default:          func(list *appsv1beta1.NodeImage) { Default(list, time.Now()) },
		Validate:         Validate,
	}
}

// Default fills in defaults and sorts the tags by name.
func Default(list *appsv1beta1.NodeImage, now time.Time) {
	if tags(list) > image.MaxTags {
		return // Validate refuses it, unless it is stored as it is.
	}
	for _, entry := range image.Places(&list.Spec) {
		for i := range entry.Tags {
			tag := &entry.Tags[i]
			if tag.CreatedAt == nil {
				created := podstate.Time(now)
				tag.CreatedAt = &created
			}
			if tag.PullPolicy == nil {
				tag.PullPolicy = &appsv1beta1.ImageTagPullPolicy{}
			}
			rules.OrDefault(&tag.PullPolicy.TimeoutSeconds, 600)
			rules.OrDefault(&tag.PullPolicy.BackoffLimit, 3)
			rules.OrDefault(&tag.PullPolicy.TTLSecondsAfterFinished, keptSeconds)
		}
		slices.SortStableFunc(entry.Tags, func(a, b appsv1beta1.ImageTagSpec) int { return cmp.Compare(a.Tag, b.Tag) })
	}
}

// Validate returns the faults of a NodeImage after Default.
func Validate(list *appsv1beta1.NodeImage) field.ErrorList {
	if tags(list) > image.MaxTags {
		return field.ErrorList{field.TooMany(field.NewPath("spec", "images"), -1, image.MaxTags)}
	}
	var errs field.ErrorList
	for place, entry := range image.Places(&list.Spec) {
		path := field.NewPath("spec", "images").Key(place.Key())
		if place.Namespace != "" {
			path = field.NewPath("spec", "namespacedImages").Key(place.Key())
		}
		if _, apart := list.Spec.NamespacedImages["/"+place.Key()]; apart {
			errs = append(errs, field.Invalid(field.NewPath("spec", "namespacedImages").Key("/"+place.Key()), "/"+place.Key(), "must have a namespace before the /"))
			continue
		}
		named, err := reference.ParseNormalizedNamed(place.Repository)
		if err != nil || !reference.IsNameOnly(named) {
			errs = append(errs, field.Invalid(path, place.Key(), "must be a repository without a tag, such as nginx or registry.example:5000/team/app"))
			continue
		}
		if short := reference.FamiliarName(named); short != place.Repository {
			errs = append(errs, field.Invalid(path, place.Key(), "must be in the short form, "+short))
			continue
		}
		for i := range entry.Tags {
			tag := &entry.Tags[i]
			if _, err := (image.Reference{Repository: place.Repository, Tag: tag.Tag}).Full(); err != nil {
				errs = append(errs, field.Invalid(path.Child("tags").Index(i).Child("tag"), tag.Tag, "must be a tag, or a digest such as sha256:..."))
			}
		}
	}
	return errs
}
