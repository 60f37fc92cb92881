// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/nodefit"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

// Snapshot is the planner's input beside the job.
type Snapshot struct {
	// Now is when the snapshot was taken.
	Now time.Time
	// Nodes are all nodes of the cluster, sorted by name.
	Nodes []Node
	// Pods of the job. Their slots are the names of nodes.
	Pods []podset.Pod
	// Retries are refused creations waiting for a retry.
	Retries planning.Retries
}

// Node is one node.
type Node struct {
	Name string
	UID  types.UID
	// Created is when the node object was made.
	Created time.Time
	// Fits: the pod may run there. Otherwise Unfit completes "the node ...".
	Fits  bool
	Unfit string
}

// Nodes derives the facts about nodes.
func (s *Spec) Nodes(nodes []*corev1.Node) []Node {
	facts := make([]Node, len(nodes))
	for i, node := range nodes {
		facts[i] = Node{Name: node.Name, UID: node.UID, Created: node.CreationTimestamp.Time}
		facts[i].Fits, facts[i].Unfit = s.Fits(node)
	}
	slices.SortFunc(facts, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	return facts
}

// Fits reports whether the pod, with its requests, may run on a node
// with nothing else on it; if not, why completes "the node ...".
func (f Fitting) Fits(node *corev1.Node) (fits bool, why string) {
	if result := f.pod.Fit(node); !result.ShouldRun {
		return false, result.Reason
	}
	if lacks := nodefit.Lacks(node, f.requests); len(lacks) > 0 {
		return false, "has less " + string(lacks[0]) + " in all than the template requests"
	}
	return true, ""
}

// Pods derives the facts about pods.
func Pods(pods []*corev1.Pod, now time.Time) []podset.Pod {
	facts := make([]podset.Pod, len(pods))
	for i, pod := range pods {
		began := func() time.Time { return pod.CreationTimestamp.Time }
		facts[i] = podset.Pod{
			Object: pod, Slot: planning.Slot(nodefit.NodeOf(pod)), Terminating: pod.DeletionTimestamp != nil,
			Trouble: podstate.TroubleOf(pod, began, now), Ready: podstate.RunningAndReady(pod),
		}
	}
	slices.SortFunc(facts, func(a, b podset.Pod) int { return strings.Compare(a.Object.Name, b.Object.Name) })
	return facts
}

// nodeState is a node with its result.
type nodeState struct {
	*Node
	key nodeKey
	// outcome is the end of the node's pod, remembered (stored) or observed.
	outcome Outcome
	stored  bool
	// disrupted is a pod evicted, preempted or refused by the node: its program has not failed.
	disrupted *podset.Pod
	// pod is the one at work. occupied: a pod keeps others away: at work, terminating, or stopped for good.
	pod      *podset.Pod
	occupied bool
}

// view is the state of all nodes and pods.
type view struct {
	nodes []nodeState
	// record is status.finished after this pass; was is the stored one.
	record, was record
	// active are pods at work on fitting nodes, in node order.
	active []*podset.Pod
	// strays are pods at work on missing or replaced nodes, or second ones on a node.
	strays []*podset.Pod
	// duplicates are the second pods among the strays.
	duplicates []*podset.Pod
	// unfit are pods at work on nodes no longer fitting.
	unfit []*podset.Pod
	// failedActive have running pods counted as failed: restarted too often, or stopped by the deadline.
	failedActive []*nodeState
	// failures are failed pods on existing nodes, sorted by name.
	failures []*podset.Pod
	// Counts of the status.
	desired, succeeded, failed int
}

// belongs reports whether the pod was made for this node, not for an earlier one of its name.
func belongs(pod *corev1.Pod, node *Node) bool {
	if uid := pod.Annotations[shared.AnnotationNodeUID]; uid != "" {
		return types.UID(uid) == node.UID
	}
	return !pod.CreationTimestamp.Time.Before(node.Created)
}

// overRestarted reports whether the containers restarted too often.
func (s *Spec) overRestarted(pod *corev1.Pod) bool {
	if !s.Restarts {
		return false
	}
	restarts := 0
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			restarts += int(statuses[i].RestartCount)
		}
	}
	return restarts > s.RestartLimit
}

