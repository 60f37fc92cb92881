// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"

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

// maxPatched is how much of pod templates is patched for one request, by weight, and maxPatches how often. Faults beyond show in the status.
const (
	maxPatched = 7 << 19
	maxPatches = 500
)

// patches judges the patches of subsets.
type patches struct {
	pod map[string]any
	// selector is nil when it is invalid, reported separately.
	selector labels.Selector
	// left is how many more are judged.
	left int
}

// newPatches is for patches of a pod template; nil for a faulty one.
func newPatches(set *appsv1beta1.UnitedDeployment, pod map[string]any) *patches {
	p := &patches{pod: pod}
	if pod != nil {
		p.left = min(maxPatches, maxPatched/weight(pod))
	}
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
	if p.left--; p.left < 0 {
		return nil
	}
	template := runtime.DeepCopyJSON(p.pod)
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
