// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

// Status is the whole status after a pass. invalid is a fault of the spec.
func Status(ws *appsv1beta1.WorkloadSpread, seen Snapshot, d Decision, outcome planning.Outcome, invalid error) appsv1beta1.WorkloadSpreadStatus {
	status := *ws.Status.DeepCopy()
	status.ObservedGeneration = ws.Generation
	if invalid == nil {
		status.SubsetStatuses, status.VersionedSubsetStatuses = d.subsets, d.versions
	}
	list := conditions.NewList(conditions.From(ws.Status.Conditions), seen.Now)
	list.Set(progressOf(seen, outcome, invalid).Conditions()...)
	list.SetIf(conditions.New(appsv1beta1.WorkloadSpreadPodsWithoutSubset, true, appsv1beta1.ReasonNotInSubset, fmt.Sprintf(
		"%s in no subset (%s): created without the operator's answer or without room, or the subset was removed. They go first when the workload shrinks.",
		podset.Count(len(d.unplaced), "pod is", "pods are"), podset.List(d.unplaced))), len(d.unplaced) > 0)
	status.Conditions = conditions.To[metav1.Condition](list)
	return status
}

// progressOf describes the object, by the first match.
func progressOf(seen Snapshot, outcome planning.Outcome, invalid error) podset.Progress {
	failure, refused := outcome.Failed(podset.StepEdit, podset.StepDelete)
	switch {
	case invalid != nil:
		return podset.Stalled(appsv1beta1.ReasonInvalidSpec, invalid.Error())
	case refused:
		return podset.Refused(failure, "Pods cannot be corrected: "+failure.Message, seen.Now)
	case seen.Unsupported != "":
		return podset.Stalled(appsv1beta1.ReasonTargetUnsupported, seen.Unsupported)
	case seen.HookFault != "":
		return podset.Stalled(appsv1beta1.ReasonNotRegistered, "New pods get no subset: "+seen.HookFault)
	case seen.PatchFault != "":
		return podset.Stalled(appsv1beta1.ReasonInvalidSpec, "New pods of a subset get no patch: "+seen.PatchFault)
	case seen.HookPending:
		return podset.Reconciling(appsv1beta1.ReasonNotRegistered, "New pods get subsets as soon as the API server asks the operator about them.")
	case !seen.Found:
		return podset.Progress{Reason: appsv1beta1.ReasonTargetNotFound, Message: "There is no such workload. Its pods get subsets when it is created."}
	}
	return podset.Progress{Reason: appsv1beta1.ReasonSpread, Message: "New pods get subsets."}
}

// Urgent is a change to write at once: another state of a subset.
func Urgent(before, after *appsv1beta1.WorkloadSpreadStatus) bool {
	return !slices.EqualFunc(before.SubsetStatuses, after.SubsetStatuses, func(a, b appsv1beta1.WorkloadSpreadSubsetStatus) bool {
		return conditions.EqualIgnoringMessages(a.Conditions, b.Conditions)
	})
}

// Events are those of a decision, and about a new fault.
func Events(before, after *appsv1beta1.WorkloadSpreadStatus, d Decision) []planning.Event {
	events := d.Events
	c, found := conditions.Find(conditions.Begun(before.Conditions, after.Conditions), appsv1beta1.WorkloadSpreadStalled)
	if found && c.Reason != appsv1beta1.ReasonRequestFailed {
		events = append(events, planning.Event{Warning: true, Reason: c.Reason, Message: c.Message})
	}
	return events
}
