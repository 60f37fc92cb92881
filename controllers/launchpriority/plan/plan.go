// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/internal/engine/launch"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

// holds says whose barrier a ConfigMap is: this pod's, or an earlier one's of the name. It may be neither.
func holds(pod *corev1.Pod, found *corev1.ConfigMap) (this, earlier bool) {
	if found == nil {
		return false, false
	}
	for _, owner := range found.OwnerReferences {
		this = this || owner.UID == pod.UID
		earlier = earlier || owner.Kind == "Pod" && owner.APIVersion == "v1" && owner.Name == pod.Name
	}
	return this, earlier && !this
}

// Level is a priority, and its key in the barrier.
type Level struct {
	Priority int
	Key      string
}

// Decision holds the actions for a pod, in the order of the fields.
type Decision struct {
	// Delete removes the found ConfigMap: it is an earlier pod's, or the pod is going.
	Delete bool
	// Create makes a barrier with the keys of Open.
	Create bool
	// Release adds the keys of these levels, the highest first.
	Release []Level
	// Open are all levels released afterwards, the highest first.
	Open []Level
	// Complete marks the pod: all containers may start.
	Complete bool
	// Blocked says why nothing can be done.
	Blocked string
}

// Plan decides for a pod waiting at its barrier:
//
//  1. do nothing for an ended pod; delete the barrier of a terminating one: no container starts any more,
//     and the next pod of this name must not find it;
//  2. leave somebody else's ConfigMap alone, and wait;
//  3. delete an earlier pod's barrier before making this pod's;
//  4. release a priority when all containers of higher ones are ready. A release lasts, even if the barrier is lost:
//     started containers tell the priorities, and a marked pod has them all;
//  5. mark the pod when all are released.
func Plan(pod *corev1.Pod, found *corev1.ConfigMap) Decision {
	var d Decision
	this, earlier := holds(pod, found)
	containers := launch.Containers(pod)
	switch {
	case len(containers) == 0:
		return d
	case pod.DeletionTimestamp != nil:
		d.Delete = this && found.DeletionTimestamp == nil
		return d
	case podstate.Finished(pod):
		return d
	case found != nil && !this && !earlier:
		d.Blocked = fmt.Sprintf("ConfigMap %s, which is to say which containers may start, exists and is not of this pod: delete or rename it", found.Name)
		return d
	case found != nil && found.DeletionTimestamp != nil: // of this pod, or of an earlier one
		d.Blocked = fmt.Sprintf("ConfigMap %s, which says which containers may start, is being deleted, and finalizers keep it: %s",
			found.Name, strings.Join(found.Finalizers, ", "))
		return d
	}
	d.Delete = earlier
	d.Create = !this
	due, _ := launch.Due(containers)
	for _, c := range containers {
		level := Level{c.Priority, c.Key}
		written := this && found.Data[c.Key] != ""
		if !written && !c.Created && !launch.Completed(pod) && c.Priority < due || slices.Contains(d.Open, level) {
			continue
		}
		d.Open = append(d.Open, level)
		if !written {
			d.Release = append(d.Release, level)
		}
	}
	d.Complete = !launch.Completed(pod) &&
		!slices.ContainsFunc(containers, func(c launch.Container) bool { return !slices.Contains(d.Open, Level{c.Priority, c.Key}) })
	return d
}

// Barrier is the ConfigMap of a pod with some keys.
func Barrier(pod *corev1.Pod, open []Level) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: launch.BarrierName(pod.Name),
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}},
	}, Data: Keys(open)}
}

// Keys are the data of a barrier.
func Keys(open []Level) map[string]string {
	keys := map[string]string{}
	for _, level := range open {
		keys[level.Key] = launch.Released
	}
	return keys
}

// NeedsPass reports if the pod waits at its barrier, is not done, misses a release, or has just begun to go.
func NeedsPass(pod *corev1.Pod) bool {
	if podstate.Finished(pod) {
		return false
	}
	containers := launch.Containers(pod)
	switch {
	case len(containers) == 0:
		return false
	case pod.DeletionTimestamp != nil, !launch.Completed(pod):
		return true
	}
	return slices.ContainsFunc(containers, func(c launch.Container) bool { return c.Stuck })
}

// Changed reports if the pod's change can change its plan. Most do not.
func Changed(old, pod *corev1.Pod) bool {
	if old.UID != pod.UID || (old.DeletionTimestamp == nil) != (pod.DeletionTimestamp == nil) || launch.Completed(old) != launch.Completed(pod) {
		return true
	}
	if pod.DeletionTimestamp != nil {
		return false
	}
	before, after := launch.Containers(old), launch.Containers(pod)
	return !slices.EqualFunc(before, after, func(a, b launch.Container) bool {
		return a.Name == b.Name && a.Priority == b.Priority && a.Ready == b.Ready && a.Created == b.Created && a.Stuck == b.Stuck
	})
}
