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

// Holder is whose a ConfigMap is that has the name of a pod's barrier.
type Holder string

// The holders.
const (
	// Nobody: there is no such ConfigMap.
	Nobody Holder = ""
	// ThisPod: it is the barrier of the pod.
	ThisPod Holder = "ThisPod"
	// EarlierPod: it is the barrier of a pod that had the same name before. What it says is not believed.
	EarlierPod Holder = "EarlierPod"
	// SomebodyElse: it is no barrier. It is neither changed nor deleted.
	SomebodyElse Holder = "SomebodyElse"
)

// HolderOf is whose a ConfigMap of that name is; nil is Nobody's.
func HolderOf(pod *corev1.Pod, found *corev1.ConfigMap) Holder {
	if found == nil {
		return Nobody
	}
	holder := SomebodyElse
	for _, owner := range found.OwnerReferences {
		switch {
		case owner.UID == pod.UID:
			return ThisPod
		case owner.Kind == "Pod" && owner.APIVersion == "v1" && owner.Name == pod.Name:
			holder = EarlierPod
		}
	}
	return holder
}

// Level is a priority, and the key of the barrier that releases it.
type Level struct {
	Priority int
	Key      string
}

// Decision is what is to be done for a pod, in the order of the fields.
type Decision struct {
	// Delete says that the ConfigMap that was found has to go: it is of an earlier pod, or the pod itself is going.
	Delete bool
	// Create says that a barrier is made, with the keys of Open.
	Create bool
	// Release are the levels whose keys are added to the barrier, the highest first.
	Release []Level
	// Open are all levels that are released then, the highest first.
	Open []Level
	// Complete says that the pod is marked: all of its containers may start.
	Complete bool
	// Blocked says why nothing can be done.
	Blocked string
}

// Plan says what to do for a pod that waits at its barrier:
//
//  1. nothing for a pod that has ended; the barrier of one that is being deleted goes, since none of its containers starts any more and the
//     next pod of that name must not find it;
//  2. a ConfigMap of somebody else is left alone, and the pod waits;
//  3. a barrier of an earlier pod of that name is deleted before there is one of this pod;
//  4. a priority is released when all containers of higher ones are ready; what is released stays so, and after a loss of the barrier what
//     was released before: the priorities of containers that have been there, and all of them for a pod that is marked;
//  5. when all are released, the pod is marked.
func Plan(pod *corev1.Pod, found *corev1.ConfigMap) Decision {
	var d Decision
	holder := HolderOf(pod, found)
	containers := launch.Containers(pod)
	switch {
	case len(containers) == 0:
		return d
	case pod.DeletionTimestamp != nil:
		d.Delete = holder == ThisPod && found.DeletionTimestamp == nil
		return d
	case podstate.Finished(pod):
		return d
	case holder == SomebodyElse:
		d.Blocked = fmt.Sprintf("ConfigMap %s, which is to say which containers may start, exists and is not of this pod: delete or rename it", found.Name)
		return d
	case holder != Nobody && found.DeletionTimestamp != nil: // of this pod, or of an earlier one
		d.Blocked = fmt.Sprintf("ConfigMap %s, which says which containers may start, is being deleted, and finalizers keep it: %s",
			found.Name, strings.Join(found.Finalizers, ", "))
		return d
	}
	d.Delete = holder == EarlierPod
	d.Create = holder != ThisPod
	due, _ := launch.Due(containers)
	for _, c := range containers {
		level := Level{c.Priority, c.Key}
		written := holder == ThisPod && found.Data[c.Key] != ""
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
	barrier := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: launch.BarrierName(pod.Name),
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}},
	}, Data: Keys(open)}
	return barrier
}

// Keys are the data of a barrier.
func Keys(open []Level) map[string]string {
	keys := map[string]string{}
	for _, level := range open {
		keys[level.Key] = launch.Released
	}
	return keys
}

// NeedsPass says that a pod has to be looked at: it waits at its barrier, is not done, or misses what was released, or has just begun to go.
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

// Changed says that a pod has changed in a way that can change its plan. Most changes of a pod do not.
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
