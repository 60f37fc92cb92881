// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/probing"
)

// Status is the whole status after a pass.
func Status(spec *Spec, s Snapshot, d Decision, outcome planning.Outcome) appsv1alpha1.PodProbeMarkerStatus {
	status := *spec.Object.Status.DeepCopy()
	status.ObservedGeneration = spec.Object.Generation
	if spec.Object.DeletionTimestamp == nil && spec.Marker != nil && s.Off == "" {
		status.MatchedPods = int64(d.matched)
	}
	list := conditions.NewList(conditions.From(spec.Object.Status.Conditions), s.Now)
	list.Set(progressOf(spec, s, d, outcome).Conditions()...)
	status.Conditions = conditions.To[metav1.Condition](list)
	return status
}

// progressOf describes the marker, by the first match:
//
//  1. it is being deleted, stalled like 2. by refusals, or if nodes keep its probes for two minutes; its spec cannot be parsed;
//     or nothing is carried out at all;
//  2. the server refuses writes: stalled after half a minute;
//  3. the node daemon is absent or silent;
//  4. probes cannot be carried out: no such container or port, no room in a list, or they cannot be run;
//  5. a list does not get the probes, or pods not their results;
//  6. another marker writes its condition;
//  7. pods are on virtual nodes and not probed, or their provider is silent;
//  8. no pod is chosen;
//  9. nodes are still to be asked, or results are due from them or to pods;
//  10. every chosen pod is probed.
func progressOf(spec *Spec, s Snapshot, d Decision, outcome planning.Outcome) podset.Progress {
	switch {
	case spec.Object.DeletionTimestamp != nil:
		message := "The marker is being deleted: labels and annotations that it gave are taken off pods, and nodes stop probing. Conditions stay."
		if failure, refused := outcome.Failed(StepRelease); refused {
			return podset.Refused(failure, message+" That is refused: "+failure.Message, s.Now)
		}
		if len(d.late) > 0 {
			return podset.Stalled(appsv1beta1.ReasonDeleting, message+fmt.Sprintf(
				" That takes more than two minutes on %s (%s). The server may refuse it: events of their NodePodProbes, and the log of the operator, say why.",
				podset.Count(len(d.late), "node", "nodes"), podset.List(d.late)))
		}
		return podset.Reconciling(appsv1beta1.ReasonDeleting, message)
	case spec.Invalid != nil:
		return podset.Stalled(appsv1beta1.ReasonInvalidSpec, spec.Invalid.Error())
	case s.Off != "":
		return podset.Stalled(appsv1alpha1.ReasonProbesOff, "Nothing is probed for this marker: "+s.Off+".")
	}
	if failure, refused := outcome.Failed(StepAsk, StepHold); refused {
		return podset.Refused(failure, "Nodes cannot be asked: "+failure.Message, s.Now)
	}
	if reason, message := stalledBy(spec, s, d); reason != "" {
		return podset.Stalled(reason, message)
	}
	switch {
	case d.matched == 0:
		return podset.Progress{Reason: appsv1alpha1.ReasonNoMatchingPod,
			Message: "No pod of the namespace is chosen: one that spec.selector matches, that is initialized, on a node, and not over. Pods that match are probed."}
	case d.unasked > 0:
		return podset.Reconciling(appsv1alpha1.ReasonWaitingForResults, "Nodes are being asked to probe their pods. Events of their NodePodProbes say when that is refused.")
	case d.waiting > 0:
		return podset.Reconciling(appsv1alpha1.ReasonWaitingForResults,
			"Probes have no result yet: their containers, initialDelaySeconds, or as many tries as the thresholds ask for, are waited for.")
	case len(d.marking) > 0:
		return podset.Reconciling(appsv1alpha1.ReasonMarking, "Results are written to pods. Events of the NodePodProbes of their nodes, and of this marker, say when that is refused.")
	}
	return podset.Progress{Reason: appsv1alpha1.ReasonProbing, Message: "Every chosen pod is probed and tells the results."}
}

// stalledBy reports needs of the user; empty: none.
func stalledBy(spec *Spec, s Snapshot, d Decision) (reason, message string) {
	taken := probing.TakenConditions(spec.Marker, s.Others)
	switch {
	case s.Daemon != "" && len(d.Silent) == 0:
		return appsv1alpha1.ReasonNodeDaemonOff, s.Daemon
	case len(d.Silent) > 0 && s.Daemon != "":
		return appsv1alpha1.ReasonNodeDaemonSilent, fmt.Sprintf("Probes have no result on %s (%s): %s",
			podset.Count(len(d.Silent), "node", "nodes"), podset.List(d.Silent), s.Daemon)
	case len(d.faults) > 0:
		return appsv1alpha1.ReasonProbeNotPossible, fmt.Sprintf("Some probes cannot be carried out: %s.", podset.List(d.faults))
	case len(d.left) > 0:
		return appsv1alpha1.ReasonNodeProbesFull, fmt.Sprintf(
			"Nodes cannot be asked for more (%s): their lists of probes are full, or these pods have 256 probes. Fewer or shorter probes in this namespace make room.",
			podset.List(d.left))
	case len(d.errors) > 0:
		return appsv1alpha1.ReasonProbeNotRun, fmt.Sprintf("Some probes could not be carried out, and their states stay as they are: %s.", podset.List(d.errors))
	case len(d.late) > 0:
		return appsv1alpha1.ReasonNodeNotAsked, fmt.Sprintf(
			"Nodes have not been asked for two minutes (%s). The server may refuse it: events of their NodePodProbes, and the log of the operator, say why.",
			podset.List(d.late))
	case len(d.unmarked) > 0:
		return appsv1alpha1.ReasonPodsNotMarked, fmt.Sprintf(
			"Results have not reached %s for two minutes (%s). A label may be one by which a workload selects, and stays; or the server refuses: see events of the NodePodProbes of their nodes.",
			podset.Count(len(d.unmarked), "pod", "pods"), podset.List(d.unmarked))
	case len(taken) > 0:
		return appsv1alpha1.ReasonConditionTaken, fmt.Sprintf("On pods that both markers choose, a condition keeps the result of the first: %s.", podset.List(taken))
	case len(d.virtual) > 0:
		return appsv1alpha1.ReasonVirtualNodes, fmt.Sprintf("%s on virtual nodes cannot be probed, and are skipped (%s): no node daemon runs there.",
			podset.Count(len(d.virtual), "pod", "pods"), podset.List(d.virtual))
	}
	return "", ""
}

// Events are the events about new statements of a status.
func Events(before, after *appsv1alpha1.PodProbeMarkerStatus) []planning.Event {
	c, ok := conditions.Find(conditions.Begun(before.Conditions, after.Conditions), appsv1alpha1.PodProbeMarkerStalled)
	if !ok || c.Reason == appsv1beta1.ReasonRequestFailed { // each refused request has an event of its own
		return nil
	}
	return []planning.Event{{Warning: true, Reason: c.Reason, Message: c.Message}}
}
