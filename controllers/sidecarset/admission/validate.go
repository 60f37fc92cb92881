// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecarspec"
	"github.com/kruise-operator/kruise-operator/internal/webhook/rules"
)

const (
	// maxPatches is how many entries of patchPodMetadata there may be.
	maxPatches = 100
	// maxPatchedAnnotations is how many annotations they may have in all.
	maxPatchedAnnotations = 1000
	// maxRegex limits a regular expression, in bytes; container names have at most 63.
	maxRegex = 256
	// maxPolicies limits sidecars with computed resources: checking them is costly.
	maxPolicies = 200
)

// Validate returns the faults visible in the set alone.
func Validate(set *appsv1beta1.SidecarSet) field.ErrorList {
	spec, path := &set.Spec, field.NewPath("spec")
	errs := validateMetadata(set, field.NewPath("metadata"))
	if spec.Selector == nil {
		errs = append(errs, field.Required(path.Child("selector"), "a selector of the pods that get the sidecars"))
	}
	errs = append(errs, rules.NonEmptySelector(spec.Selector, path.Child("selector"))...)
	errs = append(errs, rules.NonEmptySelector(spec.NamespaceSelector, path.Child("namespaceSelector"))...)
	if len(spec.Containers)+len(spec.InitContainers) == 0 {
		errs = append(errs, field.Required(path.Child("containers"), "at least one container or init container"))
	}
	errs = append(errs, validateSidecars(spec, path)...)
	errs = append(errs, validatePatches(spec.PatchPodMetadata, path.Child("patchPodMetadata"))...)
	errs = append(errs, validateInjection(&spec.InjectionStrategy, path.Child("injectionStrategy"))...)
	errs = append(errs, validateUpdateStrategy(spec, path.Child("updateStrategy"))...)
	return append(errs, rules.Faults(path.Child("customVersion"), spec.CustomVersion, validation.IsValidLabelValue(spec.CustomVersion))...)
}

func validateMetadata(set *appsv1beta1.SidecarSet, path *field.Path) field.ErrorList {
	errs := rules.TemplateMetadata(&set.ObjectMeta, path)
	if set.Name != "" {
		errs = append(errs, rules.Faults(path.Child("name"), set.Name, validation.IsDNS1123Label(set.Name))...)
	}
	fails := []admissionv1.FailurePolicyType{admissionv1.Fail, admissionv1.Ignore}
	if policy, given := set.Annotations[shared.AnnotationInjectionFailurePolicy]; given && !slices.Contains(fails, admissionv1.FailurePolicyType(policy)) {
		errs = append(errs, field.NotSupported(path.Child("annotations").Key(shared.AnnotationInjectionFailurePolicy), policy, fails))
	}
	if !isCanary(set) {
		return errs
	}
	switch name := set.Annotations[shared.AnnotationSidecarSetBase]; name {
	case "":
		errs = append(errs, field.Required(basePath(), "the name of the SidecarSet that this canary stands in for"))
	case set.Name:
		errs = append(errs, field.Invalid(basePath(), name, "must be another SidecarSet"))
	}
	if set.Spec.UpdateStrategy.Type != appsv1beta1.NotUpdateSidecarSetStrategyType {
		errs = append(errs, field.Invalid(field.NewPath("spec", "updateStrategy", "type"), set.Spec.UpdateStrategy.Type,
			"must be NotUpdate for a canary: its pods would otherwise change together with those of its base"))
	}
	return errs
}

func isCanary(set *appsv1beta1.SidecarSet) bool {
	return set.Annotations[shared.AnnotationSidecarSetCanary] == "true"
}

