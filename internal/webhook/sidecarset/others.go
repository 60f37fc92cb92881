// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarset

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/conversion/wire"
	"github.com/kruise-operator/kruise-operator/internal/engine/podtemplate"
	"github.com/kruise-operator/kruise-operator/internal/engine/sidecarspec"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admission"
)

// +kubebuilder:rbac:groups=apps.kruise.io,resources=sidecarsets,verbs=get;list
// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list
// +kubebuilder:rbac:groups="",namespace=kruise-system,resources=configmaps,resourceNames=kruise-configuration,verbs=get

const (
	// configuration is the ConfigMap in the operator's namespace that says which annotations sets may write, under the key whitelist.
	configuration = "kruise-configuration"
	whitelist     = "SidecarSet_PatchPodMetadata_WhiteList"
)

// Others looks up what a SidecarSet has to agree with.
type Others struct {
	// Reader asks the API server. It should not be cached: it is asked rarely, and about what has just been written.
	Reader client.Reader
	// Namespace is the operator's own.
	Namespace string
}

// checkWith returns what is wrong as far as only the cluster knows, and the warnings. What cannot be found out is let in: the controller
// reports what then becomes of the set.
func (o Others) checkWith(options Options) func(context.Context, *appsv1beta1.SidecarSet, *appsv1beta1.SidecarSet) (field.ErrorList, []string) {
	return func(ctx context.Context, set, old *appsv1beta1.SidecarSet) (field.ErrorList, []string) {
		ctx, cancel := context.WithTimeout(ctx, admission.LookupTimeout)
		defer cancel()
		if set.DeletionTimestamp != nil {
			return nil, nil
		}
		var errs field.ErrorList
		var warned []string
		var others appsv1beta1.SidecarSetList
		if err := o.Reader.List(ctx, &others); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Letting a SidecarSet in without a look at the others", "name", set.Name)
		} else {
			errs, warned = newConflicts(set, old, others.Items), warnings(set, old, others.Items)
		}
		if ctx.Err() == nil {
			errs = append(errs, o.revision(ctx, set, old)...)
		}
		if ctx.Err() == nil {
			errs = append(errs, o.metadata(ctx, set, old, options)...)
		}
		return errs, warned
	}
}

// newConflicts are the conflicts with other sets. Those that the stored set has already are not held against an update.
func newConflicts(set, old *appsv1beta1.SidecarSet, others []appsv1beta1.SidecarSet) field.ErrorList {
	errs := conflicts(set, others)
	if old == nil || len(errs) == 0 {
		return errs
	}
	known := map[string]bool{}
	for _, err := range conflicts(old, others) {
		known[err.Error()] = true
	}
	return slices.DeleteFunc(errs, func(e *field.Error) bool { return known[e.Error()] })
}

// manyAlike is how many other sets that can select the same pods are worth a warning: each that does is one more step of their creation.
const manyAlike = 10

// warnings say that very many sets can select the same pods.
func warnings(set, old *appsv1beta1.SidecarSet, others []appsv1beta1.SidecarSet) []string {
	sameSelectors := old != nil && equality.Semantic.DeepEqual(set.Spec.Selector, old.Spec.Selector) &&
		equality.Semantic.DeepEqual(set.Spec.NamespaceSelector, old.Spec.NamespaceSelector)
	if sameSelectors {
		return nil
	}
	alike := 0
	for i := range others {
		if other := &others[i]; other.Name != set.Name && overlap(&set.Spec, &other.Spec) {
			alike++
		}
	}
	if alike < manyAlike {
		return nil
	}
	return []string{fmt.Sprintf("spec.selector: %d other SidecarSets can select the same pods; each set that selects a pod makes its creation some milliseconds slower", alike)}
}

// conflicts are the conflicts of a set with others. A canary and its base never meet on a pod.
func conflicts(set *appsv1beta1.SidecarSet, others []appsv1beta1.SidecarSet) field.ErrorList {
	var errs field.ErrorList
	base := set.Annotations[shared.AnnotationSidecarSetBase]
	found := false
	ours := patchesOf(set)
	for i := range others {
		other := &others[i]
		if other.Name == set.Name {
			continue
		}
		if isCanary(set) && other.Name == base {
			found = true
			if isCanary(other) {
				errs = append(errs, field.Invalid(basePath(), base, "is a canary itself"))
			}
			continue
		}
		if isCanary(other) && other.Annotations[shared.AnnotationSidecarSetBase] == set.Name || !overlap(&set.Spec, &other.Spec) {
			continue
		}
		if errs = append(errs, conflict(set, ours, other)...); len(errs) > wire.MaxErrors {
			break // More are not told.
		}
	}
	if isCanary(set) && !found {
		errs = append(errs, field.NotFound(basePath(), base))
	}
	return errs
}

