// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"math"
	"time"

	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
)

// setProgressing adds the condition Progressing, if the user gave a deadline, and says when it will
// pass. The first that holds:
//
//  1. the spec is not readable: the condition stays as it was;
//  2. everything is at the update revision and available;
//  3. updates are paused;
//  4. all pods beyond the partition are;
//  5. the deadline has passed since the last progress: more updated pods, more of them available,
//     or another update revision. It stays so until there is progress again;
//  6. the rollout goes on.
func setProgressing(list *conditions.List, before []conditions.Condition, spec *Spec, status *appsv1beta1.CloneSetStatus) time.Duration {
	seconds := ptr.Deref(spec.Set.Spec.ProgressDeadlineSeconds, math.MaxInt32)
	if seconds == math.MaxInt32 {
		return 0
	}
	progressing := func(reason, message string) conditions.Condition {
		return conditions.New(appsv1beta1.CloneSetProgressing, true, reason, message)
	}
	replicas := int32(spec.Replicas)
	switch {
	case spec.Invalid != nil:
		list.Keep(string(appsv1beta1.CloneSetProgressing))
	case status.CurrentRevision == status.UpdateRevision && status.Replicas == replicas &&
		status.UpdatedReplicas == replicas && status.UpdatedAvailableReplicas == replicas:
		list.Set(progressing(appsv1beta1.ReasonCloneSetAvailable, "CloneSet is available"))
	case spec.Paused:
		list.Set(progressing(appsv1beta1.ReasonCloneSetPaused, "CloneSet is paused"))
	case status.ExpectedUpdatedReplicas < replicas && status.ExpectedUpdatedReplicas <= status.UpdatedAvailableReplicas:
		list.Set(progressing(appsv1beta1.ReasonProgressPartitionAvailable, "CloneSet has been paused due to partition ready"))
	default:
		old, _ := conditions.Find(before, appsv1beta1.CloneSetProgressing)
		return setRunning(list, old, time.Duration(seconds)*time.Second, &spec.Set.Status, status)
	}
	return 0
}

// setRunning is the last two cases of setProgressing. The condition's update time is the last
// progress.
func setRunning(list *conditions.List, old conditions.Condition, limit time.Duration, before, status *appsv1beta1.CloneSetStatus) time.Duration {
	runs := old.Reason == appsv1beta1.ReasonCloneSetUpdated || old.Reason == appsv1beta1.ReasonProgressDeadlineExceeded
	progressed := before.UpdateRevision != status.UpdateRevision ||
		before.UpdatedReplicas < status.UpdatedReplicas ||
		before.UpdatedReadyReplicas < status.UpdatedReadyReplicas ||
		before.UpdatedAvailableReplicas < status.UpdatedAvailableReplicas
	last := list.Now()
	if runs && !progressed && !old.LastUpdateTime.IsZero() {
		last = old.LastUpdateTime
	}
	left := last.Add(limit).Sub(list.Now().Time)
	exceeded := runs && old.Reason == appsv1beta1.ReasonProgressDeadlineExceeded && !progressed || left < 0

	condition := conditions.New(appsv1beta1.CloneSetProgressing, true, appsv1beta1.ReasonCloneSetUpdated, "CloneSet is progressing")
	if exceeded {
		condition = conditions.New(appsv1beta1.CloneSetProgressing, false, appsv1beta1.ReasonProgressDeadlineExceeded,
			fmt.Sprintf("CloneSet revision %s has timed out progressing", status.UpdateRevision))
	}
	condition.LastUpdateTime = last
	list.Set(condition)
	if exceeded {
		return 0
	}
	return left + time.Second
}
