// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package admission is admission for PersistentPodStates of apps.kruise.io.
package admission

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/place"
	"github.com/kruise-operator/kruise-operator/internal/kube/listed"
	"github.com/kruise-operator/kruise-operator/internal/kube/pages"
	"github.com/kruise-operator/kruise-operator/internal/kube/sticky"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
	"github.com/kruise-operator/kruise-operator/internal/webhook/rules"
)

// +kubebuilder:webhook:path=/mutate-apps-kruise-io-v1beta1-persistentpodstate,mutating=true,groups=apps.kruise.io,resources=persistentpodstates,verbs=create;update,versions=v1beta1,name=default.persistentpodstates.apps.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system
// +kubebuilder:webhook:path=/validate-apps-kruise-io-v1beta1-persistentpodstate,mutating=false,groups=apps.kruise.io,resources=persistentpodstates,verbs=create;update,versions=v1beta1,name=validate.persistentpodstates.apps.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system
// +kubebuilder:rbac:groups=apps.kruise.io,resources=persistentpodstates,verbs=get;list

// maxOthers and maxBytes bound one look at other objects.
const (
	maxOthers = 2000
	maxBytes  = 8 << 20
)

// Others are what a PersistentPodState is checked against.
type Others struct {
	// Reader asks the API server, not a cache.
	Reader client.Reader
	// Namespace is the operator's own.
	Namespace string
}

// Kind are the rules for PersistentPodStates.
func Kind(others Others) admit.Kind[appsv1beta1.PersistentPodState, *appsv1beta1.PersistentPodState] {
	return admit.Kind[appsv1beta1.PersistentPodState, *appsv1beta1.PersistentPodState]{
		GroupVersionKind: appsv1beta1.GroupVersion().WithKind("PersistentPodState"),
		Older:            appsv1alpha1.GroupVersion().Version,
		OlderField:       fieldInV1alpha1,
		Default:          func(*appsv1beta1.PersistentPodState) {},
		Validate:         Validate,
		LookUp:           others.check,
	}
}

// fieldInV1alpha1 is v1alpha1's name of a field.
func fieldInV1alpha1(path string) string {
	return strings.Replace(path, ".keys", ".nodeTopologyKeys", 1)
}

// Validate returns the faults that the schema does not see.
func Validate(state *appsv1beta1.PersistentPodState) field.ErrorList {
	spec, path := &state.Spec, field.NewPath("spec")
	var errs field.ErrorList
	if policy, found := state.Annotations[shared.AnnotationInjectionFailurePolicy]; found {
		errs = append(errs, rules.OneOf(field.NewPath("metadata", "annotations").Key(shared.AnnotationInjectionFailurePolicy), policy, "Ignore", "Fail")...)
	}
	if spec.RequiredPersistentTopology != nil {
		errs = append(errs, keys(spec.RequiredPersistentTopology.Keys, path.Child("requiredPersistentTopology", "keys"))...)
	}
	for i := range spec.PreferredPersistentTopology {
		at := path.Child("preferredPersistentTopology").Index(i).Child("preference", "keys")
		errs = append(errs, keys(spec.PreferredPersistentTopology[i].Preference.Keys, at)...)
	}
	var annotations []string
	for _, annotation := range spec.PersistentPodAnnotations {
		annotations = append(annotations, annotation.Key)
	}
	if len(annotations) > 0 {
		errs = append(errs, keys(annotations, path.Child("persistentPodAnnotations"))...)
	}
	return errs
}

// keys checks a list of label or annotation keys.
func keys(all []string, path *field.Path) field.ErrorList {
	if len(all) == 0 {
		return field.ErrorList{field.Required(path, "must have at least one key")}
	}
	var errs field.ErrorList
	for i, key := range all {
		errs = append(errs, metav1validation.ValidateLabelName(key, path.Index(i))...)
		if slices.Contains(all[:i], key) {
			errs = append(errs, field.Duplicate(path.Index(i), key))
		}
	}
	return errs
}

// check returns faults only the cluster can show: an unsupported kind, and another object for the same workload.
func (o Others) check(ctx context.Context, state, old *appsv1beta1.PersistentPodState) (field.ErrorList, []string) {
	if old != nil {
		return nil, nil // The target cannot change.
	}
	ctx, cancel := context.WithTimeout(ctx, admit.LookupTimeout)
	defer cancel()
	path, ref := field.NewPath("spec", "targetRef"), state.Spec.TargetRef
	kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()
	supported, err := sticky.Supports(ctx, o.Reader, o.Namespace, kind)
	if err != nil {
		return field.ErrorList{field.InternalError(path, err)}, nil
	}
	if !supported {
		return field.ErrorList{field.Invalid(path, ref, "must be a StatefulSet of apps or apps.kruise.io, or of a kind that the ConfigMap "+listed.ConfigMap+" lists under "+sticky.Key)}, nil
	}
	var errs field.ErrorList
	_, err = pages.Read(ctx, o.Reader, &appsv1beta1.PersistentPodStateList{}, pages.Limits{Objects: maxOthers, Bytes: maxBytes}, func(page *appsv1beta1.PersistentPodStateList) bool {
		for i := range page.Items {
			other := &page.Items[i]
			if other.Name != state.Name && other.DeletionTimestamp == nil && place.Targets(other, kind, ref.Name) {
				errs = append(errs, field.Invalid(path, ref, fmt.Sprintf("is the target of PersistentPodState %s already", other.Name)))
				return false
			}
		}
		return true
	}, client.InNamespace(state.Namespace))
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Letting a PersistentPodState in without a look at the others", "name", state.Name)
	}
	return errs, nil
}
