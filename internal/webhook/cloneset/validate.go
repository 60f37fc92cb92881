// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package cloneset

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/budget"
	"github.com/kruise-operator/kruise-operator/internal/webhook/workload"
)

const (
	// aCount is what the fields of type int-or-string accept.
	aCount = `must be a whole number of at least 0, or a percentage such as "30%"`
	// noDeadline is the progressDeadlineSeconds that means none.
	noDeadline = math.MaxInt32
)

// Validate returns what is wrong with a CloneSet that Default has filled in. old is the stored object for an update, nil for a
// creation.
//
// A fault that the stored object has too is not held against the update, see workload.Introduced.
func Validate(set, old *appsv1beta1.CloneSet) field.ErrorList {
	errs := validate(set)
	if old == nil {
		return errs
	}
	before := old.DeepCopy()
	Default(before)
	return append(workload.Introduced(errs, validate(before)), validateUpdate(set, before)...)
}

// validate holds the rules for one object. What the API server thinks of the template is another step, see Validator.
func validate(set *appsv1beta1.CloneSet) field.ErrorList {
	spec, path := &set.Spec, field.NewPath("spec")

	errs := validateMetadata(&set.ObjectMeta, field.NewPath("metadata"))
	if r := spec.Replicas; r != nil && *r < 0 {
		errs = append(errs, field.Invalid(path.Child("replicas"), *r, "must be 0 or more"))
	}
	errs = append(errs, workload.Selector(spec.Selector, &spec.Template, path)...)
	errs = append(errs, workload.Template("CloneSet", &spec.Template, path.Child("template"))...)
	errs = append(errs, validateScaleStrategy(&spec.ScaleStrategy, path.Child("scaleStrategy"))...)
	errs = append(errs, validateUpdateStrategy(spec, path.Child("updateStrategy"))...)
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

// validateMetadata lets a name be missing: it is still to be generated then, or the API server asks for it.
func validateMetadata(object *metav1.ObjectMeta, path *field.Path) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(object, true, apivalidation.NameIsDNSSubdomain, path)
	return slices.DeleteFunc(errs, func(e *field.Error) bool {
		return object.Name == "" && e.Type == field.ErrorTypeRequired && e.Field == path.Child("name").String()
	})
}

func validateScaleStrategy(s *appsv1beta1.CloneSetScaleStrategy, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, name := range s.PodsToDelete {
		if slices.Contains(s.PodsToDelete[:i], name) {
			errs = append(errs, field.Invalid(path.Child("podsToDelete"), name, "is named twice"))
		}
	}
	return append(errs, validateCount(s.MaxUnavailable, path.Child("maxUnavailable"))...)
}

func validateUpdateStrategy(spec *appsv1beta1.CloneSetSpec, path *field.Path) field.ErrorList {
	strategy := &spec.UpdateStrategy
	errs := workload.OneOf(path.Child("type"), strategy.Type, "",
		appsv1beta1.RollingUpdateCloneSetUpdateStrategyType, appsv1beta1.OnDeleteCloneSetUpdateStrategyType)
	rolling := strategy.RollingUpdate
	if rolling == nil {
		return errs
	}

	path = path.Child("rollingUpdate")
	errs = append(errs, workload.OneOf(path.Child("podUpdatePolicy"), rolling.PodUpdatePolicy, "",
		shared.RecreatePods, shared.InPlaceIfPossible, shared.InPlaceOnly)...)
	if rolling.Partition == nil && strategy.Type != appsv1beta1.OnDeleteCloneSetUpdateStrategyType {
		errs = append(errs, field.Invalid(path.Child("partition"), nil, aCount))
	}
	errs = append(errs, validateCount(rolling.Partition, path.Child("partition"))...)
	errs = append(errs, validateLimits(rolling, ptr.Deref(spec.Replicas, 1), path)...)
	if p := rolling.PriorityStrategy; p != nil {
		errs = append(errs, workload.Priority(p, path.Child("priorityStrategy"))...)
	}
	errs = append(errs, validateScatter(rolling.ScatterStrategy, path.Child("scatterStrategy"))...)
	if p := rolling.InPlaceUpdateStrategy; p != nil {
		errs = append(errs, validatePreDownload(p, path.Child("inPlaceUpdateStrategy"))...)
	}
	return errs
}

