// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podsettest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

// UIDOf is the UID of a pod of that name.
func UIDOf(pod string) types.UID { return types.UID("uid-" + pod) }

// DescribeAction is an action in one line.
func DescribeAction(a planning.Action) string {
	what := ""
	switch a.Step {
	case podset.StepCreate:
		what = podset.PodOf(a).Name + " at " + shortRevision(podset.PodOf(a).Labels[shared.LabelControllerRevisionHash])
		if state := podset.PodOf(a).Labels[shared.LabelLifecycleState]; state != "" && state != string(shared.StateNormal) {
			what += ", " + state
		}
		for _, c := range ClaimsOf(a) {
			what += ", claim " + c.Name
		}
	case podset.StepEdit:
		what = podset.PodOf(a).Name + ": " + describeEdit(EditOf(a))
	case podset.StepDelete:
		what = podset.PodOf(a).Name
		if a.ExactVersion {
			what += " (as seen)"
		}
	case podset.StepEditClaim:
		what = ClaimOf(a).Name + ": " + string(claimPatch(a))
	case podset.StepDeleteClaim:
		what = ClaimOf(a).Name
	case podset.StepCreateClaim:
		what = ClaimOf(a).Name
	}
	return fmt.Sprintf("%s %s [%s]", a.Step, what, a.Reason)
}

// claimPatch is the merge patch of an action of StepEditClaim.
func claimPatch(a planning.Action) []byte {
	patch, _ := a.Change.(planning.RawPatch)
	return patch.Body
}

func shortRevision(name string) string { return name[strings.LastIndex(name, "-")+1:] }

func describeEdit(e edit.Edit) string {
	var parts []string
	for _, c := range e.Conditions {
		parts = append(parts, fmt.Sprintf("%s=%s", c.Type, c.Status))
	}
	for _, name := range slices.Sorted(maps.Keys(e.Images)) {
		parts = append(parts, "image "+name+"="+e.Images[name])
	}
	for _, name := range slices.Sorted(maps.Keys(e.Resources)) {
		parts = append(parts, "resources of "+name)
	}
	for _, key := range slices.Sorted(maps.Keys(e.Labels)) {
		switch value := e.Labels[key]; {
		case value == nil:
			parts = append(parts, "no label "+key)
		case key == shared.LabelControllerRevisionHash:
			parts = append(parts, "revision "+shortRevision(*value))
		case key == shared.LabelLifecycleState:
			parts = append(parts, "state "+*value)
		default:
			parts = append(parts, key+"="+*value)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(e.Annotations)) {
		switch {
		case e.Annotations[key] == nil:
			parts = append(parts, "no annotation "+key)
		case key == shared.AnnotationInPlaceGrace:
			parts = append(parts, "grace period")
		case key == shared.AnnotationInPlaceState, key == shared.AnnotationInPlaceEvidence, key == shared.AnnotationLifecycleTimestamp,
			key == shared.AnnotationSidecarSetInPlaceState, key == shared.AnnotationSidecarSetInPlaceEvidence, key == shared.AnnotationSidecarSetHash:
			// They come with every update and every transition.
		default:
			parts = append(parts, "annotation "+key)
		}
	}
	for _, f := range e.AddFinalizers {
		parts = append(parts, "finalizer "+f)
	}
	for _, f := range e.RemoveFinalizers {
		parts = append(parts, "no finalizer "+f)
	}
	return strings.Join(parts, ", ")
}

// describePlan is a plan in one line for each action and note.
func describePlan(plan planning.Plan) string {
	var lines []string
	for _, a := range plan.Actions {
		lines = append(lines, DescribeAction(a))
	}
	for _, note := range plan.Held {
		lines = append(lines, fmt.Sprintf("held by %s: %s", note.Reason, note.Message))
	}
	if plan.RecheckAfter > 0 {
		lines = append(lines, fmt.Sprintf("look again in %s", plan.RecheckAfter))
	}
	if len(lines) == 0 {
		return "nothing"
	}
	return strings.Join(lines, "\n        ")
}