// look combines nodes, pods and memory. stop: the deadline is over, and pods at work have failed.
//
// An ended pod finishes its node, unless it was disrupted. So does its record in the
// status, even with the pod gone. Only existing nodes are recorded: a UID never comes back.
func look(spec *Spec, s Snapshot, stop bool) view {
	v := view{was: recordOf(spec.Job.Status.Finished), nodes: make([]nodeState, len(s.Nodes))}
	v.record = record{outcomes: map[nodeKey]Outcome{}, failures: v.was.failures}
	byName := make(map[planning.Slot]*nodeState, len(s.Nodes))
	for i := range s.Nodes {
		node := &s.Nodes[i]
		v.nodes[i] = nodeState{Node: node, key: keyOf(node.Name, node.UID)}
		v.nodes[i].outcome = v.was.outcomes[v.nodes[i].key]
		v.nodes[i].stored = v.nodes[i].outcome != Unfinished
		byName[planning.Slot(node.Name)] = &v.nodes[i]
	}
	for i := range s.Pods {
		v.place(&s.Pods[i], byName[s.Pods[i].Slot])
	}
	for i := range v.nodes {
		v.judge(spec, &v.nodes[i], stop)
	}
	return v
}

// place notes a pod at its node; nil: no such node.
func (v *view) place(pod *podset.Pod, at *nodeState) {
	ended := podstate.Finished(pod.Object)
	own := at != nil && belongs(pod.Object, at.Node)
	switch {
	case ended && own:
		disrupted := podstate.Disrupted(pod.Object)
		at.occupied = at.occupied || pod.Terminating || disrupted
		switch {
		case at.outcome != Unfinished:
		case disrupted:
			at.disrupted = pod
		case pod.Object.Status.Phase == corev1.PodSucceeded:
			at.outcome = Succeeded
		case !pod.Terminating: // one that is deleted while it works ends as failed, too, and has not failed
			at.outcome = Failed
		}
		if pod.Object.Status.Phase == corev1.PodFailed && !pod.Terminating && !disrupted {
			v.failures = append(v.failures, pod)
		}
	case ended: // of a node that is gone
	case pod.Terminating:
		if at != nil {
			at.occupied = true
		}
	case !own:
		v.strays = append(v.strays, pod)
		if at != nil {
			at.occupied = true
		}
	case at.pod != nil: // a second one, which only another manager can have made: the older one stays
		first, second := at.pod, pod
		if second.Object.CreationTimestamp.Before(&first.Object.CreationTimestamp) {
			first, second = second, first
		}
		at.pod = first
		v.strays, v.duplicates = append(v.strays, second), append(v.duplicates, second)
	default:
		at.pod, at.occupied = pod, true
	}
}

// judge classifies the node's pod at work, and counts the node.
func (v *view) judge(spec *Spec, at *nodeState, stop bool) {
	if pod := at.pod; pod != nil {
		if at.outcome == Unfinished && (stop || spec.overRestarted(pod.Object)) {
			at.outcome = Failed
		}
		switch {
		case at.outcome != Unfinished:
			v.failedActive = append(v.failedActive, at)
		case !at.Fits:
			v.unfit = append(v.unfit, pod)
		default:
			v.active = append(v.active, pod)
		}
	}
	if at.outcome != Unfinished {
		v.record.outcomes[at.key] = at.outcome
		if at.outcome == Failed && !at.stored {
			v.record.failures++
		}
	}
	if at.Fits || at.outcome != Unfinished {
		v.desired++
	}
	switch at.outcome {
	case Succeeded:
		v.succeeded++
	case Failed:
		v.failed++
	case Unfinished:
	}
}
