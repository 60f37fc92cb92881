// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package disruption decides for PodUnavailableBudgets: which pods one protects, how many may become unavailable, and whether
// an operation on a pod is allowed now. Admission and the reconcilers of workloads ask the same functions.
//
// The budget's status is the counter. Whoever is allowed an operation records the pod in it, tied to the observed version.
package disruption

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/policy/v1beta1"
)

// Gates are feature gates: without Delete, deletions and evictions are free, without Update, updates and resizes are.
// Resize: a resize is an operation of its own, else a kind of update.
type Gates struct{ Delete, Update, Resize bool }

// Budget is a parsed budget. It is read-only.
type Budget struct {
	*v1beta1.PodUnavailableBudget
	// Selector selects the pods; nil: the target does.
	Selector labels.Selector
	target   schema.GroupKind
	ignored  labels.Selector
	// operations are the protected ones.
	operations []v1beta1.PubOperation
	// Total replaces the workloads' replicas; nil: it does not.
	Total *int32
	// Invalid is a fault of the spec: nothing is protected.
	Invalid error
}

// Parse reads a stored budget. What OpenKruise let in and cannot be read counts as absent, or makes the budget invalid.
func Parse(stored *v1beta1.PodUnavailableBudget) *Budget {
	b := &Budget{PodUnavailableBudget: stored, Selector: labels.Nothing(), ignored: labels.Nothing()}
	spec := &stored.Spec
	var err error
	switch {
	case spec.TargetReference != nil:
		version, wrong := schema.ParseGroupVersion(spec.TargetReference.APIVersion)
		b.target, err = schema.GroupKind{Group: version.Group, Kind: spec.TargetReference.Kind}, wrong
		b.Selector = nil
	case spec.Selector != nil:
		if b.Selector, err = metav1.LabelSelectorAsSelector(spec.Selector); err == nil && b.Selector.Empty() {
			err = fmt.Errorf("spec.selector is empty")
		}
	default:
		err = fmt.Errorf("there is neither spec.selector nor spec.targetRef")
	}
	if spec.IgnoredPodSelector != nil && err == nil {
		b.ignored, err = metav1.LabelSelectorAsSelector(spec.IgnoredPodSelector)
	}
	if err != nil {
		b.Invalid, b.Selector, b.ignored = err, labels.Nothing(), labels.Nothing()
	}
	b.operations, b.Total = operationsOf(stored), totalOf(stored)
	return b
}

// operationsOf are the operations a budget protects: of the field, else of the annotation, else the defaults.
func operationsOf(b *v1beta1.PodUnavailableBudget) []v1beta1.PubOperation {
	if len(b.Spec.ProtectOperations) > 0 {
		return b.Spec.ProtectOperations
	}
	if known, _ := v1beta1.ParseOperations(b.Annotations[v1beta1.AnnotationProtectOperations]); len(known) > 0 {
		return known
	}
	return []v1beta1.PubOperation{v1beta1.PubDeleteOperation, v1beta1.PubUpdateOperation, v1beta1.PubEvictOperation}
}

// totalOf is the total a budget names itself, by field or annotation; nil: none.
func totalOf(b *v1beta1.PodUnavailableBudget) *int32 {
	if b.Spec.ProtectTotalReplicas != nil {
		return b.Spec.ProtectTotalReplicas
	}
	if n, err := strconv.ParseInt(b.Annotations[v1beta1.AnnotationProtectTotalReplicas], 10, 32); err == nil && n > 0 {
		return ptr.To(int32(n))
	}
	return nil
}

// Target is the kind and name of the protected workload; false: the pods are selected by labels.
func (b *Budget) Target() (schema.GroupKind, string, bool) {
	if b.Selector != nil {
		return schema.GroupKind{}, "", false
	}
	return b.target, b.Spec.TargetReference.Name, true
}

// FailurePolicy is the user's choice for the pods while nobody can check: Ignore, or empty to deny.
func (b *Budget) FailurePolicy() string {
	if policy := b.Annotations[v1beta1.AnnotationBudgetFailurePolicy]; policy == "Ignore" {
		return policy
	}
	return ""
}

// Covers is true if the budget is about the pod: its labels, or its workload, match.
func (b *Budget) Covers(pod *corev1.Pod) bool {
	if b.Namespace != pod.Namespace {
		return false
	}
	if b.Selector != nil {
		return b.Selector.Matches(labels.Set(pod.Labels))
	}
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return false
	}
	if kindOf(owner) == b.target {
		return owner.Name == b.Spec.TargetReference.Name
	}
	kind, name := Workload(pod, owner)
	return kind == b.target && name == b.Spec.TargetReference.Name
}

func kindOf(owner *metav1.OwnerReference) schema.GroupKind {
	return schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind()
}

// Workload is the workload of a pod: its controller, or the Deployment of that. The controller of Deployments names ReplicaSets
// after the hash on their pods.
func Workload(pod *corev1.Pod, owner *metav1.OwnerReference) (schema.GroupKind, string) {
	kind, hash := kindOf(owner), pod.Labels[shared.LabelPodTemplateHash]
	if name, made := strings.CutSuffix(owner.Name, "-"+hash); made && hash != "" && kind == (schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}) {
		return schema.GroupKind{Group: "apps", Kind: "Deployment"}, name
	}
	return kind, owner.Name
}

// Of is the pod's budget; nil: it has none. The one that the pod names wins while it covers the pod, else the oldest does.
func Of(all []*Budget, pod *corev1.Pod) *Budget {
	linked := Linked(pod)
	var first *Budget
	for _, b := range all {
		switch {
		case b.Invalid != nil || !b.Covers(pod):
		case b.Name == linked:
			return b
		case first == nil || older(b, first):
			first = b
		}
	}
	return first
}

func older(a, b *Budget) bool {
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.Name < b.Name
	}
	return a.CreationTimestamp.Before(&b.CreationTimestamp)
}

// Linked is the name of the budget on a pod; empty: there is none.
func Linked(pod *corev1.Pod) string {
	if name := pod.Annotations[v1beta1.AnnotationRelatedBudget]; name != "" {
		return name
	}
	return pod.Annotations[v1beta1.AnnotationRelatedBudgetLegacy]
}

// Protects is true if a budget checks the operation.
func (b *Budget) Protects(op v1beta1.PubOperation, gates Gates) bool {
	listed := func(op v1beta1.PubOperation) bool { return slices.Contains(b.operations, op) }
	switch op {
	case v1beta1.PubDeleteOperation, v1beta1.PubEvictOperation:
		return gates.Delete && listed(op)
	case v1beta1.PubResizeOperation:
		if !gates.Resize {
			op = v1beta1.PubUpdateOperation
		}
	}
	return gates.Update && listed(op)
}
