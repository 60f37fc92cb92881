// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podset

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/inplace"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/engine/restart"
)

const (
	// updateTimeout is for how long an update in place may be under way before conditions explain it.
	updateTimeout = 30 * time.Second
	// hangTimeout is for how long an edit of a pod may have no effect. After that the update hangs. For
	// containers slow to stop, it is their grace period and stopMargin.
	hangTimeout, stopMargin = 5 * time.Minute, time.Minute
)

// TroubleOf is why the pod does not become ready: its containers, else a long update in place, else the pod's
// own wait. update is the progress of the update, began the last change of its containers. A hanging update may
// cause no event, so RecheckAfter says when to look again.
func TroubleOf(object *corev1.Pod, update inplace.Status, began func() time.Time, now time.Time) podstate.Trouble {
	trouble := podstate.TroubleOf(object, began, now)
	switch {
	case trouble.Message != "" || object.DeletionTimestamp != nil:
		return trouble
	case update.Progress != inplace.Running && trouble.RecheckAfter == 0:
		return unready(object, now)
	case update.Progress != inplace.Running:
		return trouble
	}
	since := began()
	if left := since.Add(updateTimeout).Sub(now); left > 0 {
		trouble.RecheckAfter = left
		return trouble
	}
	trouble.Message = update.Message
	switch update.Reason {
	case inplace.ReasonContainerNotReady, inplace.ReasonNextBatch:
		// The edit has had its effect. How long a container may take to get ready is its owner's business, as it is for new pods.
		return trouble
	}
	trouble.Reason = appsv1beta1.ReasonInPlaceUpdateHangs
	trouble.RecheckAfter = max(since.Add(max(hangTimeout, inplace.Termination(object)+stopMargin)).Sub(now), 0)
	trouble.Lasting = trouble.RecheckAfter == 0
	return trouble
}

// WithTroubles adds to the progress why pods do not become ready. In the message these causes come before pods
// that wait for them. A pod with lasting trouble stalls the workload, even while others move, unless the plan
// deletes or changes that pod or it waits at a hook. A pod to be deleted counts, too, while the plan deletes
// none.
func (p Progress) WithTroubles(plan *planning.Plan, pods []Pod) Progress {
	moved := moved(plan)
	deletes := slices.ContainsFunc(plan.Actions, func(a planning.Action) bool { return a.Step == StepDelete })
	byMessage := map[string][]*Pod{}
	var messages []string
	rank := map[string]int{}
	stuck := ""
	for i := range pods {
		pod := &pods[i]
		if pod.Terminating || pod.Trouble.Message == "" {
			continue
		}
		if pod.Trouble.Lasting && pod.stays() && (pod.Unwanted == "" || !deletes) && !moved[keyOf(pod.Object)] && stuck == "" {
			stuck = pod.Trouble.Reason
		}
		if byMessage[pod.Trouble.Message] == nil {
			messages = append(messages, pod.Trouble.Message)
		}
		byMessage[pod.Trouble.Message] = append(byMessage[pod.Trouble.Message], pod)
		rank[pod.Trouble.Message] = max(rank[pod.Trouble.Message], weight(pod.Trouble))
	}
	if stuck == "" && !p.Reconciling && !p.Stalled {
		return p
	}
	slices.SortStableFunc(messages, func(a, b string) int { return rank[b] - rank[a] })
	var causes []string
	for _, message := range messages[:min(len(messages), shown)] {
		causes = append(causes, List(names(byMessage[message]))+": "+message)
	}
	if len(causes) > 0 {
		p.Message = strings.Join(append(causes, p.Message), "; ")
	}
	if stuck != "" && !p.Stalled {
		p.Reconciling, p.Stalled, p.Reason = false, true, stuck
	}
	return p
}

// weight orders troubles for the user: lasting ones, then faults, then mere waits.
func weight(trouble podstate.Trouble) int {
	switch {
	case trouble.Lasting:
		return 2
	case trouble.Reason != "":
		return 1
	default:
		return 0
	}
}

// stays is a pod at no hook for its deletion or update.
func (p *Pod) stays() bool {
	return p.State != shared.StatePreparingDelete && p.State != shared.StatePreparingUpdate
}

// moved are the pods with a deletion or change in place in the plan.
func moved(plan *planning.Plan) map[types.NamespacedName]bool {
	moved := map[types.NamespacedName]bool{}
	for _, action := range plan.Actions {
		pod := PodOf(action)
		if pod == nil {
			continue
		}
		if action.Step == StepDelete || action.Reason == ReasonInPlaceUpdate || action.Reason == ReasonInPlaceContinue {
			moved[keyOf(pod)] = true
		}
	}
	return moved
}

