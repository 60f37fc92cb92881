// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecarspec"
	"github.com/kruise-operator/kruise-operator/internal/conversion/wire"
	"github.com/kruise-operator/kruise-operator/internal/engine/podtemplate"
	"github.com/kruise-operator/kruise-operator/internal/kube/pages"
	"github.com/kruise-operator/kruise-operator/internal/quantity"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// +kubebuilder:rbac:groups=apps.kruise.io,resources=sidecarsets,verbs=get;list
// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list
// +kubebuilder:rbac:groups="",namespace=kruise-system,resources=configmaps,resourceNames=kruise-configuration,verbs=get

const (
	// configuration, under the key whitelist, lists the annotations sets may write.
	configuration = "kruise-configuration"
	whitelist     = "SidecarSet_PatchPodMetadata_WhiteList"
	// maxObjects and maxBytes bound one look at other sets, or at a set's revisions.
	maxObjects = 2000
	maxBytes   = 4 << 20
)

func limits() pages.Limits { return pages.Limits{Objects: maxObjects, Bytes: maxBytes} }

// Others checks a SidecarSet against other objects of the cluster.
type Others struct {
	// Reader asks the API server, not a cache: rarely, and about recent writes.
	Reader client.Reader
	// Namespace is the operator's own.
	Namespace string
	// AnyMetadata is the gate SidecarSetPatchPodMetadataDefaultsAllowed: without a rule, a set may write any annotation.
	AnyMetadata bool
	// Named lets answers name other sets. Set it for API servers only.
	Named bool
}

// check returns faults and warnings only the cluster can show. On a
// failed read it admits the set: the controller reports the consequence.
func (o Others) check(ctx context.Context, set, old *appsv1beta1.SidecarSet) (field.ErrorList, []string) {
	ctx, cancel := context.WithTimeout(ctx, admit.LookupTimeout)
	defer cancel()
	if set.DeletionTimestamp != nil {
		return nil, nil
	}
	errs, warnings := o.others(ctx, set, old)
	if ctx.Err() == nil {
		errs = append(errs, o.revision(ctx, set, old)...)
	}
	if ctx.Err() == nil {
		errs = append(errs, o.metadata(ctx, set, old)...)
	}
	if match, err := sidecar.MatchOf(set.Spec.Selector, set.Spec.NamespaceSelector); err == nil {
		if exempt, _ := match.Exempt(o.Namespace); exempt != "" {
			warnings = append(warnings, "spec.namespaceSelector: "+exempt)
		}
	}
	return errs, warnings
}

// others returns new conflicts with other sets, and warns when very many select the same pods.
func (o Others) others(ctx context.Context, set, old *appsv1beta1.SidecarSet) (field.ErrorList, []string) {
	all, more, err := o.stored(ctx, set.Name)
	if err != nil || more {
		ctrl.LoggerFrom(ctx).Info("Letting a SidecarSet in without a look at all others", "name", set.Name, "reason", err)
	}
	if err != nil {
		return nil, nil
	}
	met := meeting(set, all)
	errs := o.conflicts(set, all, met, more)
	if old != nil && len(errs) > 0 {
		errs = admit.Introduced(errs, o.conflicts(old, all, meeting(old, all), more))
	}
	if len(met) < manyAlike || old != nil && sameSelectors(set, old) {
		return errs, nil
	}
	return errs, []string{fmt.Sprintf("spec.selector: %d or more other SidecarSets can select the same pods; each set that selects a pod makes its creation some milliseconds slower", manyAlike)}
}

// manyAlike sets on the same pods earn a warning: each adds a step to their creation.
const manyAlike = 10

// sameSelectors compares selectors as written.
func sameSelectors(a, b *appsv1beta1.SidecarSet) bool {
	return equality.Semantic.DeepEqual(a.Spec.Selector, b.Spec.Selector) && equality.Semantic.DeepEqual(a.Spec.NamespaceSelector, b.Spec.NamespaceSelector)
}

// stored are the other SidecarSets, up to the limits; more: there are more. It avoids
// typed decoding: a stored set may never have met the webhook, and a short quantity can
// take minutes to parse. An undecodable set has no spec: it is never injected.
func (o Others) stored(ctx context.Context, set string) (all []*appsv1beta1.SidecarSet, more bool, err error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(appsv1beta1.GroupVersion().WithKind("SidecarSetList"))
	more, err = pages.Read(ctx, o.Reader, list, limits(), func(page *unstructured.UnstructuredList) bool {
		for i := range page.Items {
			if page.Items[i].GetName() != set {
				all = append(all, comparedPart(ctx, &page.Items[i]))
			}
		}
		return true
	})
	return all, more, err
}

