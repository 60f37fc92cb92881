// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package spread

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/lazy"
	"github.com/kruise-operator/kruise-operator/internal/engine/subset"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/tree"
)

// Mark is the value of the annotation with a pod's subset.
type Mark struct {
	Name   string `json:"name"`
	Subset string `json:"subset,omitempty"`
	// UID is the key under which the pod was counted before it was seen; empty: its name.
	UID string `json:"uid,omitempty"`
}

// MarkOf is a pod's mark; false without one.
func MarkOf(annotations map[string]string) (Mark, bool) {
	text, found := annotations[shared.AnnotationMatchedWorkloadSpread]
	var mark Mark
	if !found || json.Unmarshal([]byte(text), &mark) != nil {
		return Mark{}, false
	}
	return mark, true
}

// SubsetOf is the subset of a pod, or None. marked: the pod has a mark of this WorkloadSpread.
func (s *Spread) SubsetOf(pod *corev1.Pod) (i int, marked bool) {
	mark, found := MarkOf(pod.Annotations)
	if !found || mark.Name != s.Name {
		return None, false
	}
	return s.Index(mark.Subset), true
}

// Mark is the annotation of a pod of a subset.
func (s *Spread) Mark(i int, uid string) string {
	text, _ := json.Marshal(Mark{Name: s.Name, Subset: s.Subsets[i].Name, UID: uid}) // texts can be encoded
	return string(text)
}

// Counts are the pods of each subset.
func (s *Spread) Counts(pods []*corev1.Pod) []int {
	counts := make([]int, len(s.Subsets))
	for _, pod := range pods {
		if i, _ := s.SubsetOf(pod); i != None {
			counts[i]++
		}
	}
	return counts
}

// Inject makes a new pod one of a subset. The pod's own lists stay as they are, since pods share them. A patch that
// takes the pod away from its workload is left out, with an error.
func (s *Spread) Inject(pod *corev1.Pod, i int, uid string, selector labels.Selector) error {
	sub := &s.Subsets[i]
	pod.Spec.Tolerations = slices.Concat(pod.Spec.Tolerations, sub.Tolerations)
	sub.addAffinity(&pod.Spec)
	err := sub.patch(pod, selector)
	pod.Annotations = maps.Clone(pod.Annotations)
	lazy.Put(&pod.Annotations, shared.AnnotationMatchedWorkloadSpread, s.Mark(i, uid))
	if s.HasCost() {
		pod.Annotations[shared.AnnotationPodDeletionCost] = strconv.Itoa(s.Cost(i))
	}
	return err
}

// addAffinity adds the subset's terms to the node affinity.
func (sub *Subset) addAffinity(spec *corev1.PodSpec) {
	if sub.Required == nil && len(sub.Preferred) == 0 {
		return
	}
	affinity := spec.Affinity.DeepCopy()
	if affinity == nil {
		affinity = &corev1.Affinity{}
	}
	if affinity.NodeAffinity == nil {
		affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	nodes := affinity.NodeAffinity
	nodes.PreferredDuringSchedulingIgnoredDuringExecution = append(nodes.PreferredDuringSchedulingIgnoredDuringExecution, sub.Preferred...)
	if sub.Required != nil {
		if nodes.RequiredDuringSchedulingIgnoredDuringExecution == nil {
			nodes.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{}
		}
		required := nodes.RequiredDuringSchedulingIgnoredDuringExecution
		if len(required.NodeSelectorTerms) == 0 {
			required.NodeSelectorTerms = []corev1.NodeSelectorTerm{{}}
		}
		for i := range required.NodeSelectorTerms {
			term := &required.NodeSelectorTerms[i]
			term.MatchExpressions = append(term.MatchExpressions, sub.Required.MatchExpressions...)
			term.MatchFields = append(term.MatchFields, sub.Required.MatchFields...)
		}
	}
	spec.Affinity = affinity
}

// patch applies the subset's patch, but for what makes the pod its workload's.
func (sub *Subset) patch(pod *corev1.Pod, selector labels.Selector) error {
	if len(sub.Patch) == 0 {
		return nil
	}
	patched, err := sub.Patched(pod)
	if err != nil {
		return err
	}
	patched.Name, patched.GenerateName, patched.Namespace = pod.Name, pod.GenerateName, pod.Namespace
	patched.OwnerReferences, patched.TypeMeta = pod.OwnerReferences, pod.TypeMeta
	for key, value := range pod.Labels {
		if IsIdentity(key) {
			patched.Labels[key] = value
		}
	}
	if selector != nil && !selector.Matches(labels.Set(patched.Labels)) {
		return fmt.Errorf("the patch of subset %s changes labels that select the pods of the workload", sub.Name)
	}
	if patched.Spec.PriorityClassName != pod.Spec.PriorityClassName {
		patched.Spec.Priority = nil
	}
	*pod = *patched
	return nil
}

// IsIdentity is a label by which a workload knows its pod.
func IsIdentity(label string) bool {
	switch label {
	case shared.LabelPodTemplateHash, shared.LabelControllerRevisionHash, shared.LabelPodName, shared.LabelPodIndex:
		return true
	}
	return strings.HasPrefix(label, "apps.kruise.io/") || strings.HasPrefix(label, "batch.kubernetes.io/")
}

// Patched is a pod with the patch of the subset.
func (sub *Subset) Patched(pod *corev1.Pod) (*corev1.Pod, error) {
	fields, _ := runtime.DefaultUnstructuredConverter.ToUnstructured(pod) // API types can be encoded.
	_, patched, err := subset.Patched[corev1.Pod](fields, sub.Patch, "pod")
	if err == nil && patched.Labels == nil {
		patched.Labels = map[string]string{}
	}
	return patched, err
}

// Metadata are the labels and annotations of the subset's patch.
func (sub *Subset) Metadata() (labels, annotations map[string]string) {
	return tree.Texts(sub.Patch, "metadata", "labels"), tree.Texts(sub.Patch, "metadata", "annotations")
}
