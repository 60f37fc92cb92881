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

// Messages of a status, as OpenKruise has them.
const (
	messageNoProgress = "job is running, no progress"
	messageCompleted  = "job has completed"
	messageNoNode     = "job has completed: no node matches"
	messageOverdue    = "job exceeds activeDeadlineSeconds"
)

// Status is the status after a pass. Of a job ended before, only conditions change.
func Status(spec *Spec, s Snapshot, d Decision, outcome planning.Outcome) appsv1beta1.ImagePullJobStatus {
	before := &spec.Job.Status
	status := *before.DeepCopy()
	status.ObservedGeneration = spec.Job.Generation
	if !ended(spec) && !spec.Deleting && spec.Invalid == nil {
		report(&status, s, d)
	}
	list := conditions.NewList(conditions.From(before.Conditions), s.Now)
	if refused, ok := podset.RequestFailed(appsv1beta1.ImagePullJobFailedCreate, outcome, "node", StepAsk, StepSecrets, StepRelease, planning.StepDeleteJob); ok {
		list.Set(refused)
	} else if s.Uncopied != "" && !d.Ended {
		list.Set(conditions.New(appsv1beta1.ImagePullJobFailedCreate, true, appsv1beta1.ReasonRequestFailed, s.Uncopied))
	}
	if ended(spec) {
		list.SetIfEdited(before.ObservedGeneration, spec.Job.Generation)
	}
	if ended(spec) && !spec.Deleting && list.Was(appsv1beta1.ImagePullJobReconciling, corev1.ConditionFalse) {
		// The answers of the nodes are no longer known: their tags may have expired.
		list.Keep(appsv1beta1.ImagePullJobReconciling, appsv1beta1.ImagePullJobStalled)
	} else {
		list.Set(progressOf(spec, s, d, &status).WithRefusals(list).Conditions()...)
	}
	status.Conditions = conditions.To[metav1.Condition](list)
	return status
}

func report(status *appsv1beta1.ImagePullJobStatus, s Snapshot, d Decision) {
	now := podstate.Time(s.Now)
	status.StartTime = cmp.Or(status.StartTime, &now)
	status.Desired, status.Active = int32(len(d.nodes)), int32(d.count[active])
	status.Succeeded, status.Failed = int32(d.count[succeeded]), int32(d.count[failed])
	status.FailedNodes, status.CompletionTime = nil, nil
	for i := range d.nodes {
		if d.nodes[i].stage == failed || d.Overdue && d.nodes[i].stage != succeeded {
			status.FailedNodes = append(status.FailedNodes, d.nodes[i].Name)
		}
	}
	switch {
	case d.Overdue:
		status.Active, status.Failed = 0, int32(len(status.FailedNodes))
		status.CompletionTime, status.Message = &now, messageOverdue
	case d.Ended && status.Desired == 0:
		status.CompletionTime, status.Message = &now, messageNoNode
	case d.Ended:
		status.CompletionTime, status.Message = &now, messageCompleted
	case status.Desired == 0:
		status.Message = messageNoProgress
	default:
		progress := float64(status.Succeeded+status.Failed) / float64(status.Desired) * 100
		status.Message = fmt.Sprintf("job is running, progress %.1f%%", progress)
	}
}