func basePath() *field.Path {
	return field.NewPath("metadata", "annotations").Key(shared.AnnotationSidecarSetBase)
}

// patchesOf are the patches of a set, with defaults.
func patchesOf(set *appsv1beta1.SidecarSet) []appsv1beta1.SidecarSetPatchPodMetadata {
	return sidecarspec.PayloadOf(&appsv1beta1.SidecarSetSpec{PatchPodMetadata: set.Spec.PatchPodMetadata}, nil).PatchPodMetadata
}

// sameVolume says whether two volumes are equal, defaults aside. These are filled in only where it matters: sets may have thousands of volumes.
func sameVolume(a, b *corev1.Volume) bool {
	if equality.Semantic.DeepEqual(a, b) {
		return true
	}
	a, b = a.DeepCopy(), b.DeepCopy()
	podtemplate.DefaultVolume(a)
	podtemplate.DefaultVolume(b)
	return equality.Semantic.DeepEqual(a, b)
}

// conflict are the names that two sets would give a pod twice. ours are the patches of set, with defaults.
func conflict(set *appsv1beta1.SidecarSet, ours []appsv1beta1.SidecarSetPatchPodMetadata, other *appsv1beta1.SidecarSet) field.ErrorList {
	path := field.NewPath("spec")
	same := func(what string) string {
		return fmt.Sprintf("SidecarSet %s, which can select the same pods, has %s", other.Name, what)
	}
	taken := map[string]bool{}
	for _, sidecars := range [][]appsv1beta1.SidecarContainer{other.Spec.Containers, other.Spec.InitContainers} {
		for i := range sidecars {
			for _, name := range namesOf(&sidecars[i]) {
				taken[name] = true
			}
		}
	}
	var errs field.ErrorList
	for list, sidecars := range map[string][]appsv1beta1.SidecarContainer{"containers": set.Spec.Containers, "initContainers": set.Spec.InitContainers} {
		for i := range sidecars {
			if slices.ContainsFunc(namesOf(&sidecars[i]), func(name string) bool { return taken[name] }) {
				errs = append(errs, field.Invalid(path.Child(list).Index(i).Child("name"), sidecars[i].Name, same("a container of this name")))
			}
		}
	}
	volumes := map[string]*corev1.Volume{}
	for i := range other.Spec.Volumes {
		volumes[other.Spec.Volumes[i].Name] = &other.Spec.Volumes[i]
	}
	for i := range set.Spec.Volumes {
		volume := &set.Spec.Volumes[i]
		if theirs := volumes[volume.Name]; theirs != nil && !sameVolume(volume, theirs) {
			errs = append(errs, field.Invalid(path.Child("volumes").Index(i), volume.Name, same("another volume of this name")))
		}
	}
	written := map[string]appsv1beta1.SidecarSetPatchPolicy{}
	for _, patch := range patchesOf(other) {
		for key := range patch.Annotations {
			written[key] = patch.PatchPolicy
		}
	}
	for i, patch := range ours {
		for _, key := range slices.Sorted(maps.Keys(patch.Annotations)) {
			if policy, ok := written[key]; ok && fight(patch.PatchPolicy, policy) {
				errs = append(errs, field.Invalid(path.Child("patchPodMetadata").Index(i).Child("annotations").Key(key), key, same("the same annotation with patchPolicy "+string(policy))))
			}
		}
	}
	slices.SortStableFunc(errs, func(a, b *field.Error) int { return cmp.Compare(a.Field, b.Field) })
	return errs
}

// fight says that two policies for one annotation depend on which comes last.
func fight(a, b appsv1beta1.SidecarSetPatchPolicy) bool {
	const retain, overwrite = appsv1beta1.SidecarSetRetainPatchPolicy, appsv1beta1.SidecarSetOverwritePatchPolicy
	return a != retain && b != retain && (a == overwrite || b == overwrite)
}

