// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

// Status is the whole status after a pass: the snapshot's pods, the plan's notes and the outcome's
// failures. It is about the observed pods; the plan's effect shows in the next pass. recheck is
// when the progress deadline would pass, zero if it does not run. also are conditions beyond the
// pods.
func Status(
	spec *Spec, s podset.Snapshot, plan planning.Plan, outcome planning.Outcome, also ...conditions.Condition,
) (status appsv1beta1.CloneSetStatus, recheck time.Duration) {
	set := spec.Set
	s = s.Reported()
	counted := countedOf(s)
	counts := podset.CountsOf(&counted)
	status = appsv1beta1.CloneSetStatus{
		ObservedGeneration:       set.Generation,
		Replicas:                 counts.Replicas,
		ReadyReplicas:            counts.Ready,
		AvailableReplicas:        counts.Available,
		UpdatedReplicas:          counts.Updated,
		UpdatedReadyReplicas:     counts.UpdatedReady,
		UpdatedAvailableReplicas: counts.UpdatedAvailable,
		ExpectedUpdatedReplicas:  set.Status.ExpectedUpdatedReplicas,
		CurrentRevision:          s.Current.Name,
		UpdateRevision:           s.Update.Name,
		CollisionCount:           ptr.To(ptr.Deref(s.CollisionCount, 0)),
		LabelSelector:            spec.SelectorText(),
	}
	if spec.Invalid == nil {
		status.ExpectedUpdatedReplicas = int32(spec.Replicas - spec.Partition)
		if rolledOut(spec, counts) {
			status.CurrentRevision = status.UpdateRevision
		}
	}

	before := conditions.From(set.Status.Conditions)
	list := conditions.NewList(before, s.Now)
	setFailures(list, &s, &plan, outcome)
	list.SetIf(conditions.FieldsIgnored(appsv1beta1.CloneSetFieldsIgnored, podset.LackClaims(spec.Ignored, spec.Claims.Claims, s.Pods)))
	recheck = setProgressing(list, before, spec, &status)
	progress := progressOf(spec, &counted, failed(&s), counts, plan, outcome).WithAnyRefusals(list)
	podset.SetCommon(list, progress, &spec.Spec, &s, int(counts.Available))
	list.Set(also...)
	status.Conditions = conditions.To[appsv1beta1.CloneSetCondition](list)
	return status, recheck
}

// countedOf is the snapshot without pods that count for nothing.
func countedOf(s podset.Snapshot) podset.Snapshot {
	if !slices.ContainsFunc(s.Pods, func(pod podset.Pod) bool { return !counts(&pod) }) {
		return s
	}
	counted := s
	counted.Pods = make([]podset.Pod, 0, len(s.Pods))
	for i := range s.Pods {
		if counts(&s.Pods[i]) {
			counted.Pods = append(counted.Pods, s.Pods[i])
		}
	}
	return counted
}

// rolledOut: all replicas exist, at the update revision. A set scaled in the middle of a canary,
// also to 0, must not forget the partition's revision.
func rolledOut(spec *Spec, counts podset.Counts) bool {
	return !spec.KeepsOld && counts.Updated == counts.Replicas && int(counts.Replicas) == spec.Replicas
}

// Events are the events about new statements, or about another spec, and about pods that
// scaleStrategy.maxUnavailable holds up. before is the last pass's plan, if known.
func Events(spec *Spec, after appsv1beta1.CloneSetStatus, before, plan planning.Plan) []planning.Event {
	old := &spec.Set.Status
	events := podset.ConditionEvents(conditions.From(old.Conditions), conditions.From(after.Conditions),
		old.ObservedGeneration != after.ObservedGeneration, appsv1beta1.CloneSetFailedUpdate)
	if note, limited := plan.HeldFor(noteScaleUpLimited); limited {
		if _, known := before.HeldFor(noteScaleUpLimited); !known {
			events = append(events, planning.Event{Warning: true, Reason: noteScaleUpLimited, Message: note.Message})
		}
	}
	return events
}

