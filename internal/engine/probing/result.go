// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package probing

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

// Result is a node's answer about one probe of a pod.
type Result struct {
	// Probe is the probe, as its marker has it.
	Probe *appsv1alpha1.PodContainerProbe
	// State is the node's answer.
	State *appsv1alpha1.ContainerProbeState
}

// marks are wanted labels or annotations.
type marks map[string]*string

func (m marks) remove(of map[string]string) {
	for key := range of {
		m[key] = nil
	}
}

func (m marks) set(of map[string]string) {
	for key, value := range of {
		m[key] = &value
	}
}

// Changes is the edit for the results of a pod, in the given order; nothing when it shows them
// already:
//
//  1. the condition of the probe is True after a success, else False. It is written with another
//     status or message. Of two results for one condition the first counts;
//  2. the labels and annotations of the other states are removed, and then those of its state are
//     set; without a result, those of all states are removed. A later result may undo an earlier
//     one.
//
// A result without a state changes nothing. now is for conditions without the node's time.
func Changes(pod *corev1.Pod, results []Result, now time.Time) edit.Edit {
	labels, annotations := marks{}, marks{}
	written := edit.Edit{Labels: labels, Annotations: annotations, Fresh: true} // tied to the pod, not to its version: the results hold whatever the kubelet writes meanwhile
	var taken []string
	for _, r := range results {
		if r.State.State == "" {
			continue
		}
		if kind := r.Probe.PodConditionType; kind != "" && !slices.Contains(taken, kind) {
			taken = append(taken, kind)
			if c := condition(kind, r.State, now); !shows(pod, c) {
				written.Conditions = append(written.Conditions, c)
			}
		}
		mark(labels, r, func(p *appsv1alpha1.ProbeMarkerPolicy) map[string]string { return p.Labels })
		mark(annotations, r, func(p *appsv1alpha1.ProbeMarkerPolicy) map[string]string { return p.Annotations })
	}
	maps.DeleteFunc(labels, shown(pod.Labels))
	maps.DeleteFunc(annotations, shown(pod.Annotations))
	return written
}

// mark adds a result's labels, or annotations.
func mark(to marks, r Result, of func(*appsv1alpha1.ProbeMarkerPolicy) map[string]string) {
	for i := range r.Probe.MarkerPolicy {
		if policy := &r.Probe.MarkerPolicy[i]; policy.State != r.State.State {
			to.remove(of(policy))
		}
	}
	for i := range r.Probe.MarkerPolicy {
		if policy := &r.Probe.MarkerPolicy[i]; policy.State == r.State.State {
			to.set(of(policy))
		}
	}
}

// shown compares labels or annotations of a pod with the wanted values.
func shown(has map[string]string) func(key string, wanted *string) bool {
	return func(key string, wanted *string) bool {
		is, found := has[key]
		return found == (wanted != nil) && (!found || is == *wanted)
	}
}

// condition is the pod condition with a result.
func condition(kind string, state *appsv1alpha1.ContainerProbeState, now time.Time) corev1.PodCondition {
	c := corev1.PodCondition{Type: corev1.PodConditionType(kind), Status: corev1.ConditionFalse, Message: state.Message}
	if state.State == appsv1alpha1.ProbeSucceeded {
		c.Status = corev1.ConditionTrue
	}
	at := func(t *metav1.Time) metav1.Time {
		if t == nil {
			return podstate.Time(now)
		}
		return *t
	}
	c.LastProbeTime, c.LastTransitionTime = at(state.LastProbeTime), at(state.LastTransitionTime)
	return c
}

func shows(pod *corev1.Pod, c corev1.PodCondition) bool {
	has := podstate.Condition(pod, c.Type)
	return has != nil && has.Status == c.Status && has.Message == c.Message
}

// SameConditions says that the conditions of a pod tell the same results.
func SameConditions(before, after *corev1.Pod) bool {
	return slices.EqualFunc(before.Status.Conditions, after.Status.Conditions, func(a, b corev1.PodCondition) bool {
		return a.Type == b.Type && a.Status == b.Status && a.Message == b.Message
	})
}

// TakenConditions are the conditions of a marker's probes under an earlier marker's name, on the
// same pods.
func TakenConditions(m *Marker, others []*Marker) []string {
	var taken []string
	for i := range m.Probes {
		kind := m.Probes[i].PodConditionType
		if kind == "" {
			continue
		}
		for _, other := range others {
			same := slices.ContainsFunc(other.Probes, func(p appsv1alpha1.PodContainerProbe) bool { return p.PodConditionType == kind })
			if same && !other.Deleting && other.Namespace == m.Namespace && other.Name < m.Name {
				taken = append(taken, fmt.Sprintf("%s, which PodProbeMarker %s writes", kind, other.Name))
				break
			}
		}
	}
	return taken
}

// Writes are all a probe writes to pods: a condition, labels and annotations.
func Writes(p *appsv1alpha1.PodContainerProbe) sets.Set[string] {
	writes := sets.New[string]()
	if p.PodConditionType != "" {
		writes.Insert("condition " + p.PodConditionType)
	}
	for i := range p.MarkerPolicy {
		for key := range p.MarkerPolicy[i].Labels {
			writes.Insert("label " + key)
		}
		for key := range p.MarkerPolicy[i].Annotations {
			writes.Insert("annotation " + key)
		}
	}
	return writes
}