// progressOf describes the job, the first true one:
//
//  1. it is being deleted, or its spec cannot be parsed;
//  2. it has ended: well, with failed nodes, or without any node;
//  3. no node is chosen, and it waits for some;
//  4. pull secrets cannot be copied: no daemon namespace, or another reason;
//  5. nodes were asked and no daemon answers;
//  6. parallelism is 0, and nodes wait;
//  7. no node can be asked: their NodeImages are full or going;
//  8. nodes pull, or wait for their turn, see pulling; a missing pull secret comes first;
//  9. every node has answered, and it waits for further nodes.
//
// Refusals by the server come before these, see podset.Progress.WithRefusals.
func progressOf(spec *Spec, s Snapshot, d Decision, status *appsv1beta1.ImagePullJobStatus) podset.Progress {
	switch {
	case spec.Deleting:
		return podset.Reconciling(appsv1beta1.ReasonDeleting, "The job is being deleted. Images stay on the nodes.")
	case spec.Invalid != nil:
		return podset.Stalled(appsv1beta1.ReasonInvalidSpec, spec.Invalid.Error())
	case status.CompletionTime != nil && status.Failed > 0:
		return podset.Stalled(appsv1beta1.ReasonPullFailed, failedMessage(status, d))
	case status.CompletionTime != nil && status.Desired == 0:
		return podset.Progress{Reason: appsv1beta1.ReasonNoMatchingNode, Message: "The job ended without a node: " + noNode(spec, s)}
	case status.CompletionTime != nil:
		return podset.Progress{Reason: appsv1beta1.ReasonPulled, Message: fmt.Sprintf("%s the image.%s", podset.Count(int(status.Succeeded), "node has", "nodes have"), unknown(s))}
	case status.Desired == 0:
		return podset.Progress{Reason: appsv1beta1.ReasonNoMatchingNode, Message: "Nodes that match get the image. " + noNode(spec, s)}
	}
	if blocked, is := blockedBy(spec, s, d, status); is {
		return blocked
	}
	switch {
	case d.count[idle]+d.count[active] > 0:
		return pulling(s, d, status)
	case status.Failed > 0:
		return podset.Stalled(appsv1beta1.ReasonPullFailed, failedMessage(status, d))
	}
	return podset.Progress{Reason: appsv1beta1.ReasonPulled, Message: "Every node has the image. Nodes that join get it, and each is asked again after a day." + unknown(s)}
}

// blockedBy is the obstacle to asking nodes, to answers, or to a pull secret: 4 to 8 of progressOf. False: none.
func blockedBy(spec *Spec, s Snapshot, d Decision, status *appsv1beta1.ImagePullJobStatus) (podset.Progress, bool) {
	waiting, atWork := d.count[idle], d.count[active]
	switch {
	case s.NoNamespace && waiting > 0:
		late := status.StartTime != nil && s.Now.Sub(status.StartTime.Time) >= answering
		return podset.Progress{
			Reconciling: !late, Stalled: late, Reason: appsv1beta1.ReasonNoDaemonNamespace,
			Message: "No node is asked: the pull secrets cannot be copied, because there is no namespace kruise-daemon-config. The operator makes it with " +
				"the node daemon, but neither outside of a cluster nor while spec.nodeDaemon.mode of the Kruise object is Disabled.",
		}, true
	case s.Uncopied != "" && waiting > 0:
		return podset.Reconciling(appsv1beta1.ReasonRequestFailed, "No further node is asked while the pull secrets cannot be copied."), true
	case len(d.silent) > 0:
		return podset.Stalled(appsv1beta1.ReasonNodeDaemonSilent, fmt.Sprintf("%s not answered for a minute (%s). Look at the pods in kruise-daemon-config; a node that stays silent fails after ten minutes.",
			podset.Count(len(d.silent), "node has", "nodes have"), podset.List(d.silent))), true
	case waiting > 0 && atWork == 0:
		return unasked(spec, d), true
	case waiting+atWork > 0:
		return withoutSecrets(s)
	}
	return podset.Progress{}, false
}

// unasked says why no node is asked although some wait.
func unasked(spec *Spec, d Decision) podset.Progress {
	waiting := d.count[idle]
	if spec.Parallelism == 0 {
		return podset.Stalled(appsv1beta1.ReasonNoParallelism, fmt.Sprintf("%s, and spec.parallelism is 0.", podset.Count(waiting, "node waits", "nodes wait")))
	}
	if full := d.full(spec); len(full) > 0 {
		return podset.Stalled(appsv1beta1.ReasonNodeImagesFull, fmt.Sprintf("%s be asked (%s): their NodeImages have no more room for this namespace, which may use as much as it leaves free, or 256 jobs share this image.",
			podset.Count(len(full), "node cannot", "nodes cannot"), podset.List(full)))
	}
	return podset.Reconciling(appsv1beta1.ReasonPulling, fmt.Sprintf("%s be asked yet: their NodeImages are being deleted, or are those of former nodes of these names.",
		podset.Count(waiting, "node cannot", "nodes cannot")))
}

