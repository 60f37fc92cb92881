// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package statefulset

import (
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	pulls "github.com/kruise-operator/kruise-operator/internal/engine/image"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

// Status is the whole status after a pass: what the snapshot shows, what the plan holds back and what the outcome says went
// wrong. It is about the pods as they were observed; what the plan did to them shows in the next pass. also are conditions about what
// does not concern the pods.
func Status(set *appsv1beta1.StatefulSet, s podset.Snapshot, plan podset.Plan, outcome podset.Outcome, o Options, also ...podset.Condition) appsv1beta1.StatefulSetStatus {
	w, err := read(set, o)
	counts := podset.Tally(&s)
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
		CollisionCount:           ptr.To(ptr.Deref(set.Status.CollisionCount, 0)),
		LabelSelector:            metav1.FormatLabelSelector(set.Spec.Selector),
		VolumeClaims:             set.Status.VolumeClaims,
	}
	if err == nil {
		status.VolumeClaims = volumeClaims(w, &s)
		if !w.onDelete && rolledOut(counts, w.replicas) {
			status.CurrentReplicas = status.UpdatedReplicas
			status.CurrentRevision = status.UpdateRevision
		}
	}

	c := conditions{before: set.Status.Conditions, now: metav1.NewTime(s.Now.UTC().Truncate(time.Second))}
	c.failures(plan, outcome)
	c.ignoredFields(set, o)
	progress := progressOf(set, w, err, &s, counts, plan, outcome)
	c.set(podset.NewCondition(appsv1beta1.StatefulSetProgressing, progress.Reconciling, progress.Reason, progress.Message))
	for _, condition := range progress.Conditions() {
		c.set(condition)
	}
	c.set(podset.Availability(int(counts.Available), w.replicas, w.maxUnavailable))
	if condition, faulty := podset.TemplateInvalid(&s); faulty {
		c.set(condition)
	}
	for _, condition := range also {
		c.set(condition)
	}
	status.Conditions = c.after
	return status
}

// rolledOut says that the whole fleet is on the update revision and ready, with no update in place under way. That all replicas exist is part of it: a fleet whose
// pods are all gone for a moment must not forget the revision that a partition keeps.
func rolledOut(counts podset.Counts, replicas int) bool {
	return counts.Updated == counts.Replicas && counts.UpdatedReady == counts.Replicas && int(counts.Replicas) == replicas
}

func volumeClaims(w wanted, s *podset.Snapshot) []appsv1beta1.VolumeClaimStatus {
	if len(w.claims.Claims) == 0 {
		return nil
	}
	names := make([]string, 0, len(s.Pods))
	for i := range s.Pods {
		if s.Pods[i].Doom != podset.DoomSurplus {
			names = append(names, s.Pods[i].Object.Name)
		}
	}
	return w.claims.Status(names, s.Claims)
}

// announcements are the events about what a status says for the first time, or about another spec than before.
func announcements(set *appsv1beta1.StatefulSet, after appsv1beta1.StatefulSetStatus) []podset.Event {
	return podset.Announcements(neutral(set.Status.Conditions), neutral(after.Conditions),
		set.Status.ObservedGeneration != after.ObservedGeneration, appsv1beta1.StatefulSetFailedUpdatePod)
}

func neutral(conditions []appsv1.StatefulSetCondition) []podset.Condition {
	out := make([]podset.Condition, len(conditions))
	for i, c := range conditions {
		out[i] = podset.Condition{Type: string(c.Type), Status: c.Status, Reason: c.Reason, Message: c.Message}
	}
	return out
}

// progressOf says what the set is at, the first that holds:
//
//  1. its pods say nothing about it, see podset.Stopped;
//  2. pods are missing or surplus;
//  3. pods are being moved;
//  4. pods cannot be moved at all, or have begun to move and cannot go on: stalled;
//  5. pods are where they should be, see podset.Settled.
func progressOf(set *appsv1beta1.StatefulSet, w wanted, invalid error, s *podset.Snapshot, counts podset.Counts, plan podset.Plan, outcome podset.Outcome) podset.Progress {
	if stopped, ok := podset.Stopped(set.DeletionTimestamp != nil, invalid, s, &plan, outcome); ok {
		return stopped
	}
	surplus := 0
	for i := range s.Pods {
		if s.Pods[i].Doom == podset.DoomSurplus {
			surplus++
		}
	}
	moving := plan.Moves(s.Pods, reasonOutdated, reasonSpecifiedDelete, reasonClaimGrow)
	_, isBlocked := plan.HeldFor(podset.ReasonInPlaceBlocked)
	if _, ok := plan.HeldFor(noteClaimGrowing); ok {
		moving = true
	}
	if _, ok := plan.HeldFor(noteMaxUnavailable); ok && !isBlocked {
		moving = true
	}
	switch {
	case surplus > 0 || len(s.Pods) < w.replicas:
		return podset.Progress{Reconciling: true, Reason: appsv1beta1.ReasonScaling,
			Message: plan.HeldMessages(fmt.Sprintf("%d of %d pods exist; %d are to be removed.", len(s.Pods)-surplus, w.replicas, surplus))}
	case moving:
		return podset.Progress{Reconciling: true, Reason: appsv1beta1.ReasonRollingOut,
			Message: plan.HeldMessages(fmt.Sprintf("Pods are moving to revision %s.", s.Update.Name))}
	}
	if blocked, ok := podset.Blocked(&plan); ok {
		return blocked
	}
	if note, ok := plan.HeldFor(noteClaimDiffers, noteClaimNotExpandable); ok {
		return podset.Progress{Stalled: true, Reason: appsv1beta1.ReasonClaimsCannotFollow, Message: note.Message}
	}
	return podset.Settled(&plan, int(counts.Available), w.replicas)
}