func comparedPart(ctx context.Context, stored *unstructured.Unstructured) *appsv1beta1.SidecarSet {
	set := &appsv1beta1.SidecarSet{ObjectMeta: metav1.ObjectMeta{Name: stored.GetName(), Annotations: stored.GetAnnotations()}}
	spec, _ := stored.Object["spec"].(map[string]any)
	if err := quantity.FromUnstructured(spec, &set.Spec); err != nil {
		ctrl.LoggerFrom(ctx).Info("A stored SidecarSet cannot be decoded", "name", set.Name, "reason", err.Error())
		set.Spec = appsv1beta1.SidecarSetSpec{}
	}
	return set
}

// meeting are the others that may select a pod that the set selects. A set without a selector selects none.
func meeting(set *appsv1beta1.SidecarSet, all []*appsv1beta1.SidecarSet) []*appsv1beta1.SidecarSet {
	match, err := sidecar.MatchOf(set.Spec.Selector, set.Spec.NamespaceSelector)
	if err != nil {
		return nil
	}
	var met []*appsv1beta1.SidecarSet
	for _, other := range all {
		if theirs, err := sidecar.MatchOf(other.Spec.Selector, other.Spec.NamespaceSelector); err == nil && match.Meets(theirs) {
			met = append(met, other)
		}
	}
	return met
}

// conflicts are those of a set with the sets that it meets, and with its base. It stops
// listing after many. more: there are more sets, so that a base may be among them.
func (o Others) conflicts(set *appsv1beta1.SidecarSet, all, met []*appsv1beta1.SidecarSet, more bool) field.ErrorList {
	var errs field.ErrorList
	for _, other := range met {
		// A canary and its base never meet on a pod.
		if !isCanaryOf(set, other) && !isCanaryOf(other, set) && len(errs) <= wire.MaxErrors {
			errs = append(errs, o.conflict(set, other)...)
		}
	}
	if !isCanary(set) {
		return errs
	}
	base := set.Annotations[shared.AnnotationSidecarSetBase]
	switch at := slices.IndexFunc(all, func(other *appsv1beta1.SidecarSet) bool { return isCanaryOf(set, other) }); {
	case at >= 0 && isCanary(all[at]):
		errs = append(errs, field.Invalid(basePath(), base, "is a canary itself"))
	case at < 0 && !more:
		errs = append(errs, field.NotFound(basePath(), base))
	}
	return errs
}

func isCanaryOf(set, base *appsv1beta1.SidecarSet) bool {
	return isCanary(set) && set.Annotations[shared.AnnotationSidecarSetBase] == base.Name
}

func basePath() *field.Path {
	return field.NewPath("metadata", "annotations").Key(shared.AnnotationSidecarSetBase)
}

// patchesOf are the patches of a set, with defaults.
func patchesOf(set *appsv1beta1.SidecarSet) []appsv1beta1.SidecarSetPatchPodMetadata {
	return sidecarspec.PayloadOf(&appsv1beta1.SidecarSetSpec{PatchPodMetadata: set.Spec.PatchPodMetadata}, nil).PatchPodMetadata
}

// sameVolume compares volumes by their defaults. It defaults late: sets may have thousands of volumes.
func sameVolume(a, b *corev1.Volume) bool {
	if equality.Semantic.DeepEqual(a, b) {
		return true
	}
	a, b = a.DeepCopy(), b.DeepCopy()
	podtemplate.DefaultVolume(a)
	podtemplate.DefaultVolume(b)
	return equality.Semantic.DeepEqual(a, b)
}

