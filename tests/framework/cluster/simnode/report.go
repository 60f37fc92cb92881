// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package simnode

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// report is the kubelet's part of a pod's status. It has the kubelet's conditions only, no
// readiness gates or others'.
func (s *simulation) report(pod *corev1.Pod, reportGates bool) corev1.PodStatus {
	out := corev1.PodStatus{
		ObservedGeneration:         pod.Generation,
		Phase:                      s.currentPhase(),
		Reason:                     s.reason,
		Message:                    s.message,
		HostIP:                     s.hostIP,
		HostIPs:                    []corev1.HostIP{{IP: s.hostIP}},
		StartTime:                  &s.started,
		InitContainerStatuses:      statuses(s.init),
		ContainerStatuses:          statuses(s.main),
		EphemeralContainerStatuses: statuses(s.ephemeral),
	}
	if !s.sandboxAt.IsZero() {
		out.PodIP = s.podIP
		out.PodIPs = []corev1.PodIP{{IP: s.podIP}}
	}
	// A kubelet sorts the main containers by name, so positions in spec and status need not agree.
	slices.SortFunc(out.ContainerStatuses, func(a, b corev1.ContainerStatus) int { return strings.Compare(a.Name, b.Name) })

	containersReady := s.containersReady()
	out.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
		condition(corev1.PodReadyToStartContainers, !s.sandboxAt.IsZero() && s.phase == "", "", ""),
		s.initialized(),
		containersReady,
		ready(pod, containersReady, reportGates),
	}
	out.Conditions = append(out.Conditions, s.resizing()...)
	for i := range out.Conditions {
		out.Conditions[i].ObservedGeneration = pod.Generation
	}
	return out
}

func statuses(list []*container) []corev1.ContainerStatus {
	var out []corev1.ContainerStatus
	for _, c := range list {
		out = append(out, c.status)
	}
	return out
}

// currentPhase is Running once every main container has run, even while some of them wait to run again.
func (s *simulation) currentPhase() corev1.PodPhase {
	switch {
	case s.phase != "":
		return s.phase
	case s.given != "":
		return s.given
	case every(s.main, (*container).begun):
		return corev1.PodRunning
	default:
		return corev1.PodPending
	}
}

func condition(kind corev1.PodConditionType, holds bool, reason, message string) corev1.PodCondition {
	c := corev1.PodCondition{Type: kind, Status: corev1.ConditionFalse, Reason: reason, Message: message}
	if holds {
		c.Status = corev1.ConditionTrue
	}
	return c
}

func (s *simulation) initialized() corev1.PodCondition {
	if s.phase == corev1.PodSucceeded {
		return condition(corev1.PodInitialized, true, "PodCompleted", "")
	}
	if len(s.init) == 0 || !s.initDone.IsZero() {
		return condition(corev1.PodInitialized, true, "", "")
	}
	var incomplete []string
	for _, c := range s.init {
		if !c.succeeded() && (c.role != roleSidecar || !c.running()) {
			incomplete = append(incomplete, c.status.Name)
		}
	}
	return condition(corev1.PodInitialized, false, "ContainersNotInitialized",
		fmt.Sprintf("containers with incomplete status: %s", incomplete))
}

func (s *simulation) containersReady() corev1.PodCondition {
	switch s.phase {
	case corev1.PodSucceeded:
		return condition(corev1.ContainersReady, false, "PodCompleted", "")
	case corev1.PodFailed:
		return condition(corev1.ContainersReady, false, "PodFailed", "")
	}
	var unready []string
	for _, c := range slices.Concat(s.init, s.main) {
		if c.role != roleInit && !c.status.Ready {
			unready = append(unready, c.status.Name)
		}
	}
	if len(unready) > 0 {
		return condition(corev1.ContainersReady, false, "ContainersNotReady",
			fmt.Sprintf("containers with unready status: %s", unready))
	}
	return condition(corev1.ContainersReady, true, "", "")
}

