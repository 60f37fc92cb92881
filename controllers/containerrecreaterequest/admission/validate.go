// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"cmp"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/restart"
	"github.com/kruise-operator/kruise-operator/internal/webhook/rules"
)

// leastDeadline is the shortest activeDeadlineSeconds.
const leastDeadline = 3

// Default fills in omissions independent of the pod.
func Default(r *appsv1beta1.ContainerRecreateRequest) {
	if r.Spec.Strategy == nil {
		r.Spec.Strategy = &appsv1beta1.ContainerRecreateRequestStrategy{}
	}
	r.Spec.Strategy.FailurePolicy = cmp.Or(r.Spec.Strategy.FailurePolicy, appsv1beta1.RecreateFail)
}

// Validate returns the faults visible without the pod.
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
	errs = append(errs, rules.NotNegative(r.Spec.TTLSecondsAfterFinished, spec.Child("ttlSecondsAfterFinished"))...)
	return append(errs, validateStrategy(r.Spec.Strategy, spec.Child("strategy"))...)
}

// validateStrategy repeats the schemas of both versions. OpenKruise's v1alpha1 lacks these
// limits, and an object valid in one version only cannot be updated through the other.
func validateStrategy(strategy *appsv1beta1.ContainerRecreateRequestStrategy, path *field.Path) field.ErrorList {
	if strategy == nil {
		return nil
	}
	errs := rules.NotNegative(&strategy.MinStartedSeconds, path.Child("minStartedSeconds"))
	errs = append(errs, rules.NotNegative(strategy.TerminationGracePeriodSeconds, path.Child("terminationGracePeriodSeconds"))...)
	errs = append(errs, rules.NotNegative(strategy.UnreadyGracePeriodSeconds, path.Child("unreadyGracePeriodSeconds"))...)
	if strategy.FailurePolicy != "" {
		errs = append(errs, rules.OneOf(path.Child("failurePolicy"), strategy.FailurePolicy, appsv1beta1.RecreateFail, appsv1beta1.RecreateIgnore)...)
	}
	return errs
}

// ValidateUpdate returns forbidden changes: a request runs once, as admitted.
func ValidateUpdate(r, old *appsv1beta1.ContainerRecreateRequest) field.ErrorList {
	var errs field.ErrorList
	if old.Labels[restart.LabelPin] != "" && r.Labels[restart.LabelPin] == "" {
		return validateAcquired(r, old) // it is being filled in: with what, is looked up
	}
	is, was := r.DeepCopy(), old.DeepCopy() // an update of metadata alone gets no defaults, and what is stored may have none
	Default(is)
	Default(was)
	if !equality.Semantic.DeepEqual(is.Spec, was.Spec) {
		errs = append(errs, field.Forbidden(field.NewPath("spec"), "cannot be changed; delete the request and create another one"))
	}
	labels := field.NewPath("metadata", "labels")
	for _, key := range []string{appsv1beta1.LabelRequestPodUID, appsv1beta1.LabelRequestNode, restart.LabelPin} {
		if r.Labels[key] != old.Labels[key] {
			errs = append(errs, field.Forbidden(labels.Key(key), "is set at admission and cannot be changed"))
		}
	}
	const key = appsv1beta1.LabelRequestActive
	if r.Labels[key] != old.Labels[key] && !restart.Over(old) {
		errs = append(errs, field.Forbidden(labels.Key(key), "cannot be changed before the request is completed: the daemon of the node would lose sight of it"))
	}
	return append(errs, validateAcquired(r, old)...)
}

// validateAcquired protects the start of the grace period: when the pod went out of service.
// Conversion removes v1alpha1's annotation if it matches the condition, so a remaining one differs.
func validateAcquired(r, old *appsv1beta1.ContainerRecreateRequest) field.ErrorList {
	const key = appsv1alpha1.AnnotationUnreadyAcquired
	was := old.Annotations[key]
	for i := range old.Status.Conditions {
		if c := &old.Status.Conditions[i]; c.Type == appsv1beta1.RecreatePreRecreateGrace && c.Status == metav1.ConditionTrue {
			was = c.LastTransitionTime.UTC().Format(time.RFC3339)
		}
	}
	if is := r.Annotations[key]; was == "" || is == "" || is == was || is == old.Annotations[key] {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("metadata", "annotations").Key(key),
		fmt.Sprintf("is %s, when the pod was taken out of service, and cannot be changed", was))}
}