// validateLimits requires that an update can begin: with neither an unavailable pod nor a surplus one it never would.
func validateLimits(rolling *appsv1beta1.RollingUpdateCloneSetStrategy, replicas int32, path *field.Path) field.ErrorList {
	errs := validateCount(rolling.MaxUnavailable, path.Child("maxUnavailable"))
	errs = append(errs, validateCount(rolling.MaxSurge, path.Child("maxSurge"))...)
	if len(errs) > 0 {
		return errs
	}
	// Replicas may grow later, so for this rule any surge counts.
	if rolling.PodUpdatePolicy == shared.InPlaceOnly && roundedUp(rolling.MaxSurge, intstr.FromInt32(0), budget.Unlimited) > 0 {
		errs = append(errs, field.Invalid(path.Child("maxSurge"), workload.Plain(*rolling.MaxSurge),
			"must be 0 when podUpdatePolicy is InPlaceOnly: no pod is ever created for an update"))
	}
	surge := roundedUp(rolling.MaxSurge, intstr.FromInt32(0), replicas)
	if unavailable := roundedUp(rolling.MaxUnavailable, intstr.FromString("20%"), replicas); replicas > 0 && unavailable < 1 && surge < 1 {
		errs = append(errs, field.Invalid(path.Child("maxUnavailable"), workload.Plain(*rolling.MaxUnavailable),
			"must come to at least 1 pod while maxSurge does not, or no pod could be updated"))
	}
	return errs
}

// roundedUp is a count that validateCount has passed.
func roundedUp(v *intstr.IntOrString, def intstr.IntOrString, replicas int32) int32 {
	n, err := budget.Count(ptr.Deref(v, def), replicas, budget.Up)
	if err != nil {
		return 0
	}
	return n
}

func validateCount(v *intstr.IntOrString, path *field.Path) field.ErrorList {
	if v == nil {
		return nil
	}
	if _, err := budget.Count(*v, 0, budget.Up); err != nil {
		return field.ErrorList{field.Invalid(path, workload.Plain(*v), aCount)}
	}
	return nil
}

func validateScatter(terms []shared.UpdateScatterTerm, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, term := range terms {
		switch {
		case term.Key == "":
			errs = append(errs, field.Required(path.Index(i).Child("key"), "the key of a pod label"))
		case slices.Contains(terms[:i], term):
			errs = append(errs, field.Duplicate(path.Index(i), term.Key+"="+term.Value))
		}
	}
	return errs
}

func validatePreDownload(p *shared.InPlaceUpdateStrategy, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if v := p.ImagePreDownloadParallelism; v != nil {
		n, err := strconv.ParseInt(v.String(), 10, 32)
		if err != nil || n < 0 {
			errs = append(errs, field.Invalid(path.Child("imagePreDownloadParallelism"), workload.Plain(*v), "must be a whole number of at least 0"))
		}
	}
	if v := p.ImagePreDownloadTimeoutSeconds; v != nil && *v < 0 {
		errs = append(errs, field.Invalid(path.Child("imagePreDownloadTimeoutSeconds"), *v, "must be 0 or more"))
	}
	if v := p.ImagePreDownloadMinUpdatedReadyPods; v != nil && *v < 0 {
		errs = append(errs, field.Invalid(path.Child("imagePreDownloadMinUpdatedReadyPods"), *v, "must be 0 or more"))
	}
	return errs
}

// validateUpdate holds the rules for a change. Both objects are filled with defaults.
func validateUpdate(set, old *appsv1beta1.CloneSet) field.ErrorList {
	path := field.NewPath("spec")
	var errs field.ErrorList
	if !equality.Semantic.DeepEqual(set.Spec.Selector, old.Spec.Selector) {
		errs = append(errs, workload.Fixed(path.Child("selector"), metav1.FormatLabelSelector(old.Spec.Selector)))
	}
	strategy := &set.Spec.UpdateStrategy
	if r := strategy.RollingUpdate; r != nil && r.PodUpdatePolicy == shared.InPlaceOnly &&
		strategy.Type != appsv1beta1.OnDeleteCloneSetUpdateStrategyType {
		errs = append(errs, workload.InPlaceOnly(&set.Spec.Template, &old.Spec.Template, path.Child("template", "spec"))...)
	}
	return errs
}

// InV1alpha1 names the fields of errors as a client of v1alpha1 knows them.
func InV1alpha1(errs field.ErrorList) field.ErrorList {
	renamed := make(field.ErrorList, 0, len(errs))
	for _, err := range errs {
		named := *err
		named.Field = inV1alpha1(err.Field)
		renamed = append(renamed, &named)
	}
	return renamed
}

// WarningsInV1alpha1 does so for warnings, which begin with their field.
func WarningsInV1alpha1(warnings []string) []string {
	renamed := make([]string, len(warnings))
	for i, warning := range warnings {
		path, text, _ := strings.Cut(warning, ": ")
		renamed[i] = inV1alpha1(path) + ": " + text
	}
	return renamed
}

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
