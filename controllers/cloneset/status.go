// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package cloneset

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	pulls "github.com/kruise-operator/kruise-operator/internal/engine/image"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

// Status is the whole status after a pass: what the snapshot shows, what the plan holds back and what the outcome says went
// wrong. It is about the pods as they were observed; what the plan did to them shows in the next pass. recheck is when the progress
// deadline would pass, zero if it does not run. also are conditions about what does not concern the pods.
func Status(set *appsv1beta1.CloneSet, s podset.Snapshot, plan podset.Plan, outcome podset.Outcome, o Options, also ...podset.Condition) (status appsv1beta1.CloneSetStatus, recheck time.Duration) {
	w, err := read(set, o)
	counted := countedOf(s)
	counts := podset.Tally(&counted)
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
		CollisionCount:           ptr.To(ptr.Deref(set.Status.CollisionCount, 0)),
		LabelSelector:            metav1.FormatLabelSelector(set.Spec.Selector),
	}
	if err == nil {
		status.ExpectedUpdatedReplicas = int32(w.replicas - w.partition)
		if rolledOut(counts, w.replicas) {
			status.CurrentRevision = status.UpdateRevision
		}
	}

	c := conditions{before: set.Status.Conditions, now: metav1.NewTime(s.Now.UTC().Truncate(time.Second))}
	c.failures(plan, outcome)
	c.ignoredFields(set, o)
	if err == nil {
		recheck = c.deadline(set, w, &status)
	} else if old, ok := c.earlier(appsv1beta1.CloneSetProgressing); ok && hasDeadline(set) {
		c.after = append(c.after, old)
	}
	for _, condition := range progressOf(set, w, err, &counted, counts, plan, outcome).Conditions() {
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
	return status, recheck
}

// countedOf is the snapshot without the pods that count for nothing.
func countedOf(s podset.Snapshot) podset.Snapshot {
	counted := s
	counted.Pods = nil
	for i := range s.Pods {
		if counts(&s.Pods[i]) {
			counted.Pods = append(counted.Pods, s.Pods[i])
		}
	}
	return counted
}

// rolledOut says that all pods are at the update revision. That all replicas exist is part of it: a set that is scaled in the middle of a
// canary must not forget the revision that the partition keeps.
func rolledOut(counts podset.Counts, replicas int) bool {
	return counts.Updated == counts.Replicas && int(counts.Replicas) == replicas
}

// announcements are the events about what a pass says for the first time, or about another spec than before, and about pods that
// scaleStrategy.maxUnavailable keeps from being created. before is the plan of the pass before, if it is known.
func announcements(set *appsv1beta1.CloneSet, after appsv1beta1.CloneSetStatus, before, plan podset.Plan) []podset.Event {
	events := podset.Announcements(neutral(set.Status.Conditions), neutral(after.Conditions),
		set.Status.ObservedGeneration != after.ObservedGeneration, appsv1beta1.CloneSetFailedUpdate)
	if note, limited := plan.HeldFor(noteScaleUpLimited); limited {
		if _, known := before.HeldFor(noteScaleUpLimited); !known {
			events = append(events, podset.Event{Warning: true, Reason: noteScaleUpLimited, Message: note.Message})
		}
	}
	return events
}

func neutral(conditions []appsv1beta1.CloneSetCondition) []podset.Condition {
	out := make([]podset.Condition, len(conditions))
	for i, c := range conditions {
		out[i] = podset.Condition{Type: string(c.Type), Status: c.Status, Reason: c.Reason, Message: c.Message}
	}
	return out
}

// progressOf says what the set is at, the first that holds:
//
//  1. its pods say nothing about it, see podset.Stopped;
//  2. pods are being moved, or may be moved next, which can add pods and take some away;
//  3. pods are missing or too many, or are to be deleted;
//  4. pods cannot be moved at all, or have begun to move and cannot go on: stalled;
//  5. pods are where they should be, see podset.Settled.
func progressOf(set *appsv1beta1.CloneSet, w wanted, invalid error, s *podset.Snapshot, counts podset.Counts, plan podset.Plan, outcome podset.Outcome) podset.Progress {
	if stopped, ok := podset.Stopped(set.DeletionTimestamp != nil, invalid, s, &plan, outcome); ok {
		return stopped
	}
	blocked, isBlocked := podset.Blocked(&plan)
	moving := plan.Moves(s.Pods, reasonOutdated)
	if !isBlocked && !w.onDelete && !w.paused {
		moving = moving || len(s.Pods)-int(counts.Updated) > w.partition && int(counts.Updated) < w.replicas-w.partition
	}
	switch {
	case moving:
		return podset.Progress{Reconciling: true, Reason: appsv1beta1.ReasonRollingOut,
			Message: plan.HeldMessages(fmt.Sprintf("Pods are moving to revision %s.", s.Update.Name))}
	case len(s.Pods) != w.replicas:
		return podset.Progress{Reconciling: true, Reason: appsv1beta1.ReasonScaling,
			Message: plan.HeldMessages(fmt.Sprintf("%d of %d pods exist.", len(s.Pods), w.replicas))}
	case slices.ContainsFunc(s.Pods, func(pod podset.Pod) bool { return specified(&pod) || parked(&pod) }):
		return podset.Progress{Reconciling: true, Reason: appsv1beta1.ReasonRollingOut, Message: plan.HeldMessages("Pods are being replaced.")}
	case isBlocked:
		return blocked
	}
	return podset.Settled(&plan, int(counts.Available), w.replicas)
}

