// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package spread

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kruise-operator/kruise-operator/internal/quantity"
)

// SelectorOf is a workload's spec.selector.
func SelectorOf(workload *unstructured.Unstructured) (labels.Selector, error) {
	value, _, _ := unstructured.NestedMap(workload.Object, "spec", "selector")
	written := &metav1.LabelSelector{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(value, written); err != nil {
		return nil, fmt.Errorf("reading the selector of %s: %w", workload.GetName(), err)
	}
	return metav1.LabelSelectorAsSelector(written)
}

// PatchedPod is a pod of the workload's template in a subset; nil without a template or a patch. An error is about the patch.
func (s *Spread) PatchedPod(i int, workload *unstructured.Unstructured) (*corev1.Pod, error) {
	if len(s.Subsets[i].Patch) == 0 {
		return nil, nil
	}
	pod := PodOf(workload)
	if pod == nil {
		return nil, nil
	}
	selector, err := SelectorOf(workload)
	if err != nil || !selector.Matches(labels.Set(pod.Labels)) {
		selector = nil // pods of a Job get its labels later
	}
	return pod, s.Inject(pod, i, "", selector)
}

// PodOf is a pod of the workload's template; nil without one.
func PodOf(workload *unstructured.Unstructured) *corev1.Pod {
	template, _, _ := unstructured.NestedMap(workload.Object, "spec", "template")
	body, err := json.Marshal(template)
	pod := &corev1.Pod{}
	if err != nil || template == nil || quantity.Unmarshal(body, pod) != nil {
		return nil
	}
	return pod
}