// ready is True when the containers are ready and every readiness gate's condition is True.
// An absent condition counts as not True. With ownWords the gates' message is one no
// controller could foresee.
func ready(pod *corev1.Pod, containersReady corev1.PodCondition, ownWords bool) corev1.PodCondition {
	if containersReady.Status != corev1.ConditionTrue {
		containersReady.Type = corev1.PodReady
		return containersReady
	}
	var faults []string
	for _, gate := range pod.Spec.ReadinessGates {
		switch c := findCondition(pod.Status.Conditions, gate.ConditionType); {
		case c == nil:
			faults = append(faults, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", gate.ConditionType))
		case c.Status != corev1.ConditionTrue:
			faults = append(faults, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %v", gate.ConditionType, c.Status))
		}
	}
	if len(faults) > 0 {
		if ownWords {
			faults = append(faults, "as the node sees it")
		}
		return condition(corev1.PodReady, false, "ReadinessGatesNotReady", strings.Join(faults, ", "))
	}
	return condition(corev1.PodReady, true, "", "")
}

// resizing is the condition of changed resources not yet in force, if any.
func (s *simulation) resizing() []corev1.PodCondition {
	var out []corev1.PodCondition
	for _, c := range s.all() {
		if c.resizePending != "" {
			out = append(out, condition(corev1.PodResizePending, true, c.resizePending,
				fmt.Sprintf("the annotation %s refuses the new resources of container %s", Resize, c.status.Name)))
			break
		}
	}
	if slices.ContainsFunc(s.all(), func(c *container) bool { return !c.resizeSince.IsZero() }) {
		out = append(out, condition(corev1.PodResizeInProgress, true, "", ""))
	}
	return out
}

func findCondition(list []corev1.PodCondition, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range list {
		if list[i].Type == kind {
			return &list[i]
		}
	}
	return nil
}

// podPatch is a strategic merge patch of pods/status. Lists of containers replace each
// other, lists of conditions and addresses merge by key. Null removes a field, so removable
// fields are pointers without omitempty.
type podPatch struct {
	Metadata struct {
		// UID makes the patch fail on another pod of the same name.
		UID types.UID `json:"uid"`
	} `json:"metadata"`
	Status statusPatch `json:"status"`
}

type statusPatch struct {
	ObservedGeneration         *int64                   `json:"observedGeneration,omitempty"`
	Phase                      *corev1.PodPhase         `json:"phase,omitempty"`
	Reason                     *string                  `json:"reason,omitempty"`
	Message                    *string                  `json:"message,omitempty"`
	HostIP                     *string                  `json:"hostIP,omitempty"`
	HostIPs                    []corev1.HostIP          `json:"hostIPs,omitempty"`
	PodIP                      *string                  `json:"podIP,omitempty"`
	PodIPs                     []corev1.PodIP           `json:"podIPs,omitempty"`
	StartTime                  *metav1.Time             `json:"startTime,omitempty"`
	InitContainerStatuses      []corev1.ContainerStatus `json:"initContainerStatuses,omitempty"`
	ContainerStatuses          []corev1.ContainerStatus `json:"containerStatuses,omitempty"`
	EphemeralContainerStatuses []corev1.ContainerStatus `json:"ephemeralContainerStatuses,omitempty"`
	Conditions                 []conditionPatch         `json:"conditions,omitempty"`
}

type conditionPatch struct {
	Directive          string                  `json:"$patch,omitempty"`
	Type               corev1.PodConditionType `json:"type"`
	Status             corev1.ConditionStatus  `json:"status,omitempty"`
	Reason             *string                 `json:"reason"`
	Message            *string                 `json:"message"`
	ObservedGeneration int64                   `json:"observedGeneration,omitempty"`
	LastTransitionTime *metav1.Time            `json:"lastTransitionTime,omitempty"`
}

// patchFor is the patch to the wanted status; nil if equal. Somebody else's condition with
// the same meaning stays.
func patchFor(pod *corev1.Pod, want *corev1.PodStatus, now time.Time) ([]byte, error) {
	have := &pod.Status
	patch := podPatch{Status: statusPatch{
		ObservedGeneration:         changed(have.ObservedGeneration, want.ObservedGeneration),
		Phase:                      changed(have.Phase, want.Phase),
		Reason:                     changed(have.Reason, want.Reason),
		Message:                    changed(have.Message, want.Message),
		HostIP:                     changed(have.HostIP, want.HostIP),
		HostIPs:                    changedList(have.HostIPs, want.HostIPs),
		PodIP:                      changed(have.PodIP, want.PodIP),
		PodIPs:                     changedList(have.PodIPs, want.PodIPs),
		InitContainerStatuses:      changedList(have.InitContainerStatuses, want.InitContainerStatuses),
		ContainerStatuses:          changedList(have.ContainerStatuses, want.ContainerStatuses),
		EphemeralContainerStatuses: changedList(have.EphemeralContainerStatuses, want.EphemeralContainerStatuses),
		Conditions:                 changedConditions(have.Conditions, want.Conditions, now),
	}}
	if have.StartTime == nil || !have.StartTime.Equal(want.StartTime) {
		patch.Status.StartTime = want.StartTime
	}
	if equality.Semantic.DeepEqual(patch.Status, statusPatch{}) {
		return nil, nil
	}
	patch.Metadata.UID = pod.UID
	data, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encoding the status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return data, nil
}

func changed[T comparable](have, want T) *T {
	if have == want {
		return nil
	}
	return &want
}

func changedList[T any](have, want []T) []T {
	if equality.Semantic.DeepEqual(have, want) {
		return nil
	}
	return want
}

func changedConditions(have, want []corev1.PodCondition, now time.Time) []conditionPatch {
	var out []conditionPatch
	for i := range want {
		w := &want[i]
		h := findCondition(have, w.Type)
		if h != nil && h.Status == w.Status && h.Reason == w.Reason && h.Message == w.Message &&
			h.ObservedGeneration == w.ObservedGeneration {
			continue
		}
		patch := conditionPatch{
			Type: w.Type, Status: w.Status, ObservedGeneration: w.ObservedGeneration,
			Reason: orNull(w.Reason), Message: orNull(w.Message),
		}
		if h == nil || h.Status != w.Status || h.LastTransitionTime.IsZero() {
			t := seconds(now)
			patch.LastTransitionTime = &t
		}
		out = append(out, patch)
	}
	for _, kind := range []corev1.PodConditionType{corev1.PodResizePending, corev1.PodResizeInProgress} {
		if findCondition(have, kind) != nil && findCondition(want, kind) == nil {
			out = append(out, conditionPatch{Directive: "delete", Type: kind})
		}
	}
	return out
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
