// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"math"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/budget"
	"github.com/kruise-operator/kruise-operator/internal/webhook/rules"
)

const (
	// noDeadline is the progressDeadlineSeconds for no deadline.
	noDeadline = math.MaxInt32
)

// Validate returns the faults of a CloneSet after Default.
func Validate(set *appsv1beta1.CloneSet) field.ErrorList {
	spec, path := &set.Spec, field.NewPath("spec")

	errs := rules.Metadata(&set.ObjectMeta, field.NewPath("metadata"))
	errs = append(errs, rules.Workload("CloneSet", spec.Replicas, spec.Selector, &spec.Template, path)...)
	errs = append(errs, validateScaleStrategy(&spec.ScaleStrategy, path.Child("scaleStrategy"))...)
	errs = append(errs, validateUpdateStrategy(spec, path.Child("updateStrategy"))...)
	errs = append(errs, rules.NotNegative(&spec.MinReadySeconds, path.Child("minReadySeconds"))...)
	errs = append(errs, rules.NotNegative(spec.RevisionHistoryLimit, path.Child("revisionHistoryLimit"))...)
	if d := spec.ProgressDeadlineSeconds; d != nil {
		path := path.Child("progressDeadlineSeconds")
		switch {
		case *d < 0:
			errs = append(errs, field.Invalid(path, *d, "must be 0 or more"))
		case *d <= spec.MinReadySeconds && *d != noDeadline:
			errs = append(errs, field.Invalid(path, *d,
				"must be more than minReadySeconds, which is "+strconv.Itoa(int(spec.MinReadySeconds))))
		}
	}
	return errs
}

func validateScaleStrategy(s *appsv1beta1.CloneSetScaleStrategy, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	named := make(map[string]struct{}, len(s.PodsToDelete))
	for _, name := range s.PodsToDelete {
		if _, twice := named[name]; twice {
			errs = append(errs, field.Invalid(path.Child("podsToDelete"), name, "is named twice"))
		}
		named[name] = struct{}{}
	}
	return append(errs, rules.Count(s.MaxUnavailable, path.Child("maxUnavailable"))...)
}

func validateUpdateStrategy(spec *appsv1beta1.CloneSetSpec, path *field.Path) field.ErrorList {
	strategy := &spec.UpdateStrategy
	errs := rules.OneOf(path.Child("type"), strategy.Type, "",
		appsv1beta1.RollingUpdateCloneSetUpdateStrategyType, appsv1beta1.OnDeleteCloneSetUpdateStrategyType)
	rolling := strategy.RollingUpdate
	if rolling == nil {
		return errs
	}

	path = path.Child("rollingUpdate")
	errs = append(errs, rules.OneOf(path.Child("podUpdatePolicy"), rolling.PodUpdatePolicy, "",
		shared.RecreatePods, shared.InPlaceIfPossible, shared.InPlaceOnly)...)
	if rolling.Partition == nil && strategy.Type != appsv1beta1.OnDeleteCloneSetUpdateStrategyType {
		errs = append(errs, field.Invalid(path.Child("partition"), nil, rules.ACount))
	}
	errs = append(errs, rules.Count(rolling.Partition, path.Child("partition"))...)
	errs = append(errs, validateLimits(rolling, ptr.Deref(spec.Replicas, 1), path)...)
	if p := rolling.PriorityStrategy; p != nil {
		errs = append(errs, rules.Priority(p, path.Child("priorityStrategy"))...)
	}
	errs = append(errs, rules.Scatter(rolling.ScatterStrategy, path.Child("scatterStrategy"))...)
	return append(errs, rules.InPlaceStrategy(rolling.InPlaceUpdateStrategy, path.Child("inPlaceUpdateStrategy"))...)
}

// validateLimits requires that an update can begin: it needs an unavailable pod or a surplus one.
func validateLimits(rolling *appsv1beta1.RollingUpdateCloneSetStrategy, replicas int32, path *field.Path) field.ErrorList {
	errs := rules.Count(rolling.MaxUnavailable, path.Child("maxUnavailable"))
	errs = append(errs, rules.Count(rolling.MaxSurge, path.Child("maxSurge"))...)
	if len(errs) > 0 {
		return errs
	}
	// Replicas may grow later, so for this rule any surge counts.
	if rolling.PodUpdatePolicy == shared.InPlaceOnly && roundedUp(rolling.MaxSurge, intstr.FromInt32(0), budget.Unlimited) > 0 {
		errs = append(errs, field.Invalid(path.Child("maxSurge"), rules.Plain(*rolling.MaxSurge),
			"must be 0 when podUpdatePolicy is InPlaceOnly: no pod is ever created for an update"))
	}
	surge := roundedUp(rolling.MaxSurge, intstr.FromInt32(0), replicas)
	if unavailable := roundedUp(rolling.MaxUnavailable, intstr.FromString("20%"), replicas); replicas > 0 && unavailable < 1 && surge < 1 {
		errs = append(errs, field.Invalid(path.Child("maxUnavailable"), rules.Plain(*rolling.MaxUnavailable),
			"must come to at least 1 pod while maxSurge does not, or no pod could be updated"))
	}
	return errs
}

// roundedUp is a valid count.
func roundedUp(v *intstr.IntOrString, def intstr.IntOrString, replicas int32) int32 {
	n, err := budget.Count(ptr.Deref(v, def), replicas, budget.Up)
	if err != nil {
		return 0
	}
	return n
}

// ValidateUpdate returns forbidden changes, but for those that the schema refuses. Default has filled in both objects.
func ValidateUpdate(set, old *appsv1beta1.CloneSet) field.ErrorList {
	strategy := &set.Spec.UpdateStrategy
	if r := strategy.RollingUpdate; r != nil && r.PodUpdatePolicy == shared.InPlaceOnly &&
		strategy.Type != appsv1beta1.OnDeleteCloneSetUpdateStrategyType {
		return rules.InPlaceOnly(&set.Spec.Template, &old.Spec.Template, field.NewPath("spec", "template", "spec"))
	}
	return nil
}

// inV1alpha1 is a field's name for a client of v1alpha1.
func inV1alpha1(path string) string {
	const rolling = "spec.updateStrategy.rollingUpdate"
	for _, rename := range [][2]string{
		{rolling + ".podUpdatePolicy", "spec.updateStrategy.type"},
		{rolling + ".inPlaceUpdateStrategy.imagePreDownloadParallelism", annotationPath(shared.AnnotationPreDownloadParallelism)},
		{rolling + ".inPlaceUpdateStrategy.imagePreDownloadTimeoutSeconds", annotationPath(shared.AnnotationPreDownloadTimeoutSeconds)},
		{rolling + ".inPlaceUpdateStrategy.imagePreDownloadMinUpdatedReadyPods", annotationPath(shared.AnnotationPreDownloadMinUpdatedReadyPods)},
		{rolling, "spec.updateStrategy"},
	} {
		if rest, found := strings.CutPrefix(path, rename[0]); found {
			return rename[1] + rest
		}
	}
	return path
}

func annotationPath(key string) string {
	return field.NewPath("metadata", "annotations").Key(key).String()
}
