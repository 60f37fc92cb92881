// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/statefulset/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/ordinal"
	"github.com/kruise-operator/kruise-operator/internal/webhook/rules"
)

const (
	// MaxReservedRange is the widest range in reserveOrdinals. No set can have more pods, so a
	// wider range is a slip of the pen.
	MaxReservedRange = 1_000_000
	// maxMinReadySeconds is the longest minReadySeconds.
	maxMinReadySeconds = 300
)

// Validate returns the faults of a StatefulSet after Default.
func Validate(set *appsv1beta1.StatefulSet) field.ErrorList {
	spec, path := &set.Spec, field.NewPath("spec")
	parallel := spec.PodManagementPolicy == appsv1.ParallelPodManagement

	errs := validateName(set)
	errs = append(errs, rules.Workload("StatefulSet", spec.Replicas, spec.Selector, &spec.Template, path)...)
	errs = append(errs, rules.OneOf(path.Child("podManagementPolicy"), spec.PodManagementPolicy,
		appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement)...)
	errs = append(errs, validateReserved(spec.ReserveOrdinals, path.Child("reserveOrdinals"))...)
	if o := spec.Ordinals; o != nil && o.Start < 0 {
		errs = append(errs, field.Invalid(path.Child("ordinals", "start"), o.Start, "must be 0 or more"))
	}
	if s := spec.ScaleStrategy; s != nil && s.MaxUnavailable != nil {
		errs = append(errs, validateScaleStrategy(*s.MaxUnavailable, parallel, path.Child("scaleStrategy", "maxUnavailable"))...)
	}
	errs = append(errs, validateUpdateStrategy(spec, parallel, path.Child("updateStrategy"))...)
	errs = append(errs, rules.NotNegative(spec.RevisionHistoryLimit, path.Child("revisionHistoryLimit"))...)
	if p := spec.PersistentVolumeClaimRetentionPolicy; p != nil {
		policy := path.Child("persistentVolumeClaimRetentionPolicy")
		retain, remove := appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType
		errs = append(errs, rules.OneOf(policy.Child("whenDeleted"), p.WhenDeleted, retain, remove, "")...)
		errs = append(errs, rules.OneOf(policy.Child("whenScaled"), p.WhenScaled, retain, remove, "")...)
	}
	errs = append(errs, rules.OneOf(path.Child("volumeClaimUpdateStrategy", "type"), spec.VolumeClaimUpdateStrategy.Type,
		appsv1beta1.OnDeleteVolumeClaimUpdateStrategyType, appsv1beta1.OnPodRollingUpdateVolumeClaimUpdateStrategyType, "")...)
	return errs
}

// validateName requires a DNS label, since the name begins the host names of the pods. While the name is still to be generated,
// its prefix is looked at.
func validateName(set *appsv1beta1.StatefulSet) field.ErrorList {
	name, path := set.Name, field.NewPath("metadata", "name")
	if name == "" {
		if set.GenerateName == "" {
			return nil // the API server asks for it
		}
		name, path = strings.TrimRight(set.GenerateName, "-"), field.NewPath("metadata", "generateName")
	}
	var errs field.ErrorList
	for _, message := range validation.IsDNS1123Label(name) {
		errs = append(errs, field.Invalid(path, name, message))
	}
	return errs
}

func validateReserved(reserved []intstr.IntOrString, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, element := range reserved {
		if _, err := ordinal.New(0, 0, reserved[i:i+1]); err != nil {
			errs = append(errs, field.Invalid(path.Index(i), rules.Plain(element),
				`must be a whole number from 0 to 2147483647, or a range "a-b" of two such numbers with a not above b`))
			continue
		}
		first, last, _ := strings.Cut(element.StrVal, "-")
		from, _ := strconv.Atoi(first)
		to, _ := strconv.Atoi(last)
		if width := to - from + 1; width > MaxReservedRange {
			errs = append(errs, field.Invalid(path.Index(i), rules.Plain(element),
				fmt.Sprintf("reserves %d ordinals; one range may reserve at most %d", width, MaxReservedRange)))
		}
	}
	return errs
}

func validateScaleStrategy(v intstr.IntOrString, parallel bool, path *field.Path) field.ErrorList {
	if !parallel && v != intstr.FromInt32(1) {
		return field.ErrorList{field.Invalid(path, rules.Plain(v), "must be 1 unless podManagementPolicy is Parallel")}
	}
	return validateMaxUnavailable(v, path)
}

func validateMaxUnavailable(v intstr.IntOrString, path *field.Path) field.ErrorList {
	switch {
	case v.Type == intstr.Int && v.IntVal < 1:
		return field.ErrorList{field.Invalid(path, rules.Plain(v), `must be at least 1, or a percentage of at least "1%"`)}
	case v.Type == intstr.String:
		digits, isPercent := strings.CutSuffix(v.StrVal, "%")
		if n, err := strconv.ParseInt(digits, 10, 32); !isPercent || err != nil || n < 1 || digits[0] == '+' {
			return field.ErrorList{field.Invalid(path, v.StrVal, `must be a whole number of at least 1, or a percentage such as "10%" of at least "1%"`)}
		}
	}
	return nil
}

