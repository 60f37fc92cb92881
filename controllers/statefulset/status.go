// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package statefulset

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

// Status is the whole status after a pass: what the snapshot shows, what the plan holds back and what the outcome says went
// wrong. It is about the pods as they were observed; what the plan did to them shows in the next pass.
//
// found are conditions that the caller knows of, such as a template that the server refuses; they win over what Status finds.
// When one of them says Stalled, the set is not said to be reconciling.
func Status(set *appsv1beta1.StatefulSet, s podset.Snapshot, plan podset.Plan, outcome podset.Outcome, o Options, found ...appsv1.StatefulSetCondition) appsv1beta1.StatefulSetStatus {
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
	c.progress(progressOf(set, w, err, &s, counts, plan), found)
	c.availability(w, counts)
	for _, condition := range found {
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

// announcements are the events about what a status says for the first time, or about another spec than before: pods or claims that
// cannot follow their template, and a spec that cannot be read. What requests failed has its events from whoever sent them.
func announcements(set *appsv1beta1.StatefulSet, after appsv1beta1.StatefulSetStatus) []podset.Event {
	var events []podset.Event
	for _, condition := range after.Conditions {
		var event string
		switch {
		case condition.Status != corev1.ConditionTrue:
		case condition.Type == appsv1beta1.StatefulSetStalled && condition.Reason == appsv1beta1.ReasonInvalidSpec:
			event = appsv1beta1.ReasonInvalidSpec
		case condition.Type == appsv1beta1.StatefulSetTemplateInvalid:
			event = appsv1beta1.ReasonInvalidTemplate
		case condition.Type != appsv1beta1.StatefulSetFailedUpdatePod:
		case condition.Reason == appsv1beta1.ReasonClaimsCannotFollow:
			event = "FailedUpdatePVC"
		case condition.Reason == appsv1beta1.ReasonInPlaceBlocked, condition.Reason == appsv1beta1.ReasonInPlaceImpossible:
			event = "FailedUpdatePodInPlace"
		}
		known := slices.ContainsFunc(set.Status.Conditions, func(old appsv1.StatefulSetCondition) bool {
			return old.Type == condition.Type && old.Status == condition.Status && old.Reason == condition.Reason
		})
		if event != "" && (!known || set.Status.ObservedGeneration != after.ObservedGeneration) {
			events = append(events, podset.Event{Warning: true, Reason: event, Message: condition.Message})
		}
	}
	return events
}

// progress is what the set is at, in one word and one sentence.
type progress struct {
	reconciling, stalled bool
	reason, message      string
}

// progressOf says what the set is at, the first that holds:
//
//  1. it is being deleted;
//  2. the spec cannot be read: stalled;
//  3. pods are missing or surplus;
//  4. pods are being moved;
//  5. pods cannot be moved at all, or have begun to move and cannot go on: stalled;
//  6. pods are where they should be, but not available;
//  7. nothing is left that may move now: paused, OnDelete, the partition;
//  8. everything is done.
func progressOf(set *appsv1beta1.StatefulSet, w wanted, invalid error, s *podset.Snapshot, counts podset.Counts, plan podset.Plan) progress {
	if set.DeletionTimestamp != nil {
		return progress{reconciling: true, reason: appsv1beta1.ReasonDeleting, message: "The set is being deleted, and its pods with it."}
	}
	if invalid != nil {
		return progress{stalled: true, reason: appsv1beta1.ReasonInvalidSpec, message: invalid.Error()}
	}
	if note, ok := plan.HeldFor(noteInvalidSpec); ok {
		return progress{stalled: true, reason: appsv1beta1.ReasonInvalidSpec, message: note.Message}
	}

	surplus := 0
	for i := range s.Pods {
		if s.Pods[i].Doom == podset.DoomSurplus {
			surplus++
		}
	}
	moving := plan.Moves(s.Pods, reasonOutdated, reasonSpecifiedDelete, reasonClaimGrow)
	blocked, isBlocked := plan.HeldFor(podset.ReasonInPlaceBlocked)
	if _, ok := plan.HeldFor(noteClaimGrowing); ok {
		moving = true
	}
	if _, ok := plan.HeldFor(noteMaxUnavailable); ok && !isBlocked {
		moving = true
	}
	switch {
	case surplus > 0 || len(s.Pods) < w.replicas:
		return progress{reconciling: true, reason: appsv1beta1.ReasonScaling,
			message: plan.HeldMessages(fmt.Sprintf("%d of %d pods exist; %d are to be removed.", len(s.Pods)-surplus, w.replicas, surplus))}
	case moving:
		return progress{reconciling: true, reason: appsv1beta1.ReasonRollingOut,
			message: plan.HeldMessages(fmt.Sprintf("Pods are moving to revision %s.", s.Update.Name))}
	}
	if isBlocked {
		return progress{stalled: true, reason: appsv1beta1.ReasonInPlaceBlocked, message: blocked.Message}
	}
	if note, ok := plan.HeldFor(podset.ReasonInPlaceImpossible); ok {
		return progress{stalled: true, reason: appsv1beta1.ReasonInPlaceImpossible, message: note.Message}
	}
	if note, ok := plan.HeldFor(noteClaimDiffers, noteClaimNotExpandable); ok {
		return progress{stalled: true, reason: appsv1beta1.ReasonClaimsCannotFollow, message: note.Message}
	}
	if int(counts.Available) < w.replicas {
		return progress{reconciling: true, reason: appsv1beta1.ReasonPodsNotAvailable,
			message: plan.HeldMessages(fmt.Sprintf("%d of %d pods are available.", counts.Available, w.replicas))}
	}
	if note, ok := plan.HeldFor(notePaused, noteOnDelete, notePartition); ok {
		return progress{reason: restReason(note), message: note.Message}
	}
	return progress{reason: appsv1beta1.ReasonComplete, message: "Every pod is at the update revision and available."}
}

// restReason is why a set rests although not all pods are at the update revision.
func restReason(note podset.Note) string {
	switch note.Reason {
	case notePaused:
		return appsv1beta1.ReasonPaused
	case noteOnDelete:
		return appsv1beta1.ReasonOnDelete
	default:
		return appsv1beta1.ReasonPartitionReached
	}
}

// conditions builds the list of a status. A condition keeps its transition time while its status stays.
type conditions struct {
	before, after []appsv1.StatefulSetCondition
	now           metav1.Time
}

func (c *conditions) set(condition appsv1.StatefulSetCondition) {
	condition.LastTransitionTime = c.now
	for _, old := range c.before {
		if old.Type == condition.Type && old.Status == condition.Status && !old.LastTransitionTime.IsZero() {
			condition.LastTransitionTime = old.LastTransitionTime
		}
	}
	for i := range c.after {
		if c.after[i].Type == condition.Type {
			c.after[i] = condition
			return
		}
	}
	c.after = append(c.after, condition)
}

func (c *conditions) add(kind appsv1.StatefulSetConditionType, is bool, reason, message string) {
	status := corev1.ConditionFalse
	if is {
		status = corev1.ConditionTrue
	}
	c.set(appsv1.StatefulSetCondition{Type: kind, Status: status, Reason: reason, Message: message})
}

// failures are the two conditions that are present only while something fails.
func (c *conditions) failures(plan podset.Plan, outcome podset.Outcome) {
	if failure, ok := outcome.Failed(podset.VerbCreate, podset.VerbCreateClaim); ok {
		c.add(appsv1beta1.StatefulSetFailedCreatePod, true, appsv1beta1.ReasonRequestFailed, failureMessage("creating", failure))
	}
	if failure, ok := outcome.Failed(podset.VerbEdit, podset.VerbDelete, podset.VerbEditClaim); ok {
		c.add(appsv1beta1.StatefulSetFailedUpdatePod, true, appsv1beta1.ReasonRequestFailed, failureMessage("changing", failure))
	} else if note, ok := plan.HeldFor(podset.ReasonInPlaceBlocked); ok {
		c.add(appsv1beta1.StatefulSetFailedUpdatePod, true, appsv1beta1.ReasonInPlaceBlocked, note.Message)
	} else if note, ok := plan.HeldFor(podset.ReasonInPlaceImpossible); ok {
		c.add(appsv1beta1.StatefulSetFailedUpdatePod, true, appsv1beta1.ReasonInPlaceImpossible, note.Message)
	} else if note, ok := plan.HeldFor(noteClaimDiffers, noteClaimNotExpandable); ok {
		c.add(appsv1beta1.StatefulSetFailedUpdatePod, true, appsv1beta1.ReasonClaimsCannotFollow, note.Message)
	}
}

func failureMessage(verb string, failure podset.Failure) string {
	return fmt.Sprintf("%s the pod with ordinal %s: %s", verb, failure.Slot, failure.Message)
}

// ignoredFields names what the spec asks for and no feature gate allows.
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
	for _, field := range preDownloadFields(set) {
		if !o.PreDownloadImages {
			ignore(field, "PreDownloadImageForInPlaceUpdate")
			continue
		}
		reason = appsv1beta1.ReasonNotSupported
		ignored = append(ignored, field+" is ignored because this version does not pull images ahead of an update")
	}
	if len(ignored) > 0 {
		c.add(appsv1beta1.StatefulSetFieldsIgnored, true, reason, strings.Join(ignored, "; "))
	}
}

// preDownloadFields names what the set says about pulling images ahead of an update.
func preDownloadFields(set *appsv1beta1.StatefulSet) []string {
	var fields []string
	for _, key := range []string{
		shared.AnnotationPreDownloadParallelism, shared.AnnotationPreDownloadTimeoutSeconds, shared.AnnotationPreDownloadMinUpdatedReadyPods,
	} {
		if _, ok := set.Annotations[key]; ok {
			fields = append(fields, "annotation "+key)
		}
	}
	if rolling := set.Spec.UpdateStrategy.RollingUpdate; rolling != nil && rolling.InPlaceUpdateStrategy != nil {
		if s := rolling.InPlaceUpdateStrategy; s.ImagePreDownloadParallelism != nil || s.ImagePreDownloadTimeoutSeconds != nil || s.ImagePreDownloadMinUpdatedReadyPods != nil {
			fields = append(fields, "spec.updateStrategy.rollingUpdate.inPlaceUpdateStrategy.imagePreDownload*")
		}
	}
	return fields
}

// progress sets Progressing, Reconciling and Stalled. The last two are never True at the same time: tools believe the first
// that they find.
func (c *conditions) progress(p progress, found []appsv1.StatefulSetCondition) {
	for _, condition := range found {
		if condition.Type == appsv1beta1.StatefulSetStalled && condition.Status == corev1.ConditionTrue {
			p = progress{stalled: true, reason: condition.Reason, message: condition.Message}
		}
	}
	c.add(appsv1beta1.StatefulSetProgressing, p.reconciling, p.reason, p.message)
	c.add(appsv1beta1.StatefulSetReconciling, p.reconciling, p.reason, p.message)
	if p.stalled {
		c.add(appsv1beta1.StatefulSetStalled, true, p.reason, p.message)
		return
	}
	c.add(appsv1beta1.StatefulSetStalled, false, appsv1beta1.ReasonNotStalled, "Nothing needs the user.")
}

func (c *conditions) availability(w wanted, counts podset.Counts) {
	need := max(w.replicas-w.maxUnavailable, min(w.replicas, 1))
	if int(counts.Available) >= need {
		c.add(appsv1beta1.StatefulSetAvailable, true, appsv1beta1.ReasonEnoughAvailable, fmt.Sprintf("At least %d of %d pods are available.", need, w.replicas))
		return
	}
	c.add(appsv1beta1.StatefulSetAvailable, false, appsv1beta1.ReasonTooFewAvailable, fmt.Sprintf("Fewer than %d of %d pods are available.", need, w.replicas))
}