func validateSidecars(spec *appsv1beta1.SidecarSetSpec, path *field.Path) field.ErrorList {
	all := sidecarsOf(spec)
	computed := slices.DeleteFunc(slices.Clone(all), func(c sidecarAt) bool { return c.ResourcesPolicy == nil })
	if len(computed) > maxPolicies {
		return field.ErrorList{field.Forbidden(path.Child("containers"), fmt.Sprintf("at most %d containers may have a resourcesPolicy", maxPolicies))}
	}
	var errs field.ErrorList
	names := map[string]bool{}
	for _, c := range all {
		errs = append(errs, validateSidecar(c.SidecarContainer, c.path)...)
		for _, name := range namesOf(c.SidecarContainer) {
			if names[name] {
				errs = append(errs, field.Duplicate(c.path.Child("name"), name))
			}
			names[name] = true
		}
	}
	for i := range spec.InitContainers {
		c, at := &spec.InitContainers[i], path.Child("initContainers").Index(i)
		if c.ResourcesPolicy != nil && !sidecarspec.IsNative(c) {
			errs = append(errs, field.Forbidden(at.Child("resourcesPolicy"), "is for containers and for init containers with restartPolicy Always"))
		}
		if isHot(c) && !sidecarspec.IsNative(c) {
			errs = append(errs, field.Forbidden(at.Child("upgradeStrategy", "upgradeType"),
				"HotUpgrade is for containers that go on running: of this init container one of the two would never end, and the pod not start"))
		}
		if sidecarspec.IsNative(c) && spec.UpdateStrategy.Type != appsv1beta1.NotUpdateSidecarSetStrategyType {
			errs = append(errs, field.Invalid(path.Child("updateStrategy", "type"), spec.UpdateStrategy.Type,
				fmt.Sprintf("must be NotUpdate: init container %s has restartPolicy Always, and a running pod keeps its init containers", c.Name)))
		}
	}
	return errs
}

// sidecarAt is a sidecar with its place.
type sidecarAt struct {
	*appsv1beta1.SidecarContainer
	path *field.Path
}

// sidecarsOf are all sidecars of a set.
func sidecarsOf(spec *appsv1beta1.SidecarSetSpec) []sidecarAt {
	var all []sidecarAt
	for i := range spec.InitContainers {
		all = append(all, sidecarAt{&spec.InitContainers[i], field.NewPath("spec", "initContainers").Index(i)})
	}
	for i := range spec.Containers {
		all = append(all, sidecarAt{&spec.Containers[i], field.NewPath("spec", "containers").Index(i)})
	}
	return all
}

// namesOf returns the names a sidecar takes in a pod.
func namesOf(c *appsv1beta1.SidecarContainer) []string {
	if isHot(c) {
		return []string{c.Name + "-1", c.Name + "-2"}
	}
	return []string{c.Name}
}

func validateSidecar(c *appsv1beta1.SidecarContainer, path *field.Path) field.ErrorList {
	errs := rules.OneOf(path.Child("podInjectPolicy"), c.PodInjectPolicy, "", appsv1beta1.BeforeAppContainer, appsv1beta1.AfterAppContainer)
	share := []appsv1beta1.ShareVolumePolicyType{"", appsv1beta1.ShareVolumePolicyEnabled, appsv1beta1.ShareVolumePolicyDisabled}
	errs = append(errs, rules.OneOf(path.Child("shareVolumePolicy", "type"), c.ShareVolumePolicy.Type, share...)...)
	if c.ShareVolumeDevicePolicy != nil {
		errs = append(errs, rules.OneOf(path.Child("shareVolumeDevicePolicy", "type"), c.ShareVolumeDevicePolicy.Type, share...)...)
	}
	upgrade := path.Child("upgradeStrategy")
	errs = append(errs, rules.OneOf(upgrade.Child("upgradeType"), c.UpgradeStrategy.UpgradeType, "", appsv1beta1.ColdUpgrade, appsv1beta1.HotUpgrade)...)
	if isHot(c) {
		empty := upgrade.Child("hotUpgradeEmptyImage")
		switch image := c.UpgradeStrategy.HotUpgradeEmptyImage; image {
		case "":
			errs = append(errs, field.Required(empty, "the image of the container that has nothing to do; HotUpgrade requires it"))
		case c.Image:
			errs = append(errs, field.Invalid(empty, image, "must be another image than that of the container"))
		}
		if longest := validation.DNS1123LabelMaxLength - len("-1"); len(c.Name) > longest {
			errs = append(errs, field.TooLong(path.Child("name"), c.Name, longest))
			errs[len(errs)-1].Detail = fmt.Sprintf("may not be more than %d bytes: with HotUpgrade, -1 and -2 are added to it", longest)
		}
	}
	for i := range c.TransferEnv {
		errs = append(errs, validateTransfer(&c.TransferEnv[i], path.Child("transferEnv").Index(i))...)
	}
	if c.ResourcesPolicy != nil {
		errs = append(errs, validateResources(c, path.Child("resourcesPolicy"))...)
	}
	return errs
}