// unreadyTimeout is for how long a pod may be not ready before conditions explain it: most pods start within
// it.
const unreadyTimeout = 30 * time.Second

// unready is the wait of a pod with sound containers: for its node, the first unready container, or a readiness
// gate. It never stalls the workload: its owner decides how long a container may take. Our own changes to a
// pod, and terminating pods, are reported elsewhere.
func unready(pod *corev1.Pod, now time.Time) podstate.Trouble {
	if podstate.Finished(pod) || pod.Status.ObservedGeneration > 0 && pod.Status.ObservedGeneration < pod.Generation {
		return podstate.Trouble{}
	}
	ready := podstate.Condition(pod, corev1.PodReady)
	since := pod.CreationTimestamp
	switch {
	case ready == nil && (pod.Spec.NodeName == "" || pod.Status.StartTime != nil), ready != nil && ready.Status == corev1.ConditionTrue:
		return podstate.Trouble{}
	case ready != nil:
		since = ready.LastTransitionTime
	default:
		if bound := podstate.Condition(pod, corev1.PodScheduled); bound != nil {
			since = bound.LastTransitionTime
		}
	}
	if left := since.Add(unreadyTimeout).Sub(now); left > 0 {
		return podstate.Trouble{RecheckAfter: left}
	}
	if ready == nil {
		return podstate.Trouble{Message: "node " + pod.Spec.NodeName + " has not begun to start it"}
	}
	return podstate.Trouble{Message: whyUnready(pod)}
}

// WhyUnready says in words what a pod waits for.
func WhyUnready(pod *corev1.Pod) string {
	if bound := podstate.Condition(pod, corev1.PodScheduled); bound != nil && bound.Status == corev1.ConditionFalse {
		return "it has no node: " + bound.Message
	}
	if why := whyUnready(pod); why != "" {
		return why
	}
	return "it is being updated"
}

// whyUnready is the wait of a pod on a node; empty for a wait of our own making.
func whyUnready(pod *corev1.Pod) string {
	for i := range pod.Spec.InitContainers {
		if why := waitsForInit(pod, &pod.Spec.InitContainers[i]); why != "" {
			return "init container " + pod.Spec.InitContainers[i].Name + ": " + why
		}
	}
	for i := range pod.Spec.Containers {
		if why := waitsFor(pod, &pod.Spec.Containers[i]); why != "" {
			return "container " + pod.Spec.Containers[i].Name + ": " + why
		}
	}
	for _, gate := range pod.Spec.ReadinessGates {
		condition := podstate.Condition(pod, gate.ConditionType)
		switch {
		case condition != nil && condition.Status == corev1.ConditionTrue:
		case gate.ConditionType == shared.GateInPlaceUpdateReady:
			return ""
		case gate.ConditionType != shared.GateKruisePodReady:
			return fmt.Sprintf("its readiness gate %s is not True", gate.ConditionType)
		default:
			if others := OtherHolders(pod); len(others) > 0 {
				return "it is held out of service by " + describeHolder(others[0])
			}
			return ""
		}
	}
	return "its containers are ready and it is not, as on a node that does not answer"
}

// waitsForInit is why an init container keeps the others, or the pod, from being ready; empty when it does not.
func waitsForInit(pod *corev1.Pod, container *corev1.Container) string {
	status := restart.StatusOf(pod, container.Name)
	switch {
	case status == nil, status.State.Terminated != nil:
		return ""
	case status.State.Running != nil && (container.RestartPolicy == nil || *container.RestartPolicy != corev1.ContainerRestartPolicyAlways):
		return "it runs, and the containers after it wait for its end"
	default:
		return waitsFor(pod, container)
	}
}

// waitsFor is the progress of an unready container; empty for a ready one.
func waitsFor(pod *corev1.Pod, container *corev1.Container) string {
	status := restart.StatusOf(pod, container.Name)
	switch {
	case status == nil:
		return "the node has not reported it yet"
	case status.Ready:
		return ""
	case status.State.Terminated != nil:
		return "it has ended"
	case status.State.Running == nil && status.State.Waiting != nil && status.State.Waiting.Reason != "":
		return "it has not started yet (" + status.State.Waiting.Reason + ")"
	case status.State.Running == nil:
		return "it has not started yet"
	case status.Started != nil && !*status.Started && container.StartupProbe != nil:
		return "it runs, and its startup probe does not succeed"
	case container.ReadinessProbe != nil:
		return "it runs, and its readiness probe does not succeed"
	default:
		return "it runs and is not ready"
	}
}
