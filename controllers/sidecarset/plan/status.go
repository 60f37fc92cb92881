// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"math"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/inplace"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

// Injection is the state of injection into new pods.
type Injection struct {
	// Condition says it in full, Without which pods lack the sidecars. Each may have no type: nothing is to be said.
	Condition, Without conditions.Condition
	// Fault explains missing injection; empty: none is missing, none is due, or it is unknown.
	Fault string
	// Stalled: the fault will not pass by itself.
	Stalled bool
	// Pending: for some seconds, new pods may get the former sidecars.
	Pending bool
}

// Status is the whole status after a pass: the snapshot, the plan's obstacles
// and the outcome's failures. It shows the pods as observed, before the plan.
func Status(spec *Spec, s Snapshot, plan planning.Plan, outcome planning.Outcome, injection Injection) appsv1beta1.SidecarSetStatus {
	set := spec.Set
	status := appsv1beta1.SidecarSetStatus{
		ObservedGeneration: set.Generation, LatestRevision: s.Update.Name, CollisionCount: ptr.To(ptr.Deref(set.Status.CollisionCount, 0)),
	}
	if injection.Pending {
		status.ObservedGeneration = set.Status.ObservedGeneration
	}
	if spec.Invalid != nil {
		before := set.Status
		status.MatchedPods, status.UpdatedPods, status.ReadyPods, status.UpdatedReadyPods = before.MatchedPods, before.UpdatedPods, before.ReadyPods, before.UpdatedReadyPods
	}
	for i := range s.Pods {
		pod := &s.Pods[i]
		status.MatchedPods++
		if pod.Available {
			status.ReadyPods++
		}
		if pod.Updated {
			status.UpdatedPods++
		}
		if pod.Updated && pod.Available {
			status.UpdatedReadyPods++
		}
	}
	list := conditions.NewList(Conditions(&set.Status), s.Now)
	list.SetIf(failedUpdate(&s, &plan, outcome))
	list.Set(withInjection(progressOf(spec, &s, &plan).WithRefusals(list), spec, injection)...)
	if note, ok := plan.HeldFor(noteNotUpgradable); ok {
		list.Set(conditions.New(appsv1beta1.SidecarSetNotUpgradablePods, true, appsv1beta1.ReasonMoreThanImages, note.Message+": "+podset.List(slotNames(note))))
	}
	list.SetIf(fieldsIgnored(spec, &s))
	list.SetIf(injection.Condition, injection.Condition.Type != "")
	list.SetIf(injection.Without, injection.Without.Type != "")
	status.Conditions = conditions.To[metav1.Condition](list)
	return status
}

// Conditions returns a status's conditions.
func Conditions(status *appsv1beta1.SidecarSetStatus) []conditions.Condition {
	return conditions.From(status.Conditions)
}

// Events reports conditions new, or new for this spec.
func Events(spec *Spec, after appsv1beta1.SidecarSetStatus) []planning.Event {
	before := &spec.Set.Status
	otherSpec := before.ObservedGeneration != after.ObservedGeneration
	events := podset.ConditionEvents(Conditions(before), Conditions(&after), otherSpec, appsv1beta1.SidecarSetFailedUpdate)
	if c, ok := conditions.Find(Conditions(&after), appsv1beta1.SidecarSetStalled); ok && c.Reason == appsv1beta1.ReasonNotInjected &&
		(otherSpec || !conditions.Contains(Conditions(before), c)) {
		events = append(events, planning.Event{Warning: true, Reason: "InjectionFailed", Message: c.Message})
	}
	for _, kind := range []appsv1beta1.SidecarSetConditionType{appsv1beta1.SidecarSetNotUpgradablePods, appsv1beta1.SidecarSetPodsWithoutSidecar} {
		if c, ok := conditions.Find(Conditions(&after), kind); ok && (otherSpec || !conditions.Contains(Conditions(before), c)) {
			events = append(events, planning.Event{Warning: true, Reason: string(kind), Message: c.Message})
		}
	}
	return events
}