// conditions builds the list of a status. A condition keeps its transition time while its status stays, and its update time while
// nothing of it changes.
type conditions struct {
	before, after []appsv1beta1.CloneSetCondition
	now           metav1.Time
}

func (c *conditions) earlier(kind appsv1beta1.CloneSetConditionType) (appsv1beta1.CloneSetCondition, bool) {
	for _, old := range c.before {
		if old.Type == kind {
			return old, true
		}
	}
	return appsv1beta1.CloneSetCondition{}, false
}

func (c *conditions) set(now podset.Condition) {
	c.put(appsv1beta1.CloneSetCondition{
		Type: appsv1beta1.CloneSetConditionType(now.Type), Status: now.Status, Reason: now.Reason, Message: now.Message,
	})
}

// put fills in the times that the condition does not have.
func (c *conditions) put(condition appsv1beta1.CloneSetCondition) {
	old, known := c.earlier(condition.Type)
	if condition.LastTransitionTime = c.now; known && old.Status == condition.Status && !old.LastTransitionTime.IsZero() {
		condition.LastTransitionTime = old.LastTransitionTime
	}
	if condition.LastUpdateTime.IsZero() {
		condition.LastUpdateTime = c.now
		if known && old.Status == condition.Status && old.Reason == condition.Reason && old.Message == condition.Message && !old.LastUpdateTime.IsZero() {
			condition.LastUpdateTime = old.LastUpdateTime
		}
	}
	c.after = append(c.after, condition)
}

// failing adds a condition that is present only while it is True.
func (c *conditions) failing(kind appsv1beta1.CloneSetConditionType, reason, message string) {
	c.set(podset.NewCondition(kind, true, reason, message))
}

// failures are the two conditions that are present only while something fails. A pod that is deleted to be replaced at another
// revision counts as an update.
func (c *conditions) failures(plan podset.Plan, outcome podset.Outcome) {
	updates := map[podset.Slot]bool{}
	for _, action := range plan.Actions {
		if action.Verb == podset.VerbDelete && action.Reason == reasonOutdated {
			updates[action.Slot] = true
		}
	}
	var scale, update *podset.Failure
	for i := range outcome.Failures {
		failure := &outcome.Failures[i]
		isUpdate := failure.Verb == podset.VerbEdit || failure.Verb == podset.VerbDelete && updates[failure.Slot]
		switch {
		case isUpdate && update == nil:
			update = failure
		case !isUpdate && scale == nil:
			scale = failure
		}
	}
	if scale != nil {
		verb := "deleting"
		if scale.Verb == podset.VerbCreate {
			verb = "creating"
		}
		c.failing(appsv1beta1.CloneSetFailedScale, appsv1beta1.ReasonRequestFailed, failureMessage(verb, *scale))
	}
	if update != nil {
		c.failing(appsv1beta1.CloneSetFailedUpdate, appsv1beta1.ReasonRequestFailed, failureMessage("changing", *update))
	} else if note, ok := plan.HeldFor(podset.ReasonInPlaceBlocked); ok {
		c.failing(appsv1beta1.CloneSetFailedUpdate, appsv1beta1.ReasonInPlaceBlocked, note.Message)
	} else if note, ok := plan.HeldFor(podset.ReasonInPlaceImpossible); ok {
		c.failing(appsv1beta1.CloneSetFailedUpdate, appsv1beta1.ReasonInPlaceImpossible, note.Message)
	}
}

func failureMessage(verb string, failure podset.Failure) string {
	return fmt.Sprintf("%s the pod or claims with instance ID %s: %s", verb, failure.Slot, failure.Message)
}