// withoutSecrets names the pull secrets nodes lack. False when they have all.
func withoutSecrets(s Snapshot) (podset.Progress, bool) {
	switch {
	case len(s.Unreadable) > 0:
		return podset.Stalled(appsv1beta1.ReasonRightsMissing, fmt.Sprintf("The operator may not read Secrets of spec.pullSecrets (%s): the image is pulled without them. "+
			"Bind the ClusterRole kruise-operator-read-pull-secrets to its service account in this namespace.", podset.List(s.Unreadable))), true
	case len(s.Missing) > 0:
		return podset.Stalled(appsv1beta1.ReasonSecretMissing,
			fmt.Sprintf("Secrets of spec.pullSecrets do not exist (%s): the image is pulled without them.", podset.List(s.Missing))), true
	}
	return podset.Progress{}, false
}

// pulling is the progress while nodes pull or wait for their turn. Somebody has to look when none has the image
// and one has failed, or when only nodes with a failure or a silent container runtime are left.
func pulling(s Snapshot, d Decision, status *appsv1beta1.ImagePullJobStatus) podset.Progress {
	failed, trying := int(status.Failed), len(d.trying)
	if failed+trying == 0 {
		return podset.Reconciling(appsv1beta1.ReasonPulling, "Nodes pull, or wait for their turn."+unknown(s))
	}
	message := ""
	if failed > 0 {
		message = fmt.Sprintf(" %s failed (%s).", podset.Count(failed, "node has", "nodes have"), podset.List(status.FailedNodes))
	}
	if trying > 0 {
		message += fmt.Sprintf(" %s again (%s).", podset.Count(trying, "node tries", "nodes try"), podset.List(d.trying))
	}
	message += d.said()
	left := trying == d.count[active]
	if status.Succeeded == 0 && (failed > 0 || left) || left && trying > 0 && d.count[idle] == 0 {
		return podset.Stalled(appsv1beta1.ReasonPullFailed, message[1:])
	}
	return podset.Reconciling(appsv1beta1.ReasonPulling, "Nodes pull, or wait for their turn."+message+unknown(s))
}

// said is the message of a failed node, else of a retrying one; empty: none.
func (d *Decision) said() string {
	for _, stage := range []stage{failed, active} {
		for i := range d.nodes {
			if at := &d.nodes[i]; at.stage == stage && at.message != "" {
				return fmt.Sprintf(" Node %s: %s", at.Name, at.message)
			}
		}
	}
	return ""
}

func (d *Decision) full(spec *Spec) (names []string) {
	for i := range d.nodes {
		if at := &d.nodes[i]; at.stage == idle && spec.full(at.Node) {
			names = append(names, at.Name)
		}
	}
	return names
}

func failedMessage(status *appsv1beta1.ImagePullJobStatus, d Decision) string {
	return fmt.Sprintf("%s not have the image (%s).",
		podset.Of(int(status.Failed), int(status.Desired), "node does", "nodes do"), podset.List(status.FailedNodes)) + d.said()
}

// noNode says why no node is chosen.
func noNode(spec *Spec, s Snapshot) string {
	switch {
	case spec.Pods != nil:
		return "no pod that spec.podSelector matches runs in the job's namespace."
	case len(spec.Names) > 0:
		return "no node has a name of spec.selector.names." + unknown(s)
	case spec.Nodes != nil:
		return "no node has labels that spec.selector matches."
	}
	return "the cluster has no nodes with a container runtime."
}

func unknown(s Snapshot) string {
	if len(s.Unknown) == 0 {
		return ""
	}
	return fmt.Sprintf(" There are no nodes of these names, or virtual ones: %s.", podset.List(s.Unknown))
}

// Events are the events about new statements of a status.
func Events(before, after *appsv1beta1.ImagePullJobStatus, s Snapshot) []planning.Event {
	// Refused requests of the plan have their own events.
	failed := func(c metav1.Condition) bool {
		return c.Type == appsv1beta1.ImagePullJobFailedCreate && c.Message == s.Uncopied
	}
	if s.Uncopied != "" && slices.ContainsFunc(after.Conditions, failed) && !slices.ContainsFunc(before.Conditions, failed) {
		return []planning.Event{{Warning: true, Reason: "FailedCreate", Message: s.Uncopied}}
	}
	said, ok := conditions.Find(conditions.From(after.Conditions), appsv1beta1.ImagePullJobReconciling)
	if before.CompletionTime != nil || after.CompletionTime == nil || !ok {
		return nil
	}
	return []planning.Event{{Warning: after.Failed > 0, Reason: said.Reason, Message: after.Message + ": " + said.Message}}
}
