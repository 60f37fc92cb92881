// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// StatefulSetMaxUnavailable is rounded down, and at least 1: a limit of none would stop the set for ever. When omitted, it is 1.
func StatefulSetMaxUnavailable(v *intstr.IntOrString, replicas int32) (int32, error) {
	count, err := MaxUnavailable(v, replicas, intstr.FromInt32(1), Down)
	return max(count, 1), err
}

// StatefulSetScaleMaxUnavailable is rounded down, and at least 1. When omitted, it is Unlimited.
func StatefulSetScaleMaxUnavailable(v *intstr.IntOrString, replicas int32) (int32, error) {
	count, err := named("scaleStrategy.maxUnavailable", v, Unlimited, replicas, Down)
	return max(count, 1), err
}

// CloneSetPartition is rounded up and from 0 to replicas. A percentage that comes to all of several
// replicas keeps one less, except for 100%: 99% asks for an updated pod. When omitted, it is 0.
func CloneSetPartition(v *intstr.IntOrString, replicas int32) (int32, error) {
	count, err := named("partition", v, 0, replicas, Up)
	count = min(count, max(replicas, 0))
	if v != nil && v.Type == intstr.String && v.StrVal != "100%" && replicas > 1 && count == replicas {
		count--
	}
	return count, err
}

// CloneSetLimits are maxUnavailable and maxSurge. The surge is rounded up, is 0 when omitted and while paused. maxUnavailable
// is rounded up without an effective surge and down with one; when omitted, it is 20%.
func CloneSetLimits(maxUnavailable, maxSurge *intstr.IntOrString, replicas int32, paused bool) (unavailable, surge int32, err error) {
	if surge, err = named("maxSurge", maxSurge, 0, replicas, Up); err != nil {
		return 0, 0, err
	}
	if paused {
		surge = 0
	}
	unavailable, err = MaxUnavailable(maxUnavailable, replicas, intstr.FromString("20%"), Rounding(surge == 0))
	return unavailable, surge, err
}

// CloneSetOnDeleteMaxUnavailable is the limit of a CloneSet's deletions with the update type
// OnDelete. It is rounded up, and when omitted it is 20% rounded down. At least 1: there is no
// surge, and no ready pod could ever be deleted otherwise.
func CloneSetOnDeleteMaxUnavailable(v *intstr.IntOrString, replicas int32) (int32, error) {
	if v == nil {
		return max(replicas/5, 1), nil
	}
	count, err := MaxUnavailable(v, replicas, *v, Up)
	return max(count, 1), err
}

// CloneSetScaleMaxUnavailable is rounded up. When omitted, it is Unlimited.
func CloneSetScaleMaxUnavailable(v *intstr.IntOrString, replicas int32) (int32, error) {
	return named("scaleStrategy.maxUnavailable", v, Unlimited, replicas, Up)
}

// DaemonSetLimits are maxUnavailable and maxSurge of the desired nodes, both rounded up. When omitted, the surge is 0 and
// maxUnavailable is 1, or 0 beside a surge; both 0 mean one unavailable.
func DaemonSetLimits(maxUnavailable, maxSurge *intstr.IntOrString, desired int32) (unavailable, surge int32, err error) {
	if surge, err = named("maxSurge", maxSurge, 0, desired, Up); err != nil {
		return 0, 0, err
	}
	unavailable, err = MaxUnavailable(maxUnavailable, desired, intstr.FromInt32(0), Up)
	if err == nil && surge == 0 {
		unavailable = max(unavailable, 1)
	}
	return unavailable, surge, err
}

// DaemonSetPartition is how many nodes keep the old revision, rounded down. When omitted, it is 0.
// desired is the live number of nodes for pods, not the status's: 0 on the first pass. A larger
// partition means something: an update counts other nodes with pods, too.
func DaemonSetPartition(v *intstr.IntOrString, desired int32) (int32, error) {
	return named("partition", v, 0, desired, Down)
}

// DaemonSetBurst is how many pods are created, deleted or edited in one step: rounded down and at least 1. When omitted, it is 250.
func DaemonSetBurst(v *intstr.IntOrString, desired int32) (int32, error) {
	count, err := named("burstReplicas", v, 250, desired, Down)
	return max(count, 1), err
}

// named is the count of a field; absent without it. The error has its name.
func named(name string, v *intstr.IntOrString, absent, of int32, round Rounding) (int32, error) {
	if v == nil {
		return absent, nil
	}
	count, err := Count(*v, of, round)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return count, nil
}
