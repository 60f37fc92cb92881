// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	pulls "github.com/kruise-operator/kruise-operator/internal/engine/image"
	"github.com/kruise-operator/kruise-operator/internal/engine/nodefit"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

// nodeCounts are the status's numbers of nodes. Of several pods on a node the oldest one counts.
type nodeCounts struct {
	desired, scheduled, misscheduled, ready, available, updated, updatedReady int
	// surging: some node runs two pods.
	surging bool
}

func countNodes(s *Snapshot) nodeCounts {
	var c nodeCounts
	for _, at := range places(s) {
		c.surging = c.surging || len(at.running) > 1
		pods := slices.DeleteFunc(slices.Clone(at.pods), func(pod *podset.Pod) bool { return pod.Terminating && podstate.Finished(pod.Object) })
		switch {
		case at.node == nil:
		case !at.shouldRun():
			c.misscheduled += min(len(pods), 1)
		default:
			c.desired++
			if len(pods) == 0 {
				continue
			}
			c.scheduled++
			c.add(pods[0], pods[0].Revision == s.Update.Name)
		}
	}
	return c
}

func (c *nodeCounts) add(pod *podset.Pod, updated bool) {
	if pod.Ready {
		c.ready++
	}
	if pod.Available {
		c.available++
	}
	if updated {
		c.updated++
	}
	if updated && pod.Ready {
		c.updatedReady++
	}
}

// Status is the whole status after a pass: the snapshot's nodes and pods, the plan's notes and the
// outcome's failures. It is about the observed nodes and pods; the plan's effect shows in the next
// pass. also are conditions beyond the pods.
func Status(spec *Spec, s Snapshot, plan planning.Plan, outcome planning.Outcome, also ...conditions.Condition) appsv1beta1.DaemonSetStatus {
	set := spec.Set
	s.Snapshot = s.Reported()
	counts := countNodes(&s)
	status := appsv1beta1.DaemonSetStatus{
		ObservedGeneration:     set.Generation,
		DesiredNumberScheduled: int32(counts.desired),
		CurrentNumberScheduled: int32(counts.scheduled),
		NumberMisscheduled:     int32(counts.misscheduled),
		NumberReady:            int32(counts.ready),
		NumberAvailable:        int32(counts.available),
		NumberUnavailable:      int32(counts.desired - counts.available),
		UpdatedNumberScheduled: int32(counts.updated),
		UpdateRevision:         s.Update.Hash(),
		CollisionCount:         ptr.To(ptr.Deref(s.CollisionCount, 0)),
	}
	list := conditions.NewList(conditions.From(set.Status.Conditions), s.Now)
	scale, update := podset.Failures(&plan, outcome, func(verb string, failure planning.Failure) string {
		return fmt.Sprintf("%s the pod of node %s: %s", verb, failure.Slot, failure.Message)
	})
	if scale != "" {
		list.Set(conditions.New(appsv1beta1.DaemonSetFailedScale, true, appsv1beta1.ReasonRequestFailed, scale))
	}
	list.SetIf(podset.FailedUpdate(appsv1beta1.DaemonSetFailedUpdate, s.Unrecorded, update, &plan))
	list.SetIf(conditions.FieldsIgnored(appsv1beta1.DaemonSetFieldsIgnored, spec.Ignored))
	expected := spec.Spec
	expected.Replicas -= kept(&plan)
	podset.SetCommon(list, progressOf(spec, &s, counts, plan, outcome).WithAnyRefusals(list), &expected, &s.Snapshot, counts.available)
	list.Set(also...)
	status.Conditions = conditions.To[appsv1beta1.DaemonSetCondition](list)
	return status
}

// Events are the events about new statements, or about another spec.
func Events(spec *Spec, after appsv1beta1.DaemonSetStatus) []planning.Event {
	old := &spec.Set.Status
	events := podset.ConditionEvents(conditions.From(old.Conditions), conditions.From(after.Conditions), old.ObservedGeneration != after.ObservedGeneration, appsv1beta1.DaemonSetFailedUpdate)
	if selector := spec.LabelSelector; selector != nil && len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
		for i := range events {
			if events[i].Reason == appsv1beta1.ReasonInvalidSpec {
				events[i].Reason = "SelectingAll" // as the native controller calls it
			}
		}
	}
	return events
}