// conflict returns the names both sets would give a pod.
func (o Others) conflict(set, other *appsv1beta1.SidecarSet) field.ErrorList {
	path, who := field.NewPath("spec"), "another SidecarSet"
	if o.Named {
		who = "SidecarSet " + other.Name
	}
	same := func(what string) string { return who + ", which can select the same pods, has " + what }
	taken := map[string]bool{}
	for _, c := range sidecarsOf(&other.Spec) {
		for _, name := range namesOf(c.SidecarContainer) {
			taken[name] = true
		}
	}
	var errs field.ErrorList
	for _, c := range sidecarsOf(&set.Spec) {
		if slices.ContainsFunc(namesOf(c.SidecarContainer), func(name string) bool { return taken[name] }) {
			errs = append(errs, field.Invalid(c.path.Child("name"), c.Name, same("a container of this name")))
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
	for i, patch := range patchesOf(set) {
		for _, key := range slices.Sorted(maps.Keys(patch.Annotations)) {
			if policy, ok := written[key]; ok && orderMatters(patch.PatchPolicy, policy) {
				errs = append(errs, field.Invalid(path.Child("patchPodMetadata").Index(i).Child("annotations").Key(key), key, same("the same annotation with patchPolicy "+string(policy))))
			}
		}
	}
	slices.SortStableFunc(errs, func(a, b *field.Error) int { return cmp.Compare(a.Field, b.Field) })
	return errs
}

// orderMatters reports whether the result of two policies for one annotation depends on their order.
func orderMatters(a, b appsv1beta1.SidecarSetPatchPolicy) bool {
	const retain, overwrite = appsv1beta1.SidecarSetRetainPatchPolicy, appsv1beta1.SidecarSetOverwritePatchPolicy
	return a != retain && b != retain && (a == overwrite || b == overwrite)
}

// revision requires the pinned revision to exist.
func (o Others) revision(ctx context.Context, set, old *appsv1beta1.SidecarSet) field.ErrorList {
	wanted := set.Spec.InjectionStrategy.Revision
	if wanted == nil || old != nil && equality.Semantic.DeepEqual(wanted, old.Spec.InjectionStrategy.Revision) {
		return nil
	}
	path := field.NewPath("spec", "injectionStrategy", "revision")
	version := ptr.Deref(wanted.CustomVersion, "")
	is := func(r *metav1.PartialObjectMetadata) bool {
		return r.Labels[shared.LabelSidecarSetCustomVersion] == version
	}
	missing := field.NotFound(path.Child("customVersion"), version)
	if name := ptr.Deref(wanted.RevisionName, ""); wanted.RevisionName != nil {
		is = func(r *metav1.PartialObjectMetadata) bool { return r.Name == name }
		missing = field.NotFound(path.Child("revisionName"), name)
	}
	for _, namespace := range sidecarspec.RevisionNamespaces(o.Namespace) {
		revisions := &metav1.PartialObjectMetadataList{}
		revisions.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("ControllerRevisionList"))
		found := false
		more, err := pages.Read(ctx, o.Reader, revisions, limits(), func(list *metav1.PartialObjectMetadataList) bool {
			for i := range list.Items {
				found = found || is(&list.Items[i])
			}
			return !found
		}, client.InNamespace(namespace), client.MatchingLabels{shared.LabelSidecarSetName: set.Name})
		switch {
		case found:
			return nil
		case err != nil || more:
			ctrl.LoggerFrom(ctx).Info("Letting a SidecarSet in without a look at all its revisions", "name", set.Name, "reason", err)
			return nil
		}
	}
	return field.ErrorList{missing}
}

// allowance is the ConfigMap, parsed.
type allowance struct {
	Rules []struct {
		Selector                  *metav1.LabelSelector `json:"selector"`
		AllowedAnnotationKeyExprs []string              `json:"allowedAnnotationKeyExprs"`
	} `json:"rules"`
}

// addition is an annotation new or changed against the stored set.
type addition struct {
	key string
	at  *field.Path
}

// added returns a set's new or changed annotations.
func added(set, old *appsv1beta1.SidecarSet, path *field.Path) []addition {
	type written struct {
		key, value string
		policy     appsv1beta1.SidecarSetPatchPolicy
	}
	stored := map[written]bool{}
	if old != nil {
		for _, patch := range patchesOf(old) {
			for key, value := range patch.Annotations {
				stored[written{key, value, patch.PatchPolicy}] = true
			}
		}
	}
	var all []addition
	for i, patch := range patchesOf(set) {
		for _, key := range slices.Sorted(maps.Keys(patch.Annotations)) {
			if !stored[written{key, patch.Annotations[key], patch.PatchPolicy}] {
				all = append(all, addition{key, path.Index(i).Child("annotations").Key(key)})
			}
		}
	}
	return all
}

// metadata allows new annotations by the rules. Those of the stored set pass: it may have got them under older rules.
func (o Others) metadata(ctx context.Context, set, old *appsv1beta1.SidecarSet) field.ErrorList {
	path := field.NewPath("spec", "patchPodMetadata")
	additions := added(set, old, path)
	if len(additions) == 0 {
		return nil
	}
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
		if o.AnyMetadata {
			return nil
		}
		return field.ErrorList{field.Forbidden(path, "no rule under "+where+" applies to this set, so it may write no annotations")}
	}
	var errs field.ErrorList
	for _, one := range additions {
		if !slices.ContainsFunc(exprs, func(e *regexp.Regexp) bool { return e.MatchString(one.key) }) {
			errs = append(errs, field.Forbidden(one.at, "no rule under "+where+" allows it"))
		}
	}
	return errs
}

// of returns the expressions of the rules for a set. An empty rule counts as none; an unparsable one allows nothing.
func (a allowance) of(set *appsv1beta1.SidecarSet) (exprs []*regexp.Regexp, applies bool) {
	for _, rule := range a.Rules {
		if rule.Selector != nil {
			selector, err := metav1.LabelSelectorAsSelector(rule.Selector)
			if err != nil || !selector.Matches(labels.Set(set.Labels)) {
				continue
			}
		}
		applies = applies || len(rule.AllowedAnnotationKeyExprs) > 0
		for _, text := range rule.AllowedAnnotationKeyExprs {
			if expr, err := regexp.Compile(text); err == nil {
				exprs = append(exprs, expr)
			}
		}
	}
	return exprs, applies
}
