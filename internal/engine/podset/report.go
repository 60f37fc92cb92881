// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podset

import (
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kruise-operator/kruise-operator/internal/engine/inplace"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
)

// Moves says that pods are on their way to another revision, or the plan sends them there: an update in place
// is under way or goes on by itself, or there is an action of an update in place, at a hook or with one of the
// reasons.
func Moves(plan *planning.Plan, pods []Pod, reasons ...string) bool {
	for i := range pods {
		switch update := &pods[i].Update; update.Progress {
		case inplace.Grace, inplace.Running:
			return true
		case inplace.Blocked:
			if mayGetRoom(&pods[i]) {
				return true
			}
		case inplace.None, inplace.Done:
		}
	}
	return slices.ContainsFunc(plan.Actions, func(a planning.Action) bool {
		switch a.Reason {
		case ReasonInPlaceUpdate, ReasonInPlaceContinue, ReasonInPlaceFinished, ReasonHook:
			return true
		default:
			return slices.Contains(reasons, a.Reason)
		}
	})
}

// mayGetRoom says that an update in place waits for room on its node. Room may come by itself; everything else
// needs the user.
func mayGetRoom(pod *Pod) bool { return pod.Update.Reason == inplace.ReasonResizeDeferred }

// Failures are the first refusals about the number of pods and about an update, in words; empty without one. A
// deletion for a replacement at another revision counts as an update. describe words one: creating, deleting or
// changing what.
func Failures(plan *planning.Plan, outcome planning.Outcome, describe func(verb string, failure planning.Failure) string) (scale, update string) {
	updates := map[planning.Slot]bool{}
	for _, action := range plan.Actions {
		if action.Step == StepDelete && action.Reason == ReasonOutdated {
			updates[action.Slot] = true
		}
	}
	for _, failure := range outcome.Failures {
		isUpdate := failure.Step == StepEdit || failure.Step == StepDelete && updates[failure.Slot]
		switch {
		case isUpdate && update == "":
			update = describe("changing", failure)
		case !isUpdate && scale == "":
			scale = describe(verb(failure.Step), failure)
		}
	}
	return scale, update
}

func verb(step planning.Step) string {
	switch step {
	case StepCreate, StepCreateClaim:
		return "creating"
	case StepEditClaim:
		return "changing"
	default:
		return "deleting"
	}
}

// Selector reads the selector of a workload. A missing or empty one is an error: the first would release all
// pods, the second adopt anything with a fitting name.
func Selector(s *metav1.LabelSelector) (labels.Selector, error) {
	selector, err := metav1.LabelSelectorAsSelector(s)
	switch {
	case err != nil:
		return nil, fmt.Errorf("spec.selector: %w", err)
	case s == nil || selector.Empty():
		return nil, errors.New("spec.selector: must not be empty")
	}
	return selector, nil
}