func validateUpdateStrategy(spec *appsv1beta1.StatefulSetSpec, parallel bool, path *field.Path) field.ErrorList {
	strategy := &spec.UpdateStrategy
	errs := rules.OneOf(path.Child("type"), strategy.Type,
		appsv1.RollingUpdateStatefulSetStrategyType, appsv1.OnDeleteStatefulSetStrategyType)
	rolling := strategy.RollingUpdate
	if rolling == nil {
		return errs
	}

	path = path.Child("rollingUpdate")
	onDelete := strategy.Type == appsv1.OnDeleteStatefulSetStrategyType // it has no defaults then
	if p := rolling.Partition; p != nil && *p < 0 {
		errs = append(errs, field.Invalid(path.Child("partition"), *p, "must be 0 or more"))
	}
	switch {
	case rolling.MaxUnavailable == nil && !onDelete:
		errs = append(errs, field.Required(path.Child("maxUnavailable"), "a number of pods, or a percentage"))
	case rolling.MaxUnavailable != nil:
		errs = append(errs, validateMaxUnavailable(*rolling.MaxUnavailable, path.Child("maxUnavailable"))...)
	}
	if s := rolling.MinReadySeconds; s != nil && (*s < 0 || *s > maxMinReadySeconds) {
		errs = append(errs, field.Invalid(path.Child("minReadySeconds"), *s, fmt.Sprintf("must be from 0 to %d", maxMinReadySeconds)))
	}
	if rolling.PodUpdatePolicy != "" || !onDelete {
		errs = append(errs, rules.OneOf(path.Child("podUpdatePolicy"), rolling.PodUpdatePolicy,
			shared.RecreatePods, shared.InPlaceIfPossible, shared.InPlaceOnly)...)
	}
	errs = append(errs, rules.InPlaceStrategy(rolling.InPlaceUpdateStrategy, path.Child("inPlaceUpdateStrategy"))...)
	if u := rolling.UnorderedUpdate; u != nil {
		path := path.Child("unorderedUpdate")
		if !parallel {
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("only works with podManagementPolicy Parallel, which is %s",
				spec.PodManagementPolicy)))
		}
		if u.PriorityStrategy != nil {
			errs = append(errs, rules.Priority(u.PriorityStrategy, path.Child("priorityStrategy"))...)
		}
	}
	return errs
}

// ValidateCreate checks a new set. Default has filled it in.
func ValidateCreate(set *appsv1beta1.StatefulSet) field.ErrorList {
	return validateOnDelete(set, nil)
}

// validateOnDelete refuses a new rollingUpdate beside the type OnDelete. One left from another type
// is mostly its defaults: kubectl apply does not take them away.
func validateOnDelete(set *appsv1beta1.StatefulSet, before *appsv1beta1.RollingUpdateStatefulSetStrategy) field.ErrorList {
	strategy := &set.Spec.UpdateStrategy
	if strategy.Type != appsv1.OnDeleteStatefulSetStrategyType || strategy.RollingUpdate == nil || equality.Semantic.DeepEqual(strategy.RollingUpdate, before) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("spec", "updateStrategy", "rollingUpdate"), "{...}", "must be absent when updateStrategy.type is OnDelete")}
}

// ValidateUpdate returns forbidden changes, but for those that the schema refuses. Default has filled in both objects.
func ValidateUpdate(set, old *appsv1beta1.StatefulSet, o plan.Options) field.ErrorList {
	path := field.NewPath("spec")
	errs := validateOnDelete(set, old.Spec.UpdateStrategy.RollingUpdate)
	strategy := &set.Spec.UpdateStrategy
	if r := strategy.RollingUpdate; r != nil && r.PodUpdatePolicy == shared.InPlaceOnly && strategy.Type != appsv1.OnDeleteStatefulSetStrategyType {
		errs = append(errs, rules.InPlaceOnly(&set.Spec.Template, &old.Spec.Template, path.Child("template", "spec"))...)
	}
	if resizes(set, o) {
		errs = append(errs, validateClaims(set.Spec.VolumeClaimTemplates, old.Spec.VolumeClaimTemplates, path.Child("volumeClaimTemplates"))...)
	}
	return errs
}

// resizes says whether claims of existing pods follow the claim templates.
func resizes(set *appsv1beta1.StatefulSet, o plan.Options) bool {
	return o.AutoResizePVC &&
		set.Spec.VolumeClaimUpdateStrategy.Type == appsv1beta1.OnPodRollingUpdateVolumeClaimUpdateStrategyType
}

// validateClaims allows only the requested size of claim templates to change: nothing else of an existing claim can be.
func validateClaims(claims, old []corev1.PersistentVolumeClaim, path *field.Path) field.ErrorList {
	const rule = "while volumeClaimUpdateStrategy.type is OnPodRollingUpdate, "
	if len(claims) != len(old) {
		return field.ErrorList{field.Forbidden(path, fmt.Sprintf(rule+"claim templates cannot be added or removed; there are %d", len(old)))}
	}
	before := byName(old)
	var errs field.ErrorList
	for i := range claims {
		stored, found := before[claims[i].Name]
		if !found {
			errs = append(errs, field.Forbidden(path.Index(i).Child("metadata", "name"),
				fmt.Sprintf(rule+"claim templates cannot be renamed; there was none named %q", claims[i].Name)))
			continue
		}
		is, was := claims[i].Spec.DeepCopy(), stored.Spec.DeepCopy()
		for _, spec := range []*corev1.PersistentVolumeClaimSpec{is, was} {
			delete(spec.Resources.Requests, corev1.ResourceStorage)
			if spec.VolumeMode != nil && *spec.VolumeMode == corev1.PersistentVolumeFilesystem {
				spec.VolumeMode = nil // the server's default, written or not
			}
		}
		if !equality.Semantic.DeepEqual(is, was) {
			errs = append(errs, field.Forbidden(path.Index(i).Child("spec"),
				fmt.Sprintf(rule+"only resources.requests.storage may change; this update also changes %s", rules.Differences(was, is))))
		}
	}
	return errs
}
