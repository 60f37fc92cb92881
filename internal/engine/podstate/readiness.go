// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podstate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
)

// Holders returns who holds the pod out of service through KruisePodReady, sorted by user agent,
// then key. Any other message counts as an empty list.
func Holders(pod *corev1.Pod) []shared.ReadinessHolder {
	condition := Condition(pod, shared.GateKruisePodReady)
	if condition == nil || condition.Message == "" {
		return nil
	}
	var holders []shared.ReadinessHolder
	if err := json.Unmarshal([]byte(condition.Message), &holders); err != nil {
		return nil
	}
	return sorted(holders)
}

// Hold takes the pod out of service in the name of h, until h is released. Zero when h holds it already, or when the pod does
// not list the gate: nobody would look at the condition.
func Hold(pod *corev1.Pod, h shared.ReadinessHolder, now time.Time) edit.Edit {
	return ReplaceHolds(pod, []shared.ReadinessHolder{h}, nil, now)
}

// Release gives up the holds of hs. The pod is back in service when nobody else holds it and the kubelet agrees. Zero when
// none of them holds it.
func Release(pod *corev1.Pod, now time.Time, hs ...shared.ReadinessHolder) edit.Edit {
	return ReplaceHolds(pod, nil, hs, now)
}

// ReplaceHolds adds the holds in take and removes those in giveUp, in one edit. A holder in both
// keeps its hold.
func ReplaceHolds(pod *corev1.Pod, take, giveUp []shared.ReadinessHolder, now time.Time) edit.Edit {
	if !HasGate(pod, shared.GateKruisePodReady) {
		return edit.Edit{}
	}
	before := Holders(pod)
	after := slices.DeleteFunc(slices.Clone(before), func(h shared.ReadinessHolder) bool { return slices.Contains(giveUp, h) })
	after = sorted(append(after, take...))

	condition := corev1.PodCondition{Type: shared.GateKruisePodReady}
	if old := Condition(pod, shared.GateKruisePodReady); old != nil {
		condition = *old
	}
	status := corev1.ConditionTrue
	if len(after) > 0 {
		status = corev1.ConditionFalse
	}
	if slices.Equal(before, after) && (len(take) == 0 || condition.Status == status) {
		return edit.Edit{}
	}
	if condition.Status != status {
		condition.Status = status
		condition.LastTransitionTime = Time(now)
	}
	condition.Message = message(after)

	var e edit.Edit
	e.SetCondition(condition)
	if ready := OutOfService(pod, e.Conditions, now); ready != nil {
		e.SetCondition(*ready)
	}
	return e
}

// OutOfService returns the Ready=False condition to write along with the changed conditions: the
// pod leaves its endpoints in the same request. Nil unless the containers are ready, some readiness
// gate is not True after the changes, and the pod's Ready condition does not say so yet.
func OutOfService(pod *corev1.Pod, changed []corev1.PodCondition, now time.Time) *corev1.PodCondition {
	ready := Condition(pod, corev1.PodReady)
	if ready == nil || ready.Status == corev1.ConditionFalse || !isTrue(Condition(pod, corev1.ContainersReady)) {
		return nil
	}
	var unmet []string
	for _, gate := range pod.Spec.ReadinessGates {
		condition := find(changed, gate.ConditionType)
		if condition == nil {
			condition = Condition(pod, gate.ConditionType)
		}
		switch {
		case condition == nil:
			unmet = append(unmet, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", gate.ConditionType))
		case condition.Status != corev1.ConditionTrue:
			unmet = append(unmet, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %v", gate.ConditionType, condition.Status))
		}
	}
	if len(unmet) == 0 {
		return nil
	}
	out := *ready
	out.Status = corev1.ConditionFalse
	out.Reason = shared.ReasonReadinessGatesNotReady
	out.Message = strings.Join(unmet, ", ")
	out.LastTransitionTime = Time(now)
	return &out
}

// message is the wire format of a list of holders.
func message(holders []shared.ReadinessHolder) string {
	if len(holders) == 0 {
		return "[]"
	}
	body, _ := json.Marshal(holders) // texts always marshal
	return string(body)
}

func sorted(holders []shared.ReadinessHolder) []shared.ReadinessHolder {
	slices.SortFunc(holders, func(a, b shared.ReadinessHolder) int {
		return cmp.Or(strings.Compare(a.UserAgent, b.UserAgent), strings.Compare(a.Key, b.Key))
	})
	return slices.Compact(holders)
}