// conditions builds the list of a status. A condition keeps its transition time while its status stays.
type conditions struct {
	before, after []appsv1.StatefulSetCondition
	now           metav1.Time
}

func (c *conditions) set(now podset.Condition) {
	condition := appsv1.StatefulSetCondition{
		Type: appsv1.StatefulSetConditionType(now.Type), Status: now.Status, Reason: now.Reason, Message: now.Message, LastTransitionTime: c.now,
	}
	for _, old := range c.before {
		if old.Type == condition.Type && old.Status == condition.Status && !old.LastTransitionTime.IsZero() {
			condition.LastTransitionTime = old.LastTransitionTime
		}
	}
	c.after = append(c.after, condition)
}

// failing adds a condition that is present only while it is True.
func (c *conditions) failing(kind appsv1.StatefulSetConditionType, reason, message string) {
	c.set(podset.NewCondition(kind, true, reason, message))
}

// failures are the two conditions that are present only while something fails.
func (c *conditions) failures(plan podset.Plan, outcome podset.Outcome) {
	if failure, ok := outcome.Failed(podset.VerbCreate, podset.VerbCreateClaim); ok {
		c.failing(appsv1beta1.StatefulSetFailedCreatePod, appsv1beta1.ReasonRequestFailed, failureMessage("creating", failure))
	}
	if failure, ok := outcome.Failed(podset.VerbEdit, podset.VerbDelete, podset.VerbEditClaim); ok {
		c.failing(appsv1beta1.StatefulSetFailedUpdatePod, appsv1beta1.ReasonRequestFailed, failureMessage("changing", failure))
	} else if note, ok := plan.HeldFor(podset.ReasonInPlaceBlocked); ok {
		c.failing(appsv1beta1.StatefulSetFailedUpdatePod, appsv1beta1.ReasonInPlaceBlocked, note.Message)
	} else if note, ok := plan.HeldFor(podset.ReasonInPlaceImpossible); ok {
		c.failing(appsv1beta1.StatefulSetFailedUpdatePod, appsv1beta1.ReasonInPlaceImpossible, note.Message)
	} else if note, ok := plan.HeldFor(noteClaimDiffers, noteClaimNotExpandable); ok {
		c.failing(appsv1beta1.StatefulSetFailedUpdatePod, appsv1beta1.ReasonClaimsCannotFollow, note.Message)
	}
}

func failureMessage(verb string, failure podset.Failure) string {
	return fmt.Sprintf("%s the pod with ordinal %s: %s", verb, failure.Slot, failure.Message)
}

// ignoredFields names what the set asks for and no feature gate allows, or cannot be read and can be done without.
func (c *conditions) ignoredFields(set *appsv1beta1.StatefulSet, o Options) {
	var ignored []string
	ignore := func(field, gate string) {
		ignored = append(ignored, fmt.Sprintf("%s is ignored because feature gate %s is off", field, gate))
	}
	spec := &set.Spec
	if !o.StartOrdinal && spec.Ordinals != nil && spec.Ordinals.Start != 0 {
		ignore("spec.ordinals.start", "StatefulSetStartOrdinal")
	}
	if policy := spec.PersistentVolumeClaimRetentionPolicy; !o.AutoDeletePVC && policy != nil &&
		(policy.WhenDeleted == appsv1.DeletePersistentVolumeClaimRetentionPolicyType || policy.WhenScaled == appsv1.DeletePersistentVolumeClaimRetentionPolicyType) {
		ignore("spec.persistentVolumeClaimRetentionPolicy", "StatefulSetAutoDeletePVC")
	}
	if !o.AutoResizePVC && spec.VolumeClaimUpdateStrategy.Type == appsv1beta1.OnPodRollingUpdateVolumeClaimUpdateStrategyType {
		ignore("spec.volumeClaimUpdateStrategy.type", "StatefulSetAutoResizePVCGate")
	}
	reason := appsv1beta1.ReasonFeatureGateOff
	if o.PreDownloadImages {
		if _, faults := pulls.ReadSettings(inPlaceStrategy(set), set.Annotations, max(ptr.Deref(spec.Replicas, 1), 0)); len(faults) > 0 {
			reason = appsv1beta1.ReasonUnreadable
			ignored = append(ignored, faults...)
		}
	} else {
		for _, field := range pulls.Said(inPlaceStrategy(set), set.Annotations) {
			ignore(field, "PreDownloadImageForInPlaceUpdate")
		}
	}
	if len(ignored) > 0 {
		c.failing(appsv1beta1.StatefulSetFieldsIgnored, reason, strings.Join(ignored, "; "))
	}
}
