// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podsettest

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/restart"
)

// reduce leaves out of a pod what no decision can depend on, neither now nor after anything that can still happen to the pod. It
// changes the pod that it is given.
//
// It is sound as long as a state and the reduced state lead to the same reduced states, by the same steps. For every part there is a
// reason below; that they hold for the real planners is shown by exploring small sets with and without reduction, and comparing.
func (c Cluster) reduce(pod *corev1.Pod) *corev1.Pod {
	if pod.DeletionTimestamp != nil {
		return c.reduceTerminating(pod)
	}
	if pod.Status.Phase == corev1.PodFailed {
		return c.reduceFailed(pod)
	}
	c.reduceRecord(pod)
	reduceReadiness(pod)
	return pod
}

// reduceReadiness keeps of a pod that it is not ready, and not why: that is for people. Whoever decides asks whether the pod is Ready; an
// unknown answer is no, and its containers may be ready or not. A closed gate keeps a pod from being Ready whatever its containers do,
// and when the gate opens the pod becomes ready by one move or the other. Only batches of an update in place wait for containers.
func reduceReadiness(pod *corev1.Pod) {
	ready := condition(pod, corev1.PodReady) == corev1.ConditionTrue
	batches := strings.Contains(pod.Annotations[shared.AnnotationInPlaceState], `"preCheckBeforeNext"`)
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type == corev1.PodReady {
			c.Reason, c.Message = "", ""
		}
		if !ready && !batches && (c.Type == corev1.PodReady || c.Type == corev1.ContainersReady) {
			c.Status = corev1.ConditionFalse
		}
	}
	for i := range pod.Status.ContainerStatuses {
		if !ready && !batches {
			pod.Status.ContainerStatuses[i].Ready = false
		}
	}
}

// reduceTerminating keeps of a terminating pod which one it is, its finalizers, its volumes, which may be claimed back, and, with nodes, where it
// runs: nobody edits it any more, and nothing brings it back. Everything else becomes that of a pod that is ready and available, so that a planner which counts terminating pods is found out.
func (c Cluster) reduceTerminating(pod *corev1.Pod) *corev1.Pod {
	slices.Sort(pod.Finalizers)
	kept := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, OwnerReferences: pod.OwnerReferences,
			Labels: map[string]string{}, CreationTimestamp: metav1.NewTime(Long()), DeletionTimestamp: &metav1.Time{Time: Long()}, Finalizers: pod.Finalizers,
		},
		Spec:   corev1.PodSpec{Volumes: pod.Spec.Volumes},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	if len(c.Nodes) > 0 { // where it runs says who it is, and whether its deletion comes to an end
		kept.Spec.NodeName, kept.Spec.Affinity = pod.Spec.NodeName, pod.Spec.Affinity
		if pod.Status.Phase == corev1.PodFailed {
			kept.Status.Phase = corev1.PodFailed
		}
	}
	kept.Labels[shared.LabelLifecycleState] = string(shared.StateNormal)
	for _, kind := range []corev1.PodConditionType{corev1.ContainersReady, shared.GateInPlaceUpdateReady, corev1.PodReady} {
		kept.Status.Conditions = append(kept.Status.Conditions, corev1.PodCondition{
			Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(Long()),
		})
	}
	if id := pod.Labels[shared.LabelInstanceID]; id != "" {
		kept.Labels[shared.LabelInstanceID] = id
	}
	return kept
}

