// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

// Status is the whole status after a pass: the snapshot's pods, the plan's notes and the outcome's
// failures. It is about the observed pods; the plan's effect shows in the next pass. also are
// conditions beyond the pods.
func Status(spec *Spec, s podset.Snapshot, plan planning.Plan, outcome planning.Outcome, also ...conditions.Condition) appsv1beta1.StatefulSetStatus {
	set := spec.Set
	s = s.Reported()
	counts := podset.CountsOf(&s)
	status := appsv1beta1.StatefulSetStatus{
		ObservedGeneration:       set.Generation,
		Replicas:                 counts.Replicas,
		ReadyReplicas:            counts.Ready,
		AvailableReplicas:        counts.Available,
		CurrentReplicas:          counts.Current,
		UpdatedReplicas:          counts.Updated,
		UpdatedReadyReplicas:     counts.UpdatedReady,
		UpdatedAvailableReplicas: counts.UpdatedAvailable,
		CurrentRevision:          s.Current.Name,
		UpdateRevision:           s.Update.Name,
		CollisionCount:           ptr.To(ptr.Deref(s.CollisionCount, 0)),
		LabelSelector:            spec.SelectorText(),
		VolumeClaims:             set.Status.VolumeClaims,
	}
	if spec.Invalid == nil {
		status.VolumeClaims = volumeClaims(spec, &s)
		if rolledOut(spec, counts) {
			status.CurrentReplicas = status.UpdatedReplicas
			status.CurrentRevision = status.UpdateRevision
		}
	}

	list := conditions.NewList(conditions.From(set.Status.Conditions), s.Now)
	setFailures(list, &s, &plan, outcome)
	list.SetIf(conditions.FieldsIgnored(appsv1beta1.StatefulSetFieldsIgnored, podset.LackClaims(spec.Ignored, spec.Claims.Claims, s.Pods)))
	progress := progressOf(spec, &s, counts, plan, outcome).WithAnyRefusals(list)
	list.Set(conditions.New(appsv1beta1.StatefulSetProgressing, progress.Reconciling, progress.Reason, progress.Message))
	podset.SetCommon(list, progress, &spec.Spec, &s, int(counts.Available))
	list.Set(also...)
	status.Conditions = conditions.To[appsv1.StatefulSetCondition](list)
	return status
}

// rolledOut: all replicas exist, at the update revision and ready, with no update in place under
// way. The partition's revision is not forgotten while no pod has it, as in a set scaled to 0. With
// OnDelete the set moves no pods, so the current revision stays.
func rolledOut(spec *Spec, counts podset.Counts) bool {
	return !spec.OnDelete && !spec.KeepsOld && counts.Updated == counts.Replicas && counts.UpdatedReady == counts.Replicas && int(counts.Replicas) == spec.Replicas
}

func volumeClaims(spec *Spec, s *podset.Snapshot) []appsv1beta1.VolumeClaimStatus {
	if len(spec.Claims.Claims) == 0 {
		return nil
	}
	names := make([]string, 0, len(s.Pods))
	for i := range s.Pods {
		if s.Pods[i].Unwanted != podset.UnwantedSurplus {
			names = append(names, s.Pods[i].Object.Name)
		}
	}
	return spec.Claims.Status(names, s.Claims)
}

// Events are the events about new statements, or about another spec.
func Events(spec *Spec, after appsv1beta1.StatefulSetStatus) []planning.Event {
	before := &spec.Set.Status
	return podset.ConditionEvents(conditions.From(before.Conditions), conditions.From(after.Conditions),
		before.ObservedGeneration != after.ObservedGeneration, appsv1beta1.StatefulSetFailedUpdatePod)
}

// progressOf is the set's progress, the first that holds:
//
//  1. its pods say nothing about it, see podset.Stopped;
//  2. pods are missing or surplus;
//  3. pods are being moved;
//  4. pods cannot be moved at all, or have begun and cannot go on, or their claims cannot follow:
//     stalled. So is a set with everything else behind such pods;
//  5. pods are where they should be, see podset.Settled.
//
// Trouble of single pods comes first in the message, and can stall the set: see
// podset.Progress.WithTroubles.
func progressOf(spec *Spec, s *podset.Snapshot, counts podset.Counts, plan planning.Plan, outcome planning.Outcome) podset.Progress {
	if stopped, ok := podset.Stopped(&spec.Spec, s, &plan, outcome); ok {
		return stopped
	}
	return progressOfPods(spec, s, counts, plan).BehindBlocked(&plan, s.Pods, noteClaimGrowing, noteClaimOwned, noteClaimGoing).WithTroubles(&plan, s.Pods)
}

func progressOfPods(spec *Spec, s *podset.Snapshot, counts podset.Counts, plan planning.Plan) podset.Progress {
	surplus := 0
	for i := range s.Pods {
		if s.Pods[i].Unwanted == podset.UnwantedSurplus {
			surplus++
		}
	}
	moving := podset.Moves(&plan, s.Pods, podset.ReasonOutdated, podset.ReasonSpecifiedDelete, reasonClaimGrow)
	if _, ok := plan.HeldFor(noteClaimGrowing, noteClaimOwned, podset.ReasonMaxUnavailable, podset.ReasonBudget); ok {
		moving = true
	}
	switch {
	case surplus > 0 || len(s.Pods) < spec.Replicas:
		return podset.Reconciling(appsv1beta1.ReasonScaling,
			plan.HeldMessages(fmt.Sprintf("%s; %s to be removed.", podset.Of(len(s.Pods)-surplus, spec.Replicas, "pod exists", "pods exist"), podset.Count(surplus, "is", "are"))))
	case moving:
		return podset.Reconciling(appsv1beta1.ReasonRollingOut, plan.HeldMessages(fmt.Sprintf("Pods are moving to revision %s.", s.Update.Name)))
	}
	if blocked, ok := podset.Blocked(&plan); ok {
		return blocked
	}
	return podset.Settled(&plan, int(counts.Available), spec.Replicas)
}

// setFailures adds the two conditions about failures, while there are any.
func setFailures(list *conditions.List, s *podset.Snapshot, plan *planning.Plan, outcome planning.Outcome) {
	if failure, ok := outcome.Failed(podset.StepCreate, podset.StepCreateClaim); ok {
		list.Set(conditions.New(appsv1beta1.StatefulSetFailedCreatePod, true, appsv1beta1.ReasonRequestFailed, failureMessage("creating", failure)))
	}
	refused := ""
	if failure, ok := outcome.Failed(podset.StepEdit, podset.StepDelete, podset.StepEditClaim); ok {
		refused = failureMessage("changing", failure)
	}
	list.SetIf(podset.FailedUpdate(appsv1beta1.StatefulSetFailedUpdatePod, s.Unrecorded, refused, plan))
}

func failureMessage(verb string, failure planning.Failure) string {
	return fmt.Sprintf("%s the pod with ordinal %s: %s", verb, failure.Slot, failure.Message)
}
