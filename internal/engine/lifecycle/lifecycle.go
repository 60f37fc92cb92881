// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package lifecycle is the state machine of the user's hooks, at which a pod may stop.
//
// The state of a pod is a label on it, with the time of its last change in an annotation. A pod
// enters a wait when any part of a hook matches it, and leaves Updated and PreparingNormal only
// when every part does.
package lifecycle

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

// StateOf returns the pod's lifecycle state; empty when it has no such label.
func StateOf(pod *corev1.Pod) shared.LifecycleState {
	return shared.LifecycleState(pod.Labels[shared.LabelLifecycleState])
}

// IsNormal is a state without work on the pod: it may be available.
func IsNormal(state shared.LifecycleState) bool {
	return state == "" || state == shared.StateNormal
}

// Hooked says that at least one label or finalizer of the hook is on the pod. A nil or empty hook hooks no
// pod.
func Hooked(h *shared.LifecycleHook, pod *corev1.Pod) bool {
	if h == nil {
		return false
	}
	for key, value := range h.LabelsHandler {
		if has(pod, key, value) {
			return true
		}
	}
	return slices.ContainsFunc(h.FinalizersHandler, func(name string) bool { return slices.Contains(pod.Finalizers, name) })
}

// AllHooked says that every label and finalizer of the hook is on the pod. False for a nil hook, true for an
// empty one.
func AllHooked(h *shared.LifecycleHook, pod *corev1.Pod) bool {
	if h == nil {
		return false
	}
	for key, value := range h.LabelsHandler {
		if !has(pod, key, value) {
			return false
		}
	}
	return !slices.ContainsFunc(h.FinalizersHandler, func(name string) bool { return !slices.Contains(pod.Finalizers, name) })
}

// PreNormalDone says that the whole preNormal hook is on the pod, so it may become normal. No hook is always
// done.
func PreNormalDone(hooks *shared.Lifecycle, pod *corev1.Pod) bool {
	return hooks.PreNormal == nil || AllHooked(hooks.PreNormal, pod)
}

// MarksNotReady says that a hook takes pods out of service while they wait for a deletion or an update.
func MarksNotReady(hooks *shared.Lifecycle) bool {
	return marksNotReady(hooks.PreDelete) || marksNotReady(hooks.InPlaceUpdate)
}

func has(pod *corev1.Pod, key, value string) bool {
	actual, ok := pod.Labels[key]
	return ok && actual == value
}

// To writes a lifecycle state and when it was entered. Zero when the pod's label says so already.
func To(pod *corev1.Pod, to shared.LifecycleState, now time.Time) edit.Edit {
	var e edit.Edit
	if StateOf(pod) != to {
		e.SetLabel(shared.LabelLifecycleState, string(to))
		e.SetAnnotation(shared.AnnotationLifecycleTimestamp, now.UTC().Format(time.RFC3339))
	}
	return e
}

// Begin gives a pod before its creation its first state: Normal, or PreparingNormal until its
// preNormal hook is done. Its labels and annotations must not be nil.
func Begin(pod *corev1.Pod, normal bool, now time.Time) {
	state := shared.StatePreparingNormal
	if normal {
		state = shared.StateNormal
	}
	pod.Labels[shared.LabelLifecycleState] = string(state)
	pod.Annotations[shared.AnnotationLifecycleTimestamp] = now.UTC().Format(time.RFC3339)
}

// RestoreHook puts the hook's labels and finalizers back on the pod.
func RestoreHook(h *shared.LifecycleHook) edit.Edit {
	var e edit.Edit
	if h == nil {
		return e
	}
	for key, value := range h.LabelsHandler {
		e.SetLabel(key, value)
	}
	for _, name := range h.FinalizersHandler {
		e.AddFinalizer(name)
	}
	return e
}

// Transition moves the pod to a state with all its consequences, in one Edit:
//
//   - PreparingUpdate and PreparingDelete take the pod out of service when the hook says
//     markPodNotReady;
//   - every state but PreparingUpdate and Updating gives up the hold of the update hook, and every
//     state but PreparingDelete the delete hook's, whatever the hooks say by now and however the
//     pod got there: nobody else would release them;
//   - from Updated back to PreparingUpdate the hook's labels and finalizers are put back: the user
//     took them off for the update before.
//
// A pod already in the state gives up wrong holds, and is taken out of nothing.
func Transition(hooks *shared.Lifecycle, pod *corev1.Pod, to shared.LifecycleState, now time.Time) edit.Edit {
	from := StateOf(pod)
	e := To(pod, to, now)

	var take, giveUp []shared.ReadinessHolder
	if to != shared.StatePreparingUpdate && to != shared.StateUpdating {
		giveUp = append(giveUp, updateHook())
	}
	if to != shared.StatePreparingDelete {
		giveUp = append(giveUp, deleteHook())
	}
	if from != to && to == shared.StatePreparingUpdate && marksNotReady(hooks.InPlaceUpdate) {
		take = append(take, updateHook())
	}
	if from != to && to == shared.StatePreparingDelete && marksNotReady(hooks.PreDelete) {
		take = append(take, deleteHook())
	}
	e.Merge(podstate.ReplaceHolds(pod, take, giveUp, now))

	if from == shared.StateUpdated && to == shared.StatePreparingUpdate {
		e.Merge(RestoreHook(hooks.InPlaceUpdate))
	}
	return e
}

func marksNotReady(h *shared.LifecycleHook) bool { return h != nil && h.MarkPodNotReady }

// holderAgent is how the holds of hooks are signed.
const holderAgent = "Lifecycle"

// IsOwn says that a hook holds the pod, so the end of its state gives up the hold.
func IsOwn(h shared.ReadinessHolder) bool { return h.UserAgent == holderAgent }

func updateHook() shared.ReadinessHolder {
	return shared.ReadinessHolder{UserAgent: holderAgent, Key: "preUpdateHook"}
}

func deleteHook() shared.ReadinessHolder {
	return shared.ReadinessHolder{UserAgent: holderAgent, Key: "preDeleteHook"}
}