func validateTransfer(t *appsv1beta1.TransferEnvVar, path *field.Path) field.ErrorList {
	if t.SourceContainerNameFrom == nil || t.SourceContainerNameFrom.FieldRef == nil {
		return nil
	}
	ref := t.SourceContainerNameFrom.FieldRef
	path = path.Child("sourceContainerNameFrom", "fieldRef")
	var errs field.ErrorList
	if ref.APIVersion != "" && ref.APIVersion != "v1" {
		errs = append(errs, field.NotSupported(path.Child("apiVersion"), ref.APIVersion, []string{"v1"}))
	}
	path = path.Child("fieldPath")
	if ref.FieldPath == "" {
		return append(errs, field.Required(path, "metadata.labels['<key>'] or metadata.annotations['<key>']"))
	}
	for _, of := range []string{"metadata.labels", "metadata.annotations"} {
		key, found := strings.CutPrefix(ref.FieldPath, of+"['")
		key, closed := strings.CutSuffix(key, "']")
		if !found || !closed {
			continue
		}
		return append(errs, rules.Faults(path, ref.FieldPath, validation.IsQualifiedName(strings.ToLower(key)))...)
	}
	return append(errs, field.Invalid(path, ref.FieldPath, "must be metadata.labels['<key>'] or metadata.annotations['<key>']"))
}

func validateResources(c *appsv1beta1.SidecarContainer, path *field.Path) field.ErrorList {
	policy := c.ResourcesPolicy
	errs := rules.OneOf(path.Child("targetContainersMode"), policy.TargetContainersMode, appsv1beta1.TargetContainersSum, appsv1beta1.TargetContainersMax)
	if len(c.Resources.Limits)+len(c.Resources.Requests) > 0 {
		errs = append(errs, field.Forbidden(path, "replaces resources, so resources must be empty"))
	}
	errs = append(errs, validateRegex(policy.TargetContainersNameRegex, path.Child("targetContainersNameRegex"))...)
	path = path.Child("resourcesExpr")
	if policy.ResourcesExpr.Limits == nil && policy.ResourcesExpr.Requests == nil {
		errs = append(errs, field.Required(path, "limits or requests"))
	}
	for name, e := range map[string]*appsv1beta1.SidecarResourceExpressions{"limits": policy.ResourcesExpr.Limits, "requests": policy.ResourcesExpr.Requests} {
		if e == nil {
			continue
		}
		errs = append(errs, validateExpression(e.CPU, corev1.ResourceCPU, path.Child(name, "cpu"))...)
		errs = append(errs, validateExpression(e.Memory, corev1.ResourceMemory, path.Child(name, "memory"))...)
	}
	return errs
}

// validateRegex limits length and parses, but never compiles: nested repetitions would take megabytes.
func validateRegex(text string, path *field.Path) field.ErrorList {
	if len(text) > maxRegex {
		return field.ErrorList{field.TooLong(path, "", maxRegex)}
	}
	if _, err := syntax.Parse(text, syntax.Perl); err != nil {
		return field.ErrorList{field.Invalid(path, text, err.Error())}
	}
	return nil
}

// validateExpression computes an expression with a quantity, as it will be for a pod.
func validateExpression(text string, of corev1.ResourceName, path *field.Path) field.ErrorList {
	if text == "" {
		return nil
	}
	if err := sidecar.CheckExpression(text, string(of)); err != nil {
		return field.ErrorList{field.Invalid(path, text, err.Error())}
	}
	return nil
}