// reduceFailed keeps of a pod that has failed what it was, who it belongs to and what holds its deletion, but not how far it had come.
// Nobody waits for it, and what settling still writes to it changes nothing for others; that this is harmless is shown where nothing is
// reduced. Finalizers of hooks are left as they are: they would hold the pod once it is deleted.
func (c Cluster) reduceFailed(pod *corev1.Pod) *corev1.Pod {
	if c.Hooks != nil {
		if hook := c.Hooks.InPlaceUpdate; hook != nil && len(hook.FinalizersHandler) == 0 {
			maps.Copy(pod.Labels, hook.LabelsHandler)
		} else if hook != nil {
			return pod
		}
		if hook := c.Hooks.PreNormal; hook != nil && len(hook.FinalizersHandler) == 0 {
			unhook(hook, pod)
		} else if hook != nil {
			return pod
		}
	}
	delete(pod.Annotations, shared.AnnotationInPlaceState)
	delete(pod.Annotations, shared.AnnotationInPlaceEvidence)
	delete(pod.Annotations, shared.AnnotationInPlaceGrace)
	if state := pod.Labels[shared.LabelLifecycleState]; state != "" && (c.Hooks == nil || state != string(shared.StatePreparingDelete)) {
		pod.Labels[shared.LabelLifecycleState] = string(shared.StateNormal)
	}
	if c.LeavesFailed {
		delete(pod.Labels, shared.LabelControllerRevisionHash)
		delete(pod.Labels, shared.LabelPodTemplateHash)
		node := pod.Spec.NodeName
		pod.Spec, pod.Status = corev1.PodSpec{}, corev1.PodStatus{Phase: corev1.PodFailed}
		if len(c.Nodes) > 0 {
			pod.Spec.NodeName = node
		}
	}
	pod.Status.ContainerStatuses = nil
	pod.Status.ObservedGeneration, pod.Generation = 1, 1
	for i := range pod.Status.Conditions {
		condition := &pod.Status.Conditions[i]
		condition.Reason, condition.Message, condition.Status = "", "", corev1.ConditionFalse
		if condition.Type == shared.GateInPlaceUpdateReady || condition.Type == shared.GateKruisePodReady {
			condition.Status = corev1.ConditionTrue
		}
		condition.LastTransitionTime = metav1.NewTime(Long())
	}
	return pod
}

// reduceRecord forgets what the pod remembers of updates in place as far as it is past.
//
//   - The name of the revision in the record matters only in that state and evidence name the same one.
//   - A container that is not the one that was noted is proven to be new by its image, or by having run for a while. Without a clock
//     every while is over, so what the container before was made of does not matter; and as long as it is the noted one, only the
//     image in the spec does.
//   - A pod that is back in service has proven everything. Without a clock nothing can undo that; only a container that
//     restarts would have to run for a while again.
func (c Cluster) reduceRecord(pod *corev1.Pod) {
	raw, found := pod.Annotations[shared.AnnotationInPlaceState]
	if !found {
		return
	}
	var state map[string]any
	var evidence shared.InPlaceEvidence
	if json.Unmarshal([]byte(raw), &state) != nil || json.Unmarshal([]byte(pod.Annotations[shared.AnnotationInPlaceEvidence]), &evidence) != nil {
		return
	}
	if !c.Clock && past(pod, raw) {
		delete(pod.Annotations, shared.AnnotationInPlaceState)
		delete(pod.Annotations, shared.AnnotationInPlaceEvidence)
		return
	}
	if state["revision"] == evidence.Revision {
		state["revision"], evidence.Revision = "same", "same"
	}
	statuses, _ := state["lastContainerStatuses"].(map[string]any)
	for name, container := range evidence.Containers {
		status := restart.StatusOf(pod, name)
		if status == nil {
			continue
		}
		if status.ContainerID != container.ContainerID {
			container.SpecImage, container.ContainerID = "", containerBefore(name)
		}
		if !c.Clock {
			container.Image, container.ImageID, container.Superseded = "", "", false
		}
		evidence.Containers[name] = container
		if _, noted := statuses[name]; noted {
			statuses[name] = map[string]any{"imageID": ""} // the evidence says more
		}
	}
	encode := func(key string, value any) {
		if text, err := json.Marshal(value); err == nil {
			pod.Annotations[key] = string(text)
		}
	}
	encode(shared.AnnotationInPlaceState, state)
	encode(shared.AnnotationInPlaceEvidence, evidence)
}

// past says that the update in place that the record tells of is over: the pod is back in service by condition and state, with no batch to
// follow. In state Normal it is over even if the condition says otherwise: that is the first half of the next update.
func past(pod *corev1.Pod, record string) bool {
	_, waits := pod.Annotations[shared.AnnotationInPlaceGrace]
	label := pod.Labels[shared.LabelLifecycleState]
	serves := condition(pod, shared.GateInPlaceUpdateReady) == corev1.ConditionTrue || label == string(shared.StateNormal)
	return !waits && serves && label != "" && label != string(shared.StateUpdating) &&
		!strings.Contains(record, `"nextContainer`) && !strings.Contains(record, `"updateResources":true`)
}
