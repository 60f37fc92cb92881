// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/lazy"
	"github.com/kruise-operator/kruise-operator/internal/engine/subset"
)

// Kind is UnitedDeployment, in the stored version.
func Kind() schema.GroupVersionKind { return appsv1beta1.GroupVersion().WithKind("UnitedDeployment") }

// Target is the wanted state of a workload.
type Target struct {
	// Name is the workload's, Revision the template's.
	Name, Revision string
	// Size is how many pods it has, Partition how many of them stay at the revision before.
	Size, Partition int
	// Unable is how many pods cannot be available. They do not use up the limit of updates.
	Unable int
	// Live is the workload as it is; nil for a new one.
	Live *unstructured.Unstructured
}

// Manifest is the workload of a subset for an apply: only the UnitedDeployment's own fields.
func (s *Spec) Manifest(sub *Subset, t Target) (*unstructured.Unstructured, error) {
	spec := runtime.DeepCopyJSON(s.Template)
	delete(spec, "replicas")
	spec["selector"] = s.selectorOf(sub)
	original, _ := spec["template"].(map[string]any)
	template, err := s.podTemplate(original, sub, RevisionLabel(t.Revision))
	if err != nil {
		return nil, err
	}
	spec["template"] = template
	adopted := adoptedAs(t.Live, spec)
	if adopted != "" {
		have, _, _ := unstructured.NestedMap(t.Live.Object, "spec")
		spec, _ = withListsOf(have, spec).(map[string]any)
	}
	if err := s.setNumbers(spec, t); err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetGroupVersionKind(s.Adapter.Kind)
	object.SetNamespace(s.Set.Namespace)
	object.SetName(t.Name)
	object.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(s.Set, Kind())})
	own := maps.Clone(s.Metadata.Labels)
	lazy.Put(&own, shared.LabelSubsetName, sub.Name)
	lazy.Put(&own, shared.LabelUnitedDeploymentRevision, RevisionLabel(t.Revision))
	object.SetLabels(own)
	annotations := maps.Clone(s.Metadata.Annotations)
	lazy.Put(&annotations, shared.AnnotationSubsetPatch, sub.PatchText)
	if adopted != "" {
		annotations[shared.AnnotationAdopted] = adopted
	}
	object.SetAnnotations(annotations)

	annotations[shared.AnnotationAppliedHash] = hashOf(object.Object)
	if t.Live != nil && t.Live.GetAnnotations()[shared.AnnotationAppliedHash] == "" {
		annotations[shared.AnnotationAppliedHash] = shared.Adopting
	}
	object.SetAnnotations(annotations)
	return object, nil
}

// setNumbers writes the UnitedDeployment's numbers into the spec of a workload.
func (s *Spec) setNumbers(spec map[string]any, t Target) error {
	spec["replicas"] = int64(t.Size)
	if s.Adapter.Partitioned(spec) {
		if err := unstructured.SetNestedField(spec, int64(t.Partition), s.Adapter.partition...); err != nil {
			return fmt.Errorf("setting the partition: %w", err)
		}
	}
	if t.Unable > 0 && s.Adapter.mayRoll(spec) {
		limit, err := s.Adapter.limitOf(spec, t.Size-t.Unable)
		if err != nil {
			return err
		}
		if err := unstructured.SetNestedField(spec, int64(t.Unable+limit), s.Adapter.maxUnavailable...); err != nil {
			return fmt.Errorf("setting maxUnavailable: %w", err)
		}
	}
	return nil
}

// adoptedAs stands for the spec at the adoption of OpenKruise's workload, as long as it is the
// same; empty otherwise. Replicas and partition are set later.
func adoptedAs(live *unstructured.Unstructured, spec map[string]any) string {
	if live == nil {
		return ""
	}
	hash, annotations := hashOf(spec), live.GetAnnotations()
	if annotations[shared.AnnotationAppliedHash] == "" || annotations[shared.AnnotationAdopted] == hash {
		return hash
	}
	return ""
}

// withListsOf is the wanted object, with present lists where these hold all wanted items. Without
// keys for a list, an apply replaces it whole: OpenKruise's defaults in containers would go, and
// the pods would follow.
func withListsOf(have, wanted any) any {
	switch wanted := wanted.(type) {
	case map[string]any:
		object, _ := have.(map[string]any)
		all := make(map[string]any, len(wanted))
		for key, value := range wanted {
			all[key] = withListsOf(object[key], value)
		}
		return all
	case []any:
		if contains(have, wanted) && have != nil {
			return runtime.DeepCopyJSONValue(have)
		}
	}
	return wanted
}

// hashOf stands for an apply: another one may lack a field, with no other sign of it.
func hashOf(object map[string]any) string {
	text, _ := json.Marshal(object) // JSON that was read can be encoded.
	sum := fnv.New64a()
	_, _ = sum.Write(text) // Writing to a hash never fails.
	return strconv.FormatUint(sum.Sum64(), 16)
}