// revision requires that the revision which new pods shall get exists.
func (o Others) revision(ctx context.Context, set, old *appsv1beta1.SidecarSet) field.ErrorList {
	wanted := set.Spec.InjectionStrategy.Revision
	if wanted == nil || old != nil && equality.Semantic.DeepEqual(wanted, old.Spec.InjectionStrategy.Revision) {
		return nil
	}
	path := field.NewPath("spec", "injectionStrategy", "revision")
	var found appsv1.ControllerRevisionList
	if err := o.Reader.List(ctx, &found, client.MatchingLabels{shared.LabelSidecarSetName: set.Name}); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Letting a SidecarSet in without a look at its revisions", "name", set.Name)
		return nil
	}
	found.Items = slices.DeleteFunc(found.Items, func(r appsv1.ControllerRevision) bool { return !sidecarspec.HasRevisions(r.Namespace, o.Namespace) })
	if name := ptr.Deref(wanted.RevisionName, ""); wanted.RevisionName != nil {
		if slices.ContainsFunc(found.Items, func(r appsv1.ControllerRevision) bool { return r.Name == name }) {
			return nil
		}
		return field.ErrorList{field.NotFound(path.Child("revisionName"), name)}
	}
	version := ptr.Deref(wanted.CustomVersion, "")
	if slices.ContainsFunc(found.Items, func(r appsv1.ControllerRevision) bool {
		return r.Labels[shared.LabelSidecarSetCustomVersion] == version
	}) {
		return nil
	}
	return field.ErrorList{field.NotFound(path.Child("customVersion"), version)}
}

// allowance is what the ConfigMap says.
type allowance struct {
	Rules []struct {
		Selector                  *metav1.LabelSelector `json:"selector"`
		AllowedAnnotationKeyExprs []string              `json:"allowedAnnotationKeyExprs"`
	} `json:"rules"`
}

// metadata requires that the annotations which the set writes are allowed.
func (o Others) metadata(ctx context.Context, set, old *appsv1beta1.SidecarSet, options Options) field.ErrorList {
	patches := set.Spec.PatchPodMetadata
	if len(patches) == 0 || old != nil && equality.Semantic.DeepEqual(patches, old.Spec.PatchPodMetadata) {
		return nil
	}
	path := field.NewPath("spec", "patchPodMetadata")
	config := &corev1.ConfigMap{}
	err := o.Reader.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: configuration}, config)
	if client.IgnoreNotFound(err) != nil && !apierrors.IsForbidden(err) {
		ctrl.LoggerFrom(ctx).Error(err, "Letting a SidecarSet in without a look at the ConfigMap", "name", set.Name)
		return nil
	}
	where := fmt.Sprintf("key %s of ConfigMap %s/%s", whitelist, o.Namespace, configuration)
	var allowed allowance
	if text := config.Data[whitelist]; text != "" {
		if err := json.Unmarshal([]byte(text), &allowed); err != nil {
			return field.ErrorList{field.Forbidden(path, where+" cannot be decoded: "+err.Error())}
		}
	}
	exprs, applies := allowed.of(set)
	if !applies {
		if options.AnyMetadata {
			return nil
		}
		return field.ErrorList{field.Forbidden(path, "no rule under "+where+" applies to this set, so it may write no annotations")}
	}
	var errs field.ErrorList
	for i := range patches {
		for _, key := range slices.Sorted(maps.Keys(patches[i].Annotations)) {
			if !slices.ContainsFunc(exprs, func(e *regexp.Regexp) bool { return e.MatchString(key) }) {
				errs = append(errs, field.Forbidden(path.Index(i).Child("annotations").Key(key), "no rule under "+where+" allows it"))
			}
		}
	}
	return errs
}

// of are the expressions of the rules that apply to a set. Expressions and selectors that cannot be parsed allow nothing.
func (a allowance) of(set *appsv1beta1.SidecarSet) (exprs []*regexp.Regexp, applies bool) {
	for _, rule := range a.Rules {
		if rule.Selector != nil {
			selector, err := metav1.LabelSelectorAsSelector(rule.Selector)
			if err != nil || !selector.Matches(labels.Set(set.Labels)) {
				continue
			}
		}
		applies = true
		for _, text := range rule.AllowedAnnotationKeyExprs {
			if expr, err := regexp.Compile(text); err == nil {
				exprs = append(exprs, expr)
			}
		}
	}
	return exprs, applies
}
