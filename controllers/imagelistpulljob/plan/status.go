// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

// Status is the status after a pass. Of a list ended before, only conditions about its deletion change.
func Status(spec *Spec, s Snapshot, d Decision, outcome planning.Outcome) appsv1beta1.ImageListPullJobStatus {
	before := &spec.List.Status
	status := *before.DeepCopy()
	status.ObservedGeneration = spec.List.Generation
	over := ended(spec)
	if !over && !spec.Deleting && spec.Invalid == nil && spec.Managed {
		report(&status, spec, s, d)
	}
	list := conditions.NewList(conditions.From(before.Conditions), s.Now)
	list.SetIf(podset.RequestFailed(appsv1beta1.ImagePullJobFailedCreate, outcome, "image", StepCreateJob, StepDeletePullJob, planning.StepDeleteJob))
	if over {
		list.SetIfEdited(before.ObservedGeneration, spec.List.Generation)
	}
	// Conditions from OpenKruise do not tell how a list ended.
	if over && !spec.Deleting && list.Was(appsv1beta1.ImagePullJobReconciling, corev1.ConditionFalse) {
		list.Keep(appsv1beta1.ImagePullJobReconciling, appsv1beta1.ImagePullJobStalled)
	} else {
		list.Set(progressOf(spec, d, &status).WithRefusals(list).Conditions()...)
	}
	status.Conditions = conditions.To[metav1.Condition](list)
	return status
}

func report(status *appsv1beta1.ImageListPullJobStatus, spec *Spec, s Snapshot, d Decision) {
	now := podstate.Time(s.Now)
	status.StartTime = cmp.Or(status.StartTime, &now)
	status.Desired, status.Active, status.Completed, status.Succeeded = int32(len(spec.Images)), 0, 0, 0
	status.CompletionTime, status.FailedImageStatuses = nil, nil
	for i, c := range d.children {
		if c == nil {
			continue
		}
		if c.Active > 0 {
			status.Active++
		}
		if c.done(spec) {
			status.Completed++
			if c.Failed == 0 {
				status.Succeeded++
			}
		}
		if c.Failed > 0 {
			name := c.Object.GetName()
			status.FailedImageStatuses = append(status.FailedImageStatuses, appsv1beta1.FailedImageStatus{
				ImagePullJob: name, Name: spec.Images[i],
				Message: fmt.Sprintf("%s not have the image; status.failedNodes of ImagePullJob %s names them", podset.Of(int(c.Failed), int(c.Desired), "node does", "nodes do"), name),
			})
		}
	}
	if d.Ended {
		status.CompletionTime = &now
	}
}

// progressOf describes the list, the first true one:
//
//  1. it is being deleted, or its spec cannot be used;
//  2. it has ended, well or with failed nodes;
//  3. nobody carries ImagePullJobs out;
//  4. a running job is stalled;
//  5. nodes pull, or wait for their turn;
//  6. every node has answered, and the jobs wait for further nodes.
//
// Refusals by the server come before these, see podset.Progress.WithRefusals.
func progressOf(spec *Spec, d Decision, status *appsv1beta1.ImageListPullJobStatus) podset.Progress {
	switch {
	case spec.Deleting:
		return podset.Reconciling(appsv1beta1.ReasonDeleting, "The list is being deleted. Images stay on the nodes.")
	case status.CompletionTime != nil:
		return endOf(status, d)
	case spec.Invalid != nil:
		return podset.Stalled(appsv1beta1.ReasonInvalidSpec, spec.Invalid.Error())
	case !spec.Managed:
		return podset.Stalled(appsv1beta1.ReasonKindOff, "Nobody pulls: the kind ImagePullJob is not managed by this operator. Name it in --kinds or in the Kruise object.")
	}
	for _, c := range d.children {
		if c != nil && !c.Ended && c.Stalled != nil {
			return podset.Stalled(c.Stalled.Reason, fmt.Sprintf("ImagePullJob %s of image %s: %s", c.Object.GetName(), c.Image, c.Stalled.Message))
		}
	}
	switch {
	case len(d.blocked) > 0:
		return podset.Reconciling(appsv1beta1.ReasonPulling, fmt.Sprintf("Images wait until earlier ImagePullJobs of theirs are gone (%s).", podset.List(d.blocked)))
	case status.Completed < status.Desired:
		return podset.Reconciling(appsv1beta1.ReasonPulling, "Nodes pull, or wait for their turn. The ImagePullJobs of the list say more.")
	case len(status.FailedImageStatuses) > 0:
		return podset.Stalled(appsv1beta1.ReasonPullFailed, failedMessage(status))
	}
	return podset.Progress{Reason: appsv1beta1.ReasonPulled, Message: "Every node has the images. Nodes that join get them, and each is asked again after a day."}
}

func endOf(status *appsv1beta1.ImageListPullJobStatus, d Decision) podset.Progress {
	if len(status.FailedImageStatuses) > 0 {
		return podset.Stalled(appsv1beta1.ReasonPullFailed, failedMessage(status))
	}
	if len(d.children) > 0 && !slices.ContainsFunc(d.children, func(c *Child) bool { return c.Desired > 0 }) {
		return podset.Progress{Reason: appsv1beta1.ReasonNoMatchingNode, Message: "The list ended without a node. Its ImagePullJobs say why none matches."}
	}
	return podset.Progress{Reason: appsv1beta1.ReasonPulled, Message: podset.Count(int(status.Succeeded), "image was", "images were") + " pulled to every node that was chosen."}
}

func failedMessage(status *appsv1beta1.ImageListPullJobStatus) string {
	var images []string
	for _, failed := range status.FailedImageStatuses {
		images = append(images, failed.Name)
	}
	return fmt.Sprintf("%s not on every node (%s); status.failedImageStatuses says where to look.",
		podset.Of(len(images), int(status.Desired), "image is", "images are"), podset.List(images))
}

// Events are the events about new statements of a status.
func Events(before, after *appsv1beta1.ImageListPullJobStatus) []planning.Event {
	said, ok := conditions.Find(conditions.From(after.Conditions), appsv1beta1.ImagePullJobReconciling)
	if before.CompletionTime != nil || after.CompletionTime == nil || !ok {
		return nil
	}
	return []planning.Event{{Warning: len(after.FailedImageStatuses) > 0, Reason: said.Reason, Message: said.Message}}
}
