// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
)

// Steps of the generator.
const (
	stepGenerate planning.Step = "generate"
	stepChange   planning.Step = "change"
	stepRemove   planning.Step = "remove"
)

// Asks is true if a workload has the annotation, whatever its value.
func Asks(workload metav1.Object) bool {
	_, asks := workload.GetAnnotations()[shared.AnnotationAutoGeneratePersistentPodState]
	return asks
}

// Generate compares the annotations of a workload with the object of its name; nil: there is none. taken: an object of the name exists that no workload
// has generated. It stays as it is.
func Generate(kind schema.GroupVersionKind, workload metav1.Object, existing *appsv1beta1.PersistentPodState) (todo []planning.Action, taken bool) {
	ours := existing != nil && metav1.IsControlledBy(existing, workload)
	wanted, some := wantedBy(kind, workload)
	switch {
	case workload.GetDeletionTimestamp() != nil, ours && existing.DeletionTimestamp != nil:
		return nil, false
	case workload.GetAnnotations()[shared.AnnotationAutoGeneratePersistentPodState] != "true":
		if ours {
			todo = generated(planning.VerbDelete, stepRemove, existing, nil)
		}
		return todo, false
	case !some:
		return nil, false
	case existing == nil:
		return generated(planning.VerbCreate, stepGenerate, wanted, nil), false
	case !ours:
		return nil, true
	}
	wanted.Spec.PersistentPodStateRetentionPolicy = existing.Spec.PersistentPodStateRetentionPolicy
	wanted.Spec.TargetRef.APIVersion = existing.Spec.TargetRef.APIVersion // it cannot be changed
	if equality.Semantic.DeepEqual(wanted.Spec, existing.Spec) {
		return nil, false
	}
	return generated(planning.VerbPatch, stepChange, existing, planning.MergePatch(existing, map[string]any{"spec": specPatch(&wanted.Spec)})), false
}

// generated is one action on an object.
func generated(verb planning.Verb, step planning.Step, state *appsv1beta1.PersistentPodState, change planning.Change) []planning.Action {
	message := fmt.Sprintf("%s PersistentPodState %s", verb, state.Name)
	return []planning.Action{{
		Kind: Kind(), Verb: verb, Step: step, Object: state, Change: change, Reason: "Annotations",
		Success: planning.Event{Reason: "Generated", Message: message}, Failure: planning.Event{Warning: true, Reason: "FailedGenerate", Message: message},
	}}
}

// specPatch names all generated fields: a missing one removes.
func specPatch(spec *appsv1beta1.PersistentPodStateSpec) map[string]any {
	return map[string]any{
		"requiredPersistentTopology": spec.RequiredPersistentTopology, "preferredPersistentTopology": spec.PreferredPersistentTopology,
		"persistentPodAnnotations": spec.PersistentPodAnnotations,
	}
}

func wantedBy(kind schema.GroupVersionKind, workload metav1.Object) (*appsv1beta1.PersistentPodState, bool) {
	annotations := workload.GetAnnotations()
	spec := appsv1beta1.PersistentPodStateSpec{
		TargetRef: appsv1beta1.PersistentPodStateTargetRef{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: workload.GetName()},
	}
	if keys := listed(annotations[shared.AnnotationRequiredPersistentTopology]); len(keys) > 0 {
		spec.RequiredPersistentTopology = &appsv1beta1.NodeTopologyTerm{Keys: keys}
	}
	if keys := listed(annotations[shared.AnnotationPreferredPersistentTopology]); len(keys) > 0 {
		spec.PreferredPersistentTopology = []appsv1beta1.PreferredTopologyTerm{{Weight: 100, Preference: appsv1beta1.NodeTopologyTerm{Keys: keys}}}
	}
	for _, key := range listed(annotations[shared.AnnotationPersistentPodAnnotations]) {
		spec.PersistentPodAnnotations = append(spec.PersistentPodAnnotations, appsv1beta1.PersistentPodAnnotation{Key: key})
	}
	some := spec.RequiredPersistentTopology != nil || len(spec.PreferredPersistentTopology) > 0
	owner := *metav1.NewControllerRef(workload, kind)
	owner.BlockOwnerDeletion = nil
	return &appsv1beta1.PersistentPodState{
		ObjectMeta: metav1.ObjectMeta{Namespace: workload.GetNamespace(), Name: workload.GetName(), OwnerReferences: []metav1.OwnerReference{owner}},
		Spec:       spec,
	}, some
}

// listed splits a list at its commas. OpenKruise keeps blanks; with them no key matches.
func listed(text string) []string {
	var keys []string
	for key := range strings.SplitSeq(text, ",") {
		if key = strings.TrimSpace(key); key != "" && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}