// progressOf is the set's progress, the first that holds:
//
//  1. its pods say nothing about it, see podset.Stopped;
//  2. pods are being moved, or wait for their turn;
//  3. pods are missing, or should go;
//  4. pods cannot be moved at all, or have begun and cannot go on: stalled. So is a set with
//     everything else behind such pods;
//  5. no node should run a pod;
//  6. pods are where they should be, see podset.Settled.
//
// Trouble of single pods comes first in the message, and can stall the set: see
// podset.Progress.WithTroubles.
func progressOf(spec *Spec, s *Snapshot, counts nodeCounts, plan planning.Plan, outcome planning.Outcome) podset.Progress {
	if stopped, ok := podset.Stopped(&spec.Spec, &s.Snapshot, &plan, outcome); ok {
		return stopped
	}
	return progressOfNodes(s, counts, plan).BehindBlocked(&plan, s.Pods, noteBurst).WithTroubles(&plan, s.Pods)
}

func progressOfNodes(s *Snapshot, counts nodeCounts, plan planning.Plan) podset.Progress {
	_, limited := plan.HeldFor(podset.ReasonMaxUnavailable, podset.ReasonBudget, noteMaxSurge)
	without := kept(&plan)
	blocked, isBlocked := podset.Blocked(&plan)
	going := leaving(s, &plan)
	switch {
	case limited, podset.Moves(&plan, s.Pods, podset.ReasonOutdated, reasonSurge), counts.surging:
		return podset.Reconciling(appsv1beta1.ReasonRollingOut, plan.HeldMessages(fmt.Sprintf("Pods are moving to revision %s.", s.Update.Name)))
	case counts.scheduled < counts.desired-without:
		return podset.Reconciling(appsv1beta1.ReasonScaling, plan.HeldMessages(fmt.Sprintf("%d of %s a pod.", counts.scheduled, podset.Count(counts.desired, "node has", "nodes have"))))
	case len(going) > 0:
		// Leaving pods come first: on a silent node they may stay for long, and nothing else would
		// say so.
		return podset.Reconciling(appsv1beta1.ReasonScaling, strings.TrimSpace(fmt.Sprintf("Pods are on their way out: %s. %s", podset.List(going), plan.HeldMessages(""))))
	case isBlocked:
		return blocked
	case counts.desired == 0:
		return podset.Progress{Reason: appsv1beta1.ReasonNoNode, Message: noNode(s.Nodes)}
	}
	settled := podset.Settled(&plan, counts.available, counts.desired-without)
	if note, ok := plan.HeldFor(noteNodeSelector, notePartitionedScaling); ok && settled.Reason == appsv1beta1.ReasonComplete {
		settled = podset.Progress{Reason: appsv1beta1.ReasonPartitionReached, Message: note.Message}
	}
	if note, ok := plan.HeldFor(noteIneligible); ok && settled.Reason == appsv1beta1.ReasonComplete {
		settled.Message = note.Message
	}
	return settled
}

// kept is how many nodes the partition keeps without a pod. They are not missing one.
func kept(plan *planning.Plan) int {
	note, _ := plan.HeldFor(notePartitionedScaling)
	return len(note.Slots)
}

// leaving are the names of pods on their way out: terminating, at their preDelete hook, or deleted by the plan.
func leaving(s *Snapshot, plan *planning.Plan) []string {
	names := sets.New[string]()
	for i := range s.Pods {
		if pod := &s.Pods[i]; pod.Terminating || preparingDelete(pod) {
			names.Insert(pod.Object.Name)
		}
	}
	for _, action := range plan.Actions {
		if action.Step == podset.StepDelete {
			names.Insert(podset.PodOf(action).Name)
		}
	}
	return sets.List(names)
}

// noNode says why no node should run a pod.
func noNode(nodes []Node) string {
	reasons := make([]string, len(nodes))
	for i := range nodes {
		reasons[i] = nodes[i].Reason
	}
	return "No node should run a pod: " + nodefit.WhyNone(reasons)
}

// PreDownload describes the set for pulling images ahead of an update; nil without any.
func PreDownload(spec *Spec, s Snapshot) *pulls.Workload {
	if !spec.Options.PreDownloadImages || spec.Deleting || spec.Invalid != nil {
		return nil
	}
	workload := pulls.WorkloadOf(&spec.Spec, spec.PreDownload, &s.Snapshot, int32(countNodes(&s).updatedReady))
	workload.AnyUpdate = true
	return workload
}
