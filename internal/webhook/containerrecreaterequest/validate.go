// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package containerrecreaterequest

import (
	"cmp"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/restart"
)

// leastDeadline is the shortest activeDeadlineSeconds.
const leastDeadline = 3

// Default fills in what the user left out and what does not depend on the pod.
func Default(r *appsv1beta1.ContainerRecreateRequest) {
	if r.Spec.Strategy == nil {
		r.Spec.Strategy = &appsv1beta1.ContainerRecreateRequestStrategy{}
	}
	r.Spec.Strategy.FailurePolicy = cmp.Or(r.Spec.Strategy.FailurePolicy, appsv1beta1.RecreateFail)
}

// Validate returns what is wrong with a request, whatever its pod.
func Validate(r *appsv1beta1.ContainerRecreateRequest) field.ErrorList {
	spec := field.NewPath("spec")
	var errs field.ErrorList
	if r.Spec.PodName == "" {
		errs = append(errs, field.Required(spec.Child("podName"), "the name of a pod in the namespace of the request"))
	}
	if len(r.Spec.Containers) == 0 {
		errs = append(errs, field.Required(spec.Child("containers"), "the names of the containers to restart"))
	}
	if deadline := r.Spec.ActiveDeadlineSeconds; deadline != nil && *deadline < leastDeadline {
		errs = append(errs, field.Invalid(spec.Child("activeDeadlineSeconds"), *deadline, "must be 3 or more"))
	}
	return errs
}

// ValidateUpdate returns what may not change: a request runs once, as it was admitted.
func ValidateUpdate(r, old *appsv1beta1.ContainerRecreateRequest) field.ErrorList {
	var errs field.ErrorList
	is, was := r.DeepCopy(), old.DeepCopy() // an update of metadata alone gets no defaults, and what is stored may have none
	Default(is)
	Default(was)
	if !equality.Semantic.DeepEqual(is.Spec, was.Spec) {
		errs = append(errs, field.Forbidden(field.NewPath("spec"), "cannot be changed; delete the request and create another one"))
	}
	labels := field.NewPath("metadata", "labels")
	for _, key := range []string{appsv1beta1.LabelRequestPodUID, appsv1beta1.LabelRequestNode} {
		if r.Labels[key] != old.Labels[key] {
			errs = append(errs, field.Forbidden(labels.Key(key), "is set at admission and cannot be changed"))
		}
	}
	const key = appsv1beta1.LabelRequestActive
	if r.Labels[key] != old.Labels[key] && !restart.Over(old) {
		errs = append(errs, field.Forbidden(labels.Key(key), "cannot be changed before the request is completed: the daemon of the node would lose sight of it"))
	}
	return errs
}