func validatePatches(patches []appsv1beta1.SidecarSetPatchPodMetadata, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(patches) > maxPatches {
		return append(errs, field.TooMany(path, len(patches), maxPatches))
	}
	annotations := 0
	for i := range patches {
		annotations += len(patches[i].Annotations)
	}
	if annotations > maxPatchedAnnotations {
		return append(errs, field.Forbidden(path, fmt.Sprintf("has %d annotations; at most %d are allowed in all", annotations, maxPatchedAnnotations)))
	}
	known := map[string]bool{}
	for i := range patches {
		patch, at := &patches[i], path.Index(i)
		errs = append(errs, rules.OneOf(at.Child("patchPolicy"), patch.PatchPolicy, "", appsv1beta1.SidecarSetRetainPatchPolicy,
			appsv1beta1.SidecarSetOverwritePatchPolicy, appsv1beta1.SidecarSetMergePatchJSONPatchPolicy)...)
		if len(patch.Annotations) == 0 {
			errs = append(errs, field.Required(at.Child("annotations"), "at least one annotation to write"))
		}
		errs = append(errs, apivalidation.ValidateAnnotations(patch.Annotations, at.Child("annotations"))...)
		for key, value := range patch.Annotations {
			if known[key] {
				errs = append(errs, field.Duplicate(at.Child("annotations").Key(key), key))
			}
			known[key] = true
			if sidecar.OwnAnnotation(key) {
				errs = append(errs, field.Forbidden(at.Child("annotations").Key(key), "is written by the operator: it says what the pod has from SidecarSets"))
			}
			if patch.PatchPolicy == appsv1beta1.SidecarSetMergePatchJSONPatchPolicy && !isObject(value) {
				errs = append(errs, field.Invalid(at.Child("annotations").Key(key), value, "must be a JSON object: patchPolicy is MergePatchJson"))
			}
		}
	}
	return errs
}

func validateInjection(strategy *appsv1beta1.SidecarSetInjectionStrategy, path *field.Path) field.ErrorList {
	revision := strategy.Revision
	if revision == nil {
		return nil
	}
	path = path.Child("revision")
	errs := rules.OneOf(path.Child("policy"), revision.Policy, "", appsv1beta1.AlwaysSidecarSetInjectRevisionPolicy, appsv1beta1.PartialSidecarSetInjectRevisionPolicy)
	if revision.RevisionName == nil && revision.CustomVersion == nil {
		errs = append(errs, field.Required(path, "revisionName or customVersion"))
	}
	return errs
}

func validateUpdateStrategy(spec *appsv1beta1.SidecarSetSpec, path *field.Path) field.ErrorList {
	s := &spec.UpdateStrategy
	errs := rules.OneOf(path.Child("type"), s.Type, "", appsv1beta1.NotUpdateSidecarSetStrategyType, appsv1beta1.RollingUpdateSidecarSetStrategyType)
	errs = append(errs, rules.NonEmptySelector(s.Selector, path.Child("selector"))...)
	errs = append(errs, rules.Count(s.Partition, path.Child("partition"))...)
	errs = append(errs, rules.Count(s.MaxUnavailable, path.Child("maxUnavailable"))...)
	if s.Selector != nil && s.Partition != nil && *s.Partition != intstr.FromInt32(0) && s.Type != appsv1beta1.NotUpdateSidecarSetStrategyType {
		errs = append(errs, field.Forbidden(path.Child("partition"), "cannot be set together with updateStrategy.selector"))
	}
	if s.PriorityStrategy != nil {
		errs = append(errs, rules.Priority(s.PriorityStrategy, path.Child("priorityStrategy"))...)
	}
	return append(errs, rules.Scatter(s.ScatterStrategy, path.Child("scatterStrategy"))...)
}

// ValidateUpdate returns the forbidden changes.
func ValidateUpdate(set, old *appsv1beta1.SidecarSet) field.ErrorList {
	path := field.NewPath("spec", "containers")
	before := map[string]*appsv1beta1.SidecarContainer{}
	for i := range old.Spec.Containers {
		before[old.Spec.Containers[i].Name] = &old.Spec.Containers[i]
	}
	var errs field.ErrorList
	for i := range set.Spec.Containers {
		c := &set.Spec.Containers[i]
		was, known := before[c.Name]
		switch {
		case !known:
			errs = append(errs, field.Invalid(path.Index(i).Child("name"), c.Name,
				"containers cannot be added: pods that have the others could never get it; make another SidecarSet for it"))
		case isHot(c) != isHot(was):
			errs = append(errs, rules.Fixed(path.Index(i).Child("upgradeStrategy", "upgradeType"), string(was.UpgradeStrategy.UpgradeType)))
		}
	}
	if was := old.Annotations[shared.AnnotationSidecarSetBase]; isCanary(old) && set.Annotations[shared.AnnotationSidecarSetBase] != was {
		errs = append(errs, rules.Fixed(basePath(), was))
	}
	return errs
}

func isHot(c *appsv1beta1.SidecarContainer) bool {
	return c.UpgradeStrategy.UpgradeType == appsv1beta1.HotUpgrade
}
