// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podsettest

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
)

// normalize makes states that differ only in names that never repeat one state. It changes the pod that it is given.
func (c Cluster) normalize(pod *corev1.Pod) *corev1.Pod {
	if c.Clock {
		elapseUnused(pod)
	} else {
		elapse(pod)
	}
	// The order of conditions means nothing.
	slices.SortFunc(pod.Status.Conditions, func(a, b corev1.PodCondition) int { return cmp.Compare(a.Type, b.Type) })
	for i := range pod.Status.Conditions {
		pod.Status.Conditions[i].ObservedGeneration = 0
	}
	renumber(pod)
	return pod
}

// renumber counts generations from 1, keeping which of them are equal and which is higher. Evidence of a generation that the
// kubelet has seen says no more than that, however long ago it was.
func renumber(pod *corev1.Pod) {
	numbers := []int64{pod.Generation, pod.Status.ObservedGeneration}
	eachEvidence(pod, func(generation int64) int64 {
		generation = max(generation, pod.Status.ObservedGeneration)
		numbers = append(numbers, generation)
		return generation
	})
	slices.Sort(numbers)
	numbers = slices.DeleteFunc(slices.Compact(numbers), func(n int64) bool { return n == 0 })
	rank := func(n int64) int64 {
		if n == 0 {
			return 0
		}
		return int64(slices.Index(numbers, n) + 1)
	}
	pod.Generation, pod.Status.ObservedGeneration = rank(pod.Generation), rank(pod.Status.ObservedGeneration)
	eachEvidence(pod, rank)
}

// eachEvidence replaces the generation in the evidence of each update in place: that of the workload and those of SidecarSets.
func eachEvidence(pod *corev1.Pod, replace func(int64) int64) {
	change := func(content map[string]json.RawMessage) bool {
		var generation int64
		if json.Unmarshal(content["generation"], &generation) != nil {
			return false
		}
		text, err := json.Marshal(replace(generation))
		content["generation"] = text
		return err == nil
	}
	write := func(key string, content any) {
		if text, err := json.Marshal(content); err == nil {
			pod.Annotations[key] = string(text)
		}
	}
	var one map[string]json.RawMessage
	if raw := pod.Annotations[shared.AnnotationInPlaceEvidence]; raw != "" && json.Unmarshal([]byte(raw), &one) == nil && change(one) {
		write(shared.AnnotationInPlaceEvidence, one)
	}
	var members map[string]map[string]json.RawMessage
	if raw := pod.Annotations[shared.AnnotationSidecarSetInPlaceEvidence]; raw != "" && json.Unmarshal([]byte(raw), &members) == nil {
		for _, member := range members {
			change(member)
		}
		write(shared.AnnotationSidecarSetInPlaceEvidence, members)
	}
}

// hasTime says that some time in the pod is Now.
func hasTime(pod *corev1.Pod) bool {
	found := false
	eachTime(pod, func(t *metav1.Time) { found = found || t.Time.Equal(Now()) })
	for _, value := range pod.Annotations {
		found = found || strings.Contains(value, Now().Format(time.RFC3339))
	}
	return found
}

// elapse makes everything that happened now have happened long ago.
func elapse(pod *corev1.Pod) {
	eachTime(pod, age)
	for key := range pod.Annotations {
		ageAnnotation(pod, key)
	}
}

// elapseUnused does so for the times that no wait counts from.
func elapseUnused(pod *corev1.Pod) {
	age(&pod.CreationTimestamp)
	if pod.DeletionTimestamp != nil {
		age(pod.DeletionTimestamp)
	}
	if pod.Status.StartTime != nil {
		age(pod.Status.StartTime)
	}
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type != corev1.PodReady || c.Status != corev1.ConditionTrue {
			age(&c.LastTransitionTime)
		}
	}
	ageAnnotation(pod, shared.AnnotationLifecycleTimestamp)
}

func age(t *metav1.Time) {
	if t.Time.Equal(Now()) {
		*t = metav1.NewTime(Long())
	}
}

func ageAnnotation(pod *corev1.Pod, key string) {
	if value, now := pod.Annotations[key], Now().Format(time.RFC3339); strings.Contains(value, now) {
		pod.Annotations[key] = strings.ReplaceAll(value, now, Long().Format(time.RFC3339))
	}
}

// eachTime visits all times of a pod.
func eachTime(pod *corev1.Pod, visit func(*metav1.Time)) {
	visit(&pod.CreationTimestamp)
	if pod.DeletionTimestamp != nil {
		visit(pod.DeletionTimestamp)
	}
	if pod.Status.StartTime != nil {
		visit(pod.Status.StartTime)
	}
	for i := range pod.Status.Conditions {
		visit(&pod.Status.Conditions[i].LastTransitionTime)
	}
	for i := range pod.Status.ContainerStatuses {
		if running := pod.Status.ContainerStatuses[i].State.Running; running != nil {
			visit(&running.StartedAt)
		}
	}
}