// progressOf is the set's progress, the first that holds:
//
//  1. its pods say nothing about it, see podset.Stopped;
//  2. pods are being moved, or may be moved next, with additions and removals for it;
//  3. a limit of no pods at all keeps pods waiting: stalled, see atZero;
//  4. pods are missing or too many, or are to be deleted;
//  5. pods cannot be moved at all, or have begun and cannot go on: stalled. So is a set with
//     everything else behind such pods;
//  6. pods are where they should be, see podset.Settled.
//
// Trouble of single pods comes first in the message, and can stall the set: see
// podset.Progress.WithTroubles. Failed pods are no part of the set any more, but their causes are:
// their replacements may meet the same.
func progressOf(
	spec *Spec, s *podset.Snapshot, failed []podset.Pod, counts podset.Counts, plan planning.Plan, outcome planning.Outcome,
) podset.Progress {
	if stopped, ok := podset.Stopped(&spec.Spec, s, &plan, outcome); ok {
		return stopped
	}
	pods := s.Pods
	if len(failed) > 0 {
		pods = slices.Concat(failed, s.Pods)
	}
	progress := progressOfPods(spec, s, counts, plan).BehindBlocked(&plan, s.Pods, podset.ReasonBackOff, noteClaimsReturning, noteNoFreshSlot)
	return progress.WithTroubles(&plan, pods)
}

// failed are the failed pods at the update revision.
func failed(s *podset.Snapshot) []podset.Pod {
	var pods []podset.Pod
	for i := range s.Pods {
		if pod := &s.Pods[i]; !pod.Terminating && pod.Object.Status.Phase == corev1.PodFailed && pod.Revision == s.Update.Name {
			pods = append(pods, *pod)
		}
	}
	return pods
}

func progressOfPods(spec *Spec, s *podset.Snapshot, counts podset.Counts, plan planning.Plan) podset.Progress {
	blocked, isBlocked := podset.Blocked(&plan)
	zero, isAtZero := atZero(spec, s, counts, &plan)
	moving := podset.Moves(&plan, s.Pods, podset.ReasonOutdated)
	if !isAtZero && !spec.OnDelete && !spec.Paused {
		moving = moving || len(s.Pods)-int(counts.Updated) > spec.Partition && int(counts.Updated) < spec.Replicas-spec.Partition
	}
	switch {
	case moving:
		return podset.Reconciling(appsv1beta1.ReasonRollingOut, plan.HeldMessages(fmt.Sprintf("Pods are moving to revision %s.", s.Update.Name)))
	case isAtZero:
		return podset.Stalled(appsv1beta1.ReasonMaxUnavailableZero, zero.Message)
	case len(s.Pods) != spec.Replicas:
		return podset.Reconciling(appsv1beta1.ReasonScaling, plan.HeldMessages(podset.Of(len(s.Pods), spec.Replicas, "pod exists.", "pods exist.")))
	case slices.ContainsFunc(s.Pods, func(pod podset.Pod) bool { return specified(&pod) || preparingDelete(&pod) }):
		return podset.Reconciling(appsv1beta1.ReasonRollingOut, plan.HeldMessages("Pods are being replaced."))
	case isBlocked:
		return blocked
	}
	return podset.Settled(&plan, int(counts.Available), spec.Replicas)
}

// atZero is the note about pods under a limit of no pods. No pod can ever free it: their user has
// to raise it. Admission refuses maxUnavailable 0 without a surge only for sets with replicas, and
// kubectl scale can add them later. A paused set has no surge.
func atZero(spec *Spec, s *podset.Snapshot, counts podset.Counts, plan *planning.Plan) (planning.Note, bool) {
	if spec.MaxUnavailable+spec.MaxSurge == 0 && len(s.Pods) <= spec.Replicas {
		if note, ok := plan.HeldFor(podset.ReasonMaxUnavailable); ok {
			return note, true
		}
	}
	switch {
	case spec.ScaleMaxUnavailable > 0:
		return planning.Note{}, false
	case int(counts.Available) >= spec.Replicas: // otherwise those that are not may free maxUnavailable
		return plan.HeldFor(noteScaleUpLimited, podset.ReasonMaxUnavailable)
	default:
		return plan.HeldFor(noteScaleUpLimited)
	}
}

// setFailures adds the two conditions about failures, while there are any.
func setFailures(list *conditions.List, s *podset.Snapshot, plan *planning.Plan, outcome planning.Outcome) {
	scale, update := podset.Failures(plan, outcome, func(verb string, failure planning.Failure) string {
		return fmt.Sprintf("%s the pod or claims with instance ID %s: %s", verb, failure.Slot, failure.Message)
	})
	if scale != "" {
		list.Set(conditions.New(appsv1beta1.CloneSetFailedScale, true, appsv1beta1.ReasonRequestFailed, scale))
	}
	list.SetIf(podset.FailedUpdate(appsv1beta1.CloneSetFailedUpdate, s.Unrecorded, update, plan))
}