// ignoredFields names what the set asks for and no feature gate allows, or cannot be read and can be done without.
func (c *conditions) ignoredFields(set *appsv1beta1.CloneSet, o Options) {
	if o.PreDownloadImages {
		if _, faults := pulls.ReadSettings(inPlaceStrategy(set), set.Annotations, max(ptr.Deref(set.Spec.Replicas, 1), 0)); len(faults) > 0 {
			c.failing(appsv1beta1.CloneSetFieldsIgnored, appsv1beta1.ReasonUnreadable, strings.Join(faults, "; "))
		}
		return
	}
	var ignored []string
	for _, field := range pulls.Said(inPlaceStrategy(set), set.Annotations) {
		ignored = append(ignored, field+" is ignored because feature gate PreDownloadImageForInPlaceUpdate is off")
	}
	if len(ignored) > 0 {
		c.failing(appsv1beta1.CloneSetFieldsIgnored, appsv1beta1.ReasonFeatureGateOff, strings.Join(ignored, "; "))
	}
}

// hasDeadline says that the user wants to hear when a rollout makes no progress.
func hasDeadline(set *appsv1beta1.CloneSet) bool {
	seconds := set.Spec.ProgressDeadlineSeconds
	return seconds != nil && *seconds != math.MaxInt32
}

// deadline sets Progressing, if the user gave a deadline, and says when it will pass. The first that holds:
//
//  1. everything is at the update revision and available;
//  2. updates are paused;
//  3. what the partition lets move is;
//  4. the deadline has passed since the last progress: more updated pods, more of them available, or another update revision. It stays
//     so until there is progress again;
//  5. the rollout goes on.
func (c *conditions) deadline(set *appsv1beta1.CloneSet, w wanted, status *appsv1beta1.CloneSetStatus) time.Duration {
	if !hasDeadline(set) {
		return 0
	}
	replicas := int32(w.replicas)
	condition := appsv1beta1.CloneSetCondition{Type: appsv1beta1.CloneSetProgressing, Status: corev1.ConditionTrue}
	switch {
	case status.CurrentRevision == status.UpdateRevision && status.Replicas == replicas &&
		status.UpdatedReplicas == replicas && status.UpdatedAvailableReplicas == replicas:
		condition.Reason, condition.Message = appsv1beta1.ReasonCloneSetAvailable, "CloneSet is available"
	case w.paused:
		condition.Reason, condition.Message = appsv1beta1.ReasonCloneSetPaused, "CloneSet is paused"
	case status.ExpectedUpdatedReplicas < replicas && status.ExpectedUpdatedReplicas <= status.UpdatedAvailableReplicas:
		condition.Reason, condition.Message = appsv1beta1.ReasonProgressPartitionAvailable, "CloneSet has been paused due to partition ready"
	default:
		return c.running(set, status, condition)
	}
	c.put(condition)
	return 0
}

// running is the last two cases of deadline.
func (c *conditions) running(set *appsv1beta1.CloneSet, status *appsv1beta1.CloneSetStatus, condition appsv1beta1.CloneSetCondition) time.Duration {
	limit := time.Duration(*set.Spec.ProgressDeadlineSeconds) * time.Second
	old, known := c.earlier(appsv1beta1.CloneSetProgressing)
	runs := known && (old.Reason == appsv1beta1.ReasonCloneSetUpdated || old.Reason == appsv1beta1.ReasonProgressDeadlineExceeded)
	before := &set.Status
	progressed := before.UpdateRevision != status.UpdateRevision ||
		before.UpdatedReplicas < status.UpdatedReplicas ||
		before.UpdatedReadyReplicas < status.UpdatedReadyReplicas ||
		before.UpdatedAvailableReplicas < status.UpdatedAvailableReplicas
	condition.LastUpdateTime = c.now
	if runs && !progressed && !old.LastUpdateTime.IsZero() {
		condition.LastUpdateTime = old.LastUpdateTime
	}
	left := condition.LastUpdateTime.Add(limit).Sub(c.now.Time)
	if exceeded := runs && old.Reason == appsv1beta1.ReasonProgressDeadlineExceeded && !progressed; exceeded || left < 0 {
		condition.Status = corev1.ConditionFalse
		condition.Reason = appsv1beta1.ReasonProgressDeadlineExceeded
		condition.Message = fmt.Sprintf("CloneSet revision %s has timed out progressing", status.UpdateRevision)
		c.put(condition)
		return 0
	}
	condition.Reason, condition.Message = appsv1beta1.ReasonCloneSetUpdated, "CloneSet is progressing"
	c.put(condition)
	return left + time.Second
}