// selectorOf is the selector of a subset: the UnitedDeployment's, and the subset's label.
func (s *Spec) selectorOf(sub *Subset) map[string]any {
	selector := s.Set.Spec.Selector.DeepCopy()
	lazy.Put(&selector.MatchLabels, shared.LabelSubsetName, sub.Name)
	return untyped(selector)
}

// errNotSelected: a workload would not select its own pods.
var errNotSelected = errors.New("the labels of the pod template, with the patch of the subset, do not match the selector")

// podTemplate is the pod template of a subset: its labels, where its pods may run, and last its patch.
func (s *Spec) podTemplate(template map[string]any, sub *Subset, revision string) (map[string]any, error) {
	for key, value := range map[string]string{shared.LabelSubsetName: sub.Name, shared.LabelUnitedDeploymentRevision: revision} {
		if err := unstructured.SetNestedField(template, value, "metadata", "labels", key); err != nil {
			return nil, fmt.Errorf("labeling the pod template: %w", err)
		}
	}
	if err := addRequirements(template, sub.Requirements); err != nil {
		return nil, err
	}
	if err := addTolerations(template, sub.Tolerations); err != nil {
		return nil, err
	}
	patched, err := Patched(template, sub.Patch)
	if err != nil {
		return nil, err
	}
	carried, _, err := unstructured.NestedStringMap(patched, "metadata", "labels")
	if err != nil {
		return nil, fmt.Errorf("the labels of the pod template: %w", err)
	}
	if !s.Selector.Matches(labels.Set(carried)) || carried[shared.LabelSubsetName] != sub.Name {
		return nil, errNotSelected
	}
	return patched, nil
}

// Patched is a pod template with the strategic merge patch of a subset. The template may be changed by it.
func Patched(template, patch map[string]any) (map[string]any, error) {
	if len(patch) == 0 {
		return template, nil
	}
	patched, _, err := subset.Patched[corev1.PodTemplateSpec](template, patch, "pod template")
	dropNulls(patched)
	return patched, err
}

// addRequirements adds requirements to every term of the required node affinity; without any, one term with them.
func addRequirements(template map[string]any, requirements []corev1.NodeSelectorRequirement) error {
	if len(requirements) == 0 {
		return nil
	}
	path := []string{"spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"}
	terms, _, err := unstructured.NestedSlice(template, path...)
	if err != nil {
		return fmt.Errorf("the node affinity of the pod template: %w", err)
	}
	if len(terms) == 0 {
		terms = []any{map[string]any{}}
	}
	for _, entry := range terms {
		term, ok := entry.(map[string]any)
		if !ok {
			return errors.New("a term of the node affinity of the pod template is not an object")
		}
		present, _ := term["matchExpressions"].([]any)
		term["matchExpressions"] = slices.Concat(present, allUntyped(requirements))
	}
	return unstructured.SetNestedSlice(template, terms, path...)
}

func addTolerations(template map[string]any, tolerations []corev1.Toleration) error {
	if len(tolerations) == 0 {
		return nil
	}
	present, _, err := unstructured.NestedSlice(template, "spec", "tolerations")
	if err != nil {
		return fmt.Errorf("the tolerations of the pod template: %w", err)
	}
	return unstructured.SetNestedSlice(template, slices.Concat(present, allUntyped(tolerations)), "spec", "tolerations")
}

// untyped is a value as JSON has it.
func untyped[T any](value *T) map[string]any {
	object, _ := runtime.DefaultUnstructuredConverter.ToUnstructured(value) // API types can be encoded.
	return object
}

func allUntyped[T any](list []T) []any {
	all := make([]any, len(list))
	for i := range list {
		all[i] = untyped(&list[i])
	}
	return all
}

// longestName is how long the name of a workload may be: the pods of a StatefulSet carry it, with a hash, as the value of a label.
const longestName = 52

// Names are the names for a new workload of the subset, the best first. They are always the same,
// and DNS labels: the pods of StatefulSets have them in their host names.
func Names(set, sub string) [2]string {
	plain, from := strings.ReplaceAll(set, ".", "-")+"-"+sub, set+"/"+sub
	hashed := withHash(plain, from)
	if len(plain) > longestName || strings.Contains(set, ".") {
		return [2]string{hashed, withHash(plain, from+"/2")}
	}
	return [2]string{plain, hashed}
}

// withHash is a name, shortened if it has to be, with the hash of a text.
func withHash(name, of string) string {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(of)) // Writing to a hash never fails.
	hash := rand.SafeEncodeString(strconv.FormatUint(uint64(sum.Sum32()), 10))
	return name[:min(len(name), longestName-1-len(hash))] + "-" + hash
}
