// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/united"
)

// maxPatched is how much of pod templates is patched for one request, by weight, and maxPatches how
// many patches are judged: each of 500 subsets for an ordinary template. Faults beyond show in the
// status.
const (
	maxPatched = 3 << 20
	maxPatches = 500
)

// patches judges the patches of subsets.
type patches struct {
	pod map[string]any
	// selector is nil when it is invalid, reported separately.
	selector labels.Selector
	// left is how much more is patched, by weight, and judged how many patches were.
	left, judged int
}

// newPatches is for patches of a pod template; nil for a faulty one.
func newPatches(set *appsv1beta1.UnitedDeployment, pod map[string]any) *patches {
	p := &patches{pod: pod, left: maxPatched}
	if selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector); err == nil {
		p.selector = selector
	}
	return p
}

// validate requires a fitting patch of the pod template, without the labels of the selector.
func (p *patches) validate(sub *appsv1beta1.Subset, path *field.Path) field.ErrorList {
	if sub.Patch == nil || len(sub.Patch.Raw) == 0 || string(sub.Patch.Raw) == "null" {
		return nil
	}
	var patch map[string]any
	if err := utiljson.Unmarshal(sub.Patch.Raw, &patch); err != nil {
		return field.ErrorList{field.Invalid(path, string(sub.Patch.Raw), "must be an object")}
	}
	if p.judged++; p.pod == nil || p.judged > maxPatches || p.left < 0 {
		return nil // to weigh a large part for each of hundreds of subsets would take longer than judging
	}
	part := withLabels(touched(p.pod, patch), p.pod)
	if p.left -= weight(part); p.left < 0 {
		return nil
	}
	template := runtime.DeepCopyJSON(part)
	if err := unstructured.SetNestedField(template, sub.Name, "metadata", "labels", shared.LabelSubsetName); err != nil {
		return nil // The template is at fault, which is said of it.
	}
	patched, err := united.Patched(template, patch)
	if err != nil {
		return field.ErrorList{field.Invalid(path, string(sub.Patch.Raw), err.Error())}
	}
	carried, _, _ := unstructured.NestedStringMap(patched, "metadata", "labels")
	if p.selector == nil || p.selector.Matches(labels.Set(carried)) && carried[shared.LabelSubsetName] == sub.Name {
		return nil
	}
	return field.ErrorList{field.Invalid(path, string(sub.Patch.Raw),
		fmt.Sprintf("must leave alone the labels that select the pods: spec.selector, which is %s, and %s", p.selector, shared.LabelSubsetName))}
}

// touched is the patchable part of a template. The rest has no part in the effect, and copies for
// each subset would cost as much as the template is large. The values are the template's own.
func touched(template, patch map[string]any) map[string]any {
	part := map[string]any{}
	for key, change := range patch {
		if strings.HasPrefix(key, "$") {
			return template // a directive, which can be about any key
		}
		value, found := template[key]
		if !found {
			continue
		}
		inner, isObject := value.(map[string]any)
		if changes, ok := change.(map[string]any); ok && isObject {
			value = touched(inner, changes)
		}
		part[key] = value
	}
	return part
}

// withLabels is a part of a template with all of its labels, to compare with the selector.
func withLabels(part, template map[string]any) map[string]any {
	all, found, err := unstructured.NestedFieldNoCopy(template, "metadata", "labels")
	if err != nil || !found {
		return part
	}
	part = maps.Clone(part)
	metadata, _ := part["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["labels"], part["metadata"] = all, metadata
	return part
}
