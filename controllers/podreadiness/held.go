// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podreadiness

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

// byHolder is the index of pods out of service.
const byHolder = "readiness-holder"

// otherHolder is everybody who is not named.
const otherHolder = "other"

// holderNames are the holders of pods in metrics.
func holderNames() []string { return []string{"ContainerRecreateRequest", "Lifecycle", otherHolder} }

// countHeld counts the pods of each holder.
func (r *reconciler) countHeld(set func(value float64, labels ...string)) {
	for _, name := range holderNames() {
		set(float64(len(r.heldBy(name))), name)
	}
}

// countSince says since when the longest hold of each holder lasts.
func (r *reconciler) countSince(set func(value float64, labels ...string)) {
	for _, name := range holderNames() {
		oldest := int64(0)
		for _, pod := range r.heldBy(name) {
			if at := podstate.Condition(&pod, shared.GateKruisePodReady).LastTransitionTime.Unix(); oldest == 0 || at < oldest {
				oldest = at
			}
		}
		set(float64(oldest), name)
	}
}

func (r *reconciler) heldBy(name string) []corev1.Pod {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second) //nolint:forbidigo // a collector of metrics gets no context
	defer cancel()
	var held corev1.PodList
	if err := r.Cache.List(ctx, &held, client.MatchingFields{byHolder: name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	return held.Items
}

// holders are those who hold a pod out of service; nobody when it is not held.
func holders(object client.Object) (names []string) {
	pod, ok := object.(*corev1.Pod)
	if !ok || !podstate.HasGate(pod, shared.GateKruisePodReady) {
		return nil
	}
	condition := podstate.Condition(pod, shared.GateKruisePodReady)
	if condition == nil || condition.Status != corev1.ConditionFalse {
		return nil
	}
	all := podstate.Holders(pod)
	if len(all) == 0 {
		return []string{otherHolder}
	}
	for _, holder := range all {
		name := holder.UserAgent
		if !slices.Contains(holderNames(), name) {
			name = otherHolder
		}
		names = append(names, name)
	}
	return names
}
