// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podset

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
	"github.com/kruise-operator/kruise-operator/internal/engine/lifecycle"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

// Types of conditions about the readiness gates of pods. They are present only while they are True.
const (
	conditionWithoutGate = "PodsWithoutReadinessGate"
	conditionHeld        = "PodsHeldNotReady"
)

// WithoutGate counts the pods without the readiness gate for updates in place. They keep serving during an
// update, or are replaced where the workload needs the gate. False: there are none, or no update is made in
// place. Our pods have the gate. Others come from another manager or an earlier policy, and cannot get a gate.
func WithoutGate(spec *Spec, s *Snapshot) (conditions.Condition, bool) {
	if spec.PodUpdatePolicy != shared.InPlaceIfPossible && spec.PodUpdatePolicy != shared.InPlaceOnly {
		return conditions.Condition{}, false
	}
	var without []*Pod
	for i := range s.Pods {
		if pod := &s.Pods[i]; !pod.Terminating && !podstate.Finished(pod.Object) && !podstate.HasGate(pod.Object, shared.GateInPlaceUpdateReady) {
			without = append(without, pod)
		}
	}
	if len(without) == 0 {
		return conditions.Condition{}, false
	}
	reason, fate := appsv1beta1.ReasonUpdatedInService, "not taken out of service while they are updated in place"
	if spec.NeedsGate {
		reason, fate = appsv1beta1.ReasonReplacedInstead, "replaced instead of being updated in place"
	}
	message := fmt.Sprintf("%s without the readiness gate %s: %s. Such pods are %s; those that replace them have the gate.",
		Count(len(without), "pod is", "pods are"), shared.GateInPlaceUpdateReady, List(names(without)), fate)
	return conditions.New(conditionWithoutGate, true, reason, message), true
}

// HeldByOthers names the writers other than us who hold pods out of service through the readiness gate KruisePodReady; false if none does.
func HeldByOthers(s *Snapshot) (conditions.Condition, bool) {
	held := map[shared.ReadinessHolder][]*Pod{}
	var writers []shared.ReadinessHolder
	for i := range s.Pods {
		pod := &s.Pods[i]
		if pod.Terminating {
			continue
		}
		for _, h := range OtherHolders(pod.Object) {
			if held[h] == nil {
				writers = append(writers, h)
			}
			held[h] = append(held[h], pod)
		}
	}
	if len(writers) == 0 {
		return conditions.Condition{}, false
	}
	slices.SortFunc(writers, func(a, b shared.ReadinessHolder) int {
		return cmp.Or(strings.Compare(a.UserAgent, b.UserAgent), strings.Compare(a.Key, b.Key))
	})
	var messages []string
	for _, h := range writers[:min(len(writers), shown)] {
		messages = append(messages, fmt.Sprintf("%s by %s", List(names(held[h])), describeHolder(h)))
	}
	if more := len(writers) - len(messages); more > 0 {
		messages = append(messages, fmt.Sprintf("and by %d more", more))
	}
	message := fmt.Sprintf("held out of service through the readiness gate %s: %s", shared.GateKruisePodReady, strings.Join(messages, "; "))
	return conditions.New(conditionHeld, true, appsv1beta1.ReasonHeldByOthers, message), true
}

// OtherHolders are the writers who hold the pod out of service through KruisePodReady, without this operator.
// An empty name stands for an unknown writer.
func OtherHolders(pod *corev1.Pod) []shared.ReadinessHolder {
	condition := podstate.Condition(pod, shared.GateKruisePodReady)
	if condition == nil || condition.Status != corev1.ConditionFalse {
		return nil
	}
	all := podstate.Holders(pod)
	if len(all) == 0 {
		return []shared.ReadinessHolder{{}}
	}
	return slices.DeleteFunc(all, lifecycle.IsOwn)
}

func describeHolder(h shared.ReadinessHolder) string {
	if h == (shared.ReadinessHolder{}) {
		return "a writer who left no name"
	}
	const longest = 100 // foreign text must not fill the message
	return strings.TrimSpace(podstate.Clip(h.UserAgent, longest) + " " + podstate.Clip(h.Key, longest))
}

// releaseOver gives up holds on the pod after the end of their requests: their owners are gone.
func (p *Draft) releaseOver(pod *Pod) edit.Edit {
	if len(p.Snapshot.OverRequests) == 0 {
		return edit.Edit{}
	}
	over := slices.DeleteFunc(OtherHolders(pod.Object), func(h shared.ReadinessHolder) bool { return !p.Snapshot.OverRequests[h] })
	if len(over) == 0 {
		return edit.Edit{}
	}
	return podstate.Release(pod.Object, p.Snapshot.Now, over...)
}
