// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/lazy"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

// MaxStates is how many places a status holds: each takes up to 400 bytes, and an object 1.5 MB.
const MaxStates = 3000

// Places are the remembered places after a pass, and the pods without room.
//
//  1. Without its workload nothing is remembered; while it cannot be read, everything is.
//  2. A ready pod is where it should return to, also when it is being deleted. While it is not ready, its last place stays.
//  3. A label missing on the same node stays as recorded: kubelets lose labels for a moment.
//  4. A place beyond the replicas goes once its pod is gone, unless the policy retains it.
func Places(spec *Spec, s *Snapshot) (places map[string]appsv1beta1.PodState, over []string) {
	before := spec.State.Status.PodStates
	switch {
	case s.Target.Unsupported != "":
		return before, nil
	case s.Target.Missing:
		return nil, nil
	}
	places = maps.Clone(before)
	active := map[string]bool{}
	for _, pod := range s.Pods {
		if isActive(pod) {
			active[pod.Name] = true
		}
		if at, ok := spec.at(s, pod); ok {
			lazy.Put(&places, pod.Name, at)
		}
	}
	for name := range places {
		if n, ok := ordinalOf(name); ok && !spec.Retains && !s.Target.Ordinals.Contains(n) && !active[name] {
			delete(places, name)
		}
	}
	return places, trim(places)
}

func isActive(pod *corev1.Pod) bool { return pod.DeletionTimestamp == nil && !podstate.Finished(pod) }

// at is the place of a pod; false: it is not ready on a known node.
func (spec *Spec) at(s *Snapshot, pod *corev1.Pod) (appsv1beta1.PodState, bool) {
	if pod.Spec.NodeName == "" || podstate.Finished(pod) || !podstate.Ready(pod) {
		return appsv1beta1.PodState{}, false
	}
	labels, known := s.Node(pod.Spec.NodeName)
	if !known {
		return appsv1beta1.PodState{}, false
	}
	at := appsv1beta1.PodState{NodeName: pod.Spec.NodeName}
	recorded := spec.State.Status.PodStates[pod.Name]
	for _, key := range spec.Keys {
		value, found := labels[key]
		if !found && recorded.NodeName == at.NodeName {
			value, found = recorded.NodeTopologyLabels[key]
		}
		if found {
			lazy.Put(&at.NodeTopologyLabels, key, value)
		}
	}
	for _, key := range spec.Annotations {
		if value, found := pod.Annotations[key]; found {
			lazy.Put(&at.Annotations, key, value)
		}
	}
	return at, true
}

// ordinalOf is the number after the last hyphen.
func ordinalOf(pod string) (int, bool) {
	n, err := strconv.Atoi(pod[strings.LastIndex(pod, "-")+1:])
	return n, err == nil && n >= 0
}

// trim removes the places of the highest ordinals beyond MaxStates.
func trim(places map[string]appsv1beta1.PodState) []string {
	if len(places) <= MaxStates {
		return nil
	}
	names := slices.SortedFunc(maps.Keys(places), byOrdinal)
	over := names[MaxStates:]
	for _, name := range over {
		delete(places, name)
	}
	return over
}

func byOrdinal(a, b string) int {
	n, _ := ordinalOf(a)
	m, _ := ordinalOf(b)
	return cmp.Or(cmp.Compare(n, m), cmp.Compare(a, b))
}
