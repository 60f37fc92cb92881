// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan decides about a PodUnavailableBudget: its counts, its status, and the links on its pods.
package plan

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/api/policy/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/disruption"
	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

// StepLink writes the name of a budget to a pod.
const StepLink planning.Step = "LinkPod"

// Kind is the kind of budgets, in its stored version.
func Kind() schema.GroupVersionKind { return v1beta1.GroupVersion().WithKind("PodUnavailableBudget") }

// Snapshot is what is known of a budget's pods.
type Snapshot struct {
	disruption.Observed
	// Linked are the pods that are this budget's, and not another's.
	Linked []*corev1.Pod
	// Unknown is why the total is not known: the last count stays. Empty: it is.
	Unknown string
	// Registering, NotRegistered or Off is how it is with the registration; empty: it is in force.
	Registering, NotRegistered, Off string
}

// Decision is a plan with the counts.
type Decision struct {
	planning.Plan
	Counted disruption.Counted
}

// Plan counts the budget, and links pods that do not name it.
func Plan(b *disruption.Budget, s Snapshot) Decision {
	var d Decision
	d.Counted.Status = *b.Status.DeepCopy()
	if b.Invalid == nil && s.Unknown == "" {
		d.Counted = disruption.Count(b, s.Observed)
		d.Recheck(d.Counted.RecheckAfter)
	}
	for _, pod := range s.Linked {
		if e := link(b, pod); !e.IsZero() {
			action := podset.EditPod(planning.Slot(pod.Name), pod, e, "Link")
			action.Step = StepLink
			d.Actions = append(d.Actions, action)
		}
	}
	return d
}

// link names the budget in both annotations of a pod, and what happens while nobody can ask it.
func link(b *disruption.Budget, pod *corev1.Pod) edit.Edit {
	var e edit.Edit
	if pod.DeletionTimestamp != nil {
		return e
	}
	for key, value := range map[string]string{
		v1beta1.AnnotationRelatedBudget: b.Name, v1beta1.AnnotationRelatedBudgetLegacy: b.Name, v1beta1.AnnotationBudgetFailurePolicy: b.FailurePolicy(),
	} {
		switch {
		case pod.Annotations[key] == value:
		case value == "":
			e.RemoveAnnotation(key)
		default:
			e.SetAnnotation(key, value)
		}
	}
	return e
}

// Status is the whole status after a pass.
func Status(b *disruption.Budget, s Snapshot, d Decision, outcome planning.Outcome) v1beta1.PodUnavailableBudgetStatus {
	status := d.Counted.Status
	// Until the API server asks and the pods are linked, the generation is not observed: nothing is decided by these numbers.
	if s.Registering != "" || len(outcome.Left)+len(outcome.Failures) > 0 && b.Status.ObservedGeneration == 0 {
		status.ObservedGeneration = b.Status.ObservedGeneration
	}
	list := conditions.NewList(conditions.From(b.Status.Conditions), s.Now)
	list.Set(progress(b, s, d, outcome).Conditions()...)
	status.Conditions = conditions.To[metav1.Condition](list)
	return status
}

// progress describes the budget, by the first match.
func progress(b *disruption.Budget, s Snapshot, d Decision, outcome planning.Outcome) podset.Progress {
	switch {
	case b.Invalid != nil:
		return podset.Stalled(appsv1beta1.ReasonInvalidSpec, b.Invalid.Error())
	case s.Off != "":
		return podset.Stalled(v1beta1.ReasonBudgetOff, s.Off)
	case s.Unknown != "":
		return podset.Stalled(v1beta1.ReasonTotalUnknown, s.Unknown)
	case s.NotRegistered != "":
		return podset.Stalled(v1beta1.ReasonBudgetNotRegistered, s.NotRegistered)
	case s.Registering != "":
		return podset.Reconciling(v1beta1.ReasonBudgetRegistering, s.Registering)
	}
	if failure, refused := outcome.Failed(StepLink); refused {
		return podset.Refused(failure, "Pods cannot be told their budget, so that they are not protected: "+failure.Message, s.Now)
	}
	switch {
	case s.Gone || len(s.Pods) == 0:
		return podset.Progress{Reason: v1beta1.ReasonNoPods, Message: "There is no pod to protect, so every operation is allowed."}
	case d.Counted.Status.DesiredAvailable == 0:
		return podset.Progress{Reason: v1beta1.ReasonNothingProtected, Message: "No pod has to stay available, so every operation is allowed. " + whyNothing(s)}
	}
	return podset.Progress{Reason: v1beta1.ReasonBudgetInForce, Message: "Protected operations on the pods are checked."}
}

func whyNothing(s Snapshot) string {
	switch {
	case s.Total < 0:
		return "The kind of the target has no replicas: set spec.protectTotalReplicas."
	case s.Total == 0:
		return "The pods have no workload that counts them: set spec.protectTotalReplicas."
	}
	return fmt.Sprintf("The limit is not less than the total of %d.", s.Total)
}

// Urgent is a change to write at once: of what decides.
func Urgent(before, after *v1beta1.PodUnavailableBudgetStatus) bool {
	return before.UnavailableAllowed != after.UnavailableAllowed ||
		!maps.Equal(before.DisruptedPods, after.DisruptedPods) || !maps.Equal(before.UnavailablePods, after.UnavailablePods)
}

// Events are about new statements of a status.
func Events(before, after *v1beta1.PodUnavailableBudgetStatus) []planning.Event {
	is, _ := conditions.Find(conditions.From(after.Conditions), v1beta1.PodUnavailableBudgetReconciling)
	was, _ := conditions.Find(conditions.From(before.Conditions), v1beta1.PodUnavailableBudgetReconciling)
	if is.Reason == was.Reason {
		return nil
	}
	switch is.Reason {
	case v1beta1.ReasonNoPods:
		return []planning.Event{{Reason: "NoPods", Message: is.Message}}
	case v1beta1.ReasonTotalUnknown:
		return []planning.Event{{Warning: true, Reason: "CalculateExpectedPodCountFailed", Message: is.Message}}
	case v1beta1.ReasonBudgetNotRegistered, v1beta1.ReasonBudgetOff, appsv1beta1.ReasonInvalidSpec:
		return []planning.Event{{Warning: true, Reason: is.Reason, Message: is.Message}}
	}
	return nil
}
