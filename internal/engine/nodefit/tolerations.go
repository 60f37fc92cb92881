// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package nodefit

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// DaemonTolerations are every daemon pod's: it stays on an unready or unreachable node, and runs on
// one under pressure or cordoned. One on the network of the host also runs where the network of
// pods does not work yet.
func DaemonTolerations(hostNetwork bool) []corev1.Toleration {
	exists := func(key string, effect corev1.TaintEffect) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect}
	}
	tolerations := []corev1.Toleration{
		exists(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute),
		exists(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute),
		exists(corev1.TaintNodeDiskPressure, corev1.TaintEffectNoSchedule),
		exists(corev1.TaintNodeMemoryPressure, corev1.TaintEffectNoSchedule),
		exists(corev1.TaintNodePIDPressure, corev1.TaintEffectNoSchedule),
		exists(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule),
	}
	if hostNetwork {
		tolerations = append(tolerations, exists(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule))
	}
	return tolerations
}

// Tolerations are a template's and the added ones. An added one replaces the same one with a
// limited time. The result shares nothing with of.
func Tolerations(of []corev1.Toleration, added ...corev1.Toleration) []corev1.Toleration {
	all := slices.Clone(of)
	for _, toleration := range added {
		same := slices.IndexFunc(all, func(t corev1.Toleration) bool { return t.MatchToleration(&toleration) })
		if same < 0 {
			all = append(all, toleration)
		} else {
			all[same] = toleration
		}
	}
	return all
}