func slotNames(note planning.Note) []string {
	names := make([]string, len(note.Slots))
	for i, slot := range note.Slots {
		names[i] = string(slot)
	}
	return names
}

// failedUpdate explains pods not updatable; false: none. A refused pod waiting for others still counts.
func failedUpdate(s *Snapshot, plan *planning.Plan, outcome planning.Outcome) (conditions.Condition, bool) {
	refused := ""
	refuse := func(slot planning.Slot, message string) { refused = fmt.Sprintf("changing pod %s: %s", slot, message) }
	waits := func(pod Pod) bool { return s.Refused[pod.Slot] != "" && !pod.Updated }
	if failure, ok := outcome.Failed(podset.StepEdit); ok {
		refuse(failure.Slot, failure.Message)
	} else if i := slices.IndexFunc(s.Pods, waits); i >= 0 {
		refuse(s.Pods[i].Slot, s.Refused[s.Pods[i].Slot])
	}
	return podset.FailedUpdate(appsv1beta1.SidecarSetFailedUpdate, s.Unrecorded, refused, plan)
}

// fieldsIgnored counts the pods with former fields. Pods not upgradable have a condition of their own.
func fieldsIgnored(spec *Spec, s *Snapshot) (conditions.Condition, bool) {
	var ignored conditions.Ignored
	if spec.NotUpdate || spec.Deleting || spec.Set.Spec.InjectionStrategy.Revision != nil { // The user wants former fields.
		return conditions.Condition{}, false
	}
	count, example := map[string]int{}, map[string]planning.Slot{}
	for i := range s.Pods {
		if pod := &s.Pods[i]; pod.Keeps != "" && (pod.Updated || pod.Upgradable) {
			count[pod.Keeps]++
			example[pod.Keeps] = pod.Slot
		}
	}
	for _, fields := range slices.Sorted(maps.Keys(count)) {
		ignored.NoEffect = append(ignored.NoEffect, fmt.Sprintf("%s: %s what an earlier spec said until recreated, such as %s",
			fields, podset.Count(count[fields], "pod keeps", "pods keep"), example[fields]))
	}
	return conditions.FieldsIgnored(appsv1beta1.SidecarSetFieldsIgnored, ignored)
}

// withInjection combines the conditions of progress and injection. Pods
// in progress come first in Reconciling, needs of the user in Stalled.
func withInjection(progress podset.Progress, spec *Spec, injection Injection) []conditions.Condition {
	all := progress.Conditions()
	if injection.Fault == "" || spec.Deleting || progress.Stalled {
		return all
	}
	message := "New pods do not get the sidecars: " + injection.Fault + "."
	if !progress.Reconciling {
		return podset.Progress{
			Reconciling: !injection.Stalled, Stalled: injection.Stalled, Reason: appsv1beta1.ReasonNotInjected, Message: message,
		}.Conditions()
	}
	if injection.Stalled {
		all[1] = conditions.New(appsv1beta1.SidecarSetStalled, true, appsv1beta1.ReasonNotInjected, message)
	}
	return all
}

// progressOf describes the set's work, by the first match:
//
//  1. it is being deleted, or its spec cannot be parsed: stalled;
//  2. the server refuses to record the spec, see podset.Progress.WithRefusals;
//  3. pods get images, or wait for others;
//  4. begun updates cannot go on: stalled;
//  5. sidecars of updated pods are not ready;
//  6. pods differ in more than images: stalled, because only their owners can replace them;
//  7. the spec keeps pods at an old revision;
//  8. everything is done.
//
// Refusals of the server come first in the message (podset.Progress.WithRefusals), then troubles of single
// pods, possibly stalling (WithTroubles). A pod's other containers matter only if updates wait for them.
func progressOf(spec *Spec, s *Snapshot, plan *planning.Plan) podset.Progress {
	switch {
	case spec.Deleting:
		return podset.Reconciling(appsv1beta1.ReasonDeleting, "The set is being deleted; its pods keep their sidecars.")
	case spec.Invalid != nil:
		return podset.Progress{Stalled: true, Reason: appsv1beta1.ReasonInvalidSpec, Message: spec.Invalid.Error()}
	}
	if note, ok := plan.HeldFor(podset.ReasonInvalidSpec); ok {
		return podset.Progress{Stalled: true, Reason: appsv1beta1.ReasonInvalidSpec, Message: note.Message}
	}
	if s.Unrecorded != "" {
		return podset.Reconciling(appsv1beta1.ReasonRequestFailed, "no pod is updated until the spec is recorded.")
	}
	_, waiting := plan.HeldFor(podset.ReasonMaxUnavailable, podset.ReasonBudget)
	progress := progressOfPods(spec, s, plan, waiting)
	var concerned []podset.Pod
	for i := range s.Pods {
		pod := &s.Pods[i]
		if !pod.Spent && (!pod.Available && (!pod.Serves || waiting && pod.Updated) || pod.UnderWay()) {
			concerned = append(concerned, pod.Pod)
		}
	}
	return progress.WithTroubles(plan, concerned)
}

func progressOfPods(spec *Spec, s *Snapshot, plan *planning.Plan, waiting bool) podset.Progress {
	if waiting || moves(s, plan) {
		return podset.Reconciling(appsv1beta1.ReasonRollingOut, plan.HeldMessages(fmt.Sprintf("Pods are moving to revision %s.", s.Update.Name)))
	}
	if blocked, ok := podset.Blocked(plan); ok {
		return blocked
	}
	serving, updated := 0, 0
	for i := range s.Pods {
		if pod := &s.Pods[i]; pod.Updated && !pod.Spent {
			updated++
			if pod.Serves {
				serving++
			}
		}
	}
	if serving < updated {
		return podset.Reconciling(appsv1beta1.ReasonPodsNotAvailable, "The sidecars of "+podset.Of(serving, updated, "updated pod", "updated pods")+" are ready.")
	}
	return settled(spec, s, plan)
}

// moves reports whether pods are on their way to the present spec, or about to be.
func moves(s *Snapshot, plan *planning.Plan) bool {
	edits := func(a planning.Action) bool { return a.Reason != reasonUpgradable }
	goesOn := func(pod Pod) bool { return pod.UnderWay() && !pod.Spent && pod.Update.Progress != inplace.Blocked }
	return slices.ContainsFunc(plan.Actions, edits) || slices.ContainsFunc(s.Pods, goesOn)
}

// settled is the progress of a set with its pods in place: needs of the user come before
// what he would like. Pods not updatable need their owner, unless the partition keeps as many.
func settled(spec *Spec, s *Snapshot, plan *planning.Plan) podset.Progress {
	partition, _ := spec.partition(len(s.Pods)) // It was parsed once already.
	const never = math.MaxInt
	kept := []struct {
		note, reason string
		// stalledAbove is how many such pods the set may have without needing its user.
		stalledAbove int
	}{
		{noteNotUpgradable, appsv1beta1.ReasonMoreThanImages, partition},
		{podset.ReasonPaused, appsv1beta1.ReasonPaused, never},
		{noteNotUpdate, appsv1beta1.ReasonNotUpdate, never},
		{noteNoneAllowed, appsv1beta1.ReasonMaxUnavailableZero, 0},
		{podset.ReasonPartition, appsv1beta1.ReasonPartitionReached, never},
		{noteNotSelected, appsv1beta1.ReasonNotSelected, never},
	}
	for _, stalled := range []bool{true, false} {
		for _, kept := range kept {
			if note, ok := plan.HeldFor(kept.note); ok && len(note.Slots) > kept.stalledAbove == stalled {
				return podset.Progress{Stalled: stalled, Reason: kept.reason, Message: note.Message}
			}
		}
	}
	if len(s.Pods) == 0 {
		return podset.Progress{Reason: appsv1beta1.ReasonNoPods, Message: "No pod that the set selects has its sidecars."}
	}
	return podset.Progress{Reason: appsv1beta1.ReasonComplete, Message: "Every pod that has the sidecars has those of the present spec."}
}
