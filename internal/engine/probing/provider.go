// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package probing

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

// maxAsked is how many probes a pod asks the provider of a virtual node for. With the largest that admission takes, the annotation stays within what
// the API server allows for all annotations of an object.
const maxAsked = 64

// longestAnnotation is how long the list of probes may be, in bytes: half of what the API server allows for all annotations.
const longestAnnotation = 128 << 10

// Selects says that the marker wants a pod, wherever it will run.
func (m *Marker) Selects(pod *corev1.Pod) bool {
	return !m.Deleting && pod.Namespace == m.Namespace && m.Selector.Matches(labels.Set(pod.Labels))
}

// ForProvider are the annotations of a new pod that ask the provider of a virtual node for the probes of the markers that select it; none when there is
// nothing to be asked for. Markers are sorted by name. A probe needs a condition, by which the provider tells its result, and a container of the
// pod, which may be an init container that goes on running. If two probes of a container have the same name, or two probes have the same
// condition, the first counts. left are probes that were left out because there are too many.
func ForProvider(pod *corev1.Pod, markers []*Marker) (annotations map[string]string, left int) {
	var list []appsv1alpha1.PodContainerProbe
	var names []string
	length := 0
	for _, m := range markers {
		if !m.Selects(pod) {
			continue
		}
		for i := range m.Probes {
			of := m.Probes[i]
			if of.PodConditionType == "" || !runs(pod, of.ContainerName) || slices.ContainsFunc(list, clashes(&of)) {
				continue
			}
			of.MarkerPolicy = nil
			// Strings and numbers can always be rendered.
			body, _ := json.Marshal(of)
			if len(list) == maxAsked || length+len(body)+1 > longestAnnotation {
				left++
				continue
			}
			length += len(body) + 1
			list = append(list, of)
			if !slices.Contains(names, m.Name) {
				names = append(names, m.Name)
			}
		}
	}
	if len(list) == 0 {
		return nil, left
	}
	body, _ := json.Marshal(list)
	return map[string]string{appsv1alpha1.AnnotationPodProbe: string(body), appsv1alpha1.AnnotationPodProbeMarkers: strings.Join(names, ",")}, left
}

func clashes(with *appsv1alpha1.PodContainerProbe) func(appsv1alpha1.PodContainerProbe) bool {
	return func(p appsv1alpha1.PodContainerProbe) bool {
		return p.PodConditionType == with.PodConditionType || p.ContainerName == with.ContainerName && p.Name == with.Name
	}
}

// runs says that a pod has a container that goes on running.
func runs(pod *corev1.Pod, name string) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == name }) ||
		slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool {
			return c.Name == name && c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
		})
}

// AsksProvider says that a pod asks the provider of a virtual node for probes of the marker of that name.
func AsksProvider(pod *corev1.Pod, marker string) bool {
	return slices.Contains(strings.Split(pod.Annotations[appsv1alpha1.AnnotationPodProbeMarkers], ","), marker)
}

// askedOf are the probes that a pod asks for. What is no list asks for nothing.
func askedOf(pod *corev1.Pod) []appsv1alpha1.PodContainerProbe {
	var asked []appsv1alpha1.PodContainerProbe
	if json.Unmarshal([]byte(pod.Annotations[appsv1alpha1.AnnotationPodProbe]), &asked) != nil {
		return nil
	}
	return asked
}

// Provided is how far the probes of a marker are for a pod on a virtual node.
type Provided struct {
	// Results are what the provider says. Their probes have no condition: the provider has written it.
	Results []Result
	// Waiting are probes that have no condition yet.
	Waiting []*corev1.Probe
	// Unasked are the names of probes that the pod does not ask for.
	Unasked []string
	// Faults say why probes cannot be carried out.
	Faults []string
}

// Before are, for each probe of a marker, the markers that take precedence because they write the same condition, label or annotation.
type Before map[string][]*Marker

// Before says which of the other markers of the namespace come before this one: of two that write the same condition, label or annotation of a pod, the
// one whose name comes first counts, so that they do not write against each other for ever. It is the same for all pods.
func (m *Marker) Before(others []*Marker) Before {
	before := Before{}
	for i := range m.Probes {
		of := &m.Probes[i]
		shares := func(p appsv1alpha1.PodContainerProbe) bool { return Share(of, &p) }
		for _, other := range others {
			if other.Name < m.Name && slices.ContainsFunc(other.Probes, shares) {
				before[of.Name] = append(before[of.Name], other)
			}
		}
	}
	return before
}

// first names the marker that comes first for a probe of a pod; empty when there is none.
func (b Before) first(probe string, pod *corev1.Pod) string {
	for _, other := range b[probe] {
		if other.Selects(pod) {
			return other.Name
		}
	}
	return ""
}

// Provided says how far the marker's probes are for a pod on a virtual node.
func (m *Marker) Provided(pod *corev1.Pod, before Before) Provided {
	var asked []appsv1alpha1.PodContainerProbe
	if AsksProvider(pod, m.Name) {
		asked = askedOf(pod)
	}
	var p Provided
	fault := func(of *appsv1alpha1.PodContainerProbe, format string, args ...any) {
		p.Faults = append(p.Faults, fmt.Sprintf("probe %s: ", of.Name)+fmt.Sprintf(format, args...))
	}
	for i := range m.Probes {
		of := &m.Probes[i]
		first := before.first(of.Name, pod)
		switch {
		case !runs(pod, of.ContainerName):
			fault(of, "the pod has no container %s", of.ContainerName)
			continue
		case of.PodConditionType == "":
			fault(of, "on virtual nodes it needs a podConditionType, by which the provider tells the result")
			continue
		case first != "":
			fault(of, "it shares its condition, a label or an annotation with PodProbeMarker %s, whose name comes first", first)
			continue
		case !slices.ContainsFunc(asked, func(a appsv1alpha1.PodContainerProbe) bool {
			return a.Name == of.Name && a.ContainerName == of.ContainerName && a.PodConditionType == of.PodConditionType
		}):
			p.Unasked = append(p.Unasked, of.Name)
			continue
		}
		is := podstate.Condition(pod, corev1.PodConditionType(of.PodConditionType))
		if is == nil {
			p.Waiting = append(p.Waiting, &of.Probe)
			continue
		}
		marks := *of
		marks.PodConditionType = ""
		p.Results = append(p.Results, Result{Probe: &marks, State: &appsv1alpha1.ContainerProbeState{Name: of.Name, State: stateOf(is.Status)}})
	}
	return p
}

// stateOf is the result that a condition stands for.
func stateOf(status corev1.ConditionStatus) appsv1alpha1.ProbeState {
	switch status {
	case corev1.ConditionTrue:
		return appsv1alpha1.ProbeSucceeded
	case corev1.ConditionFalse:
		return appsv1alpha1.ProbeFailed
	}
	return appsv1alpha1.ProbeUnknown
}

// Leaving is the edit that removes the marks of a marker from a pod on a virtual node, except those that other markers of the pod also use.
func (m *Marker) Leaving(pod *corev1.Pod, others []*Marker) edit.Edit {
	var leave, stay []*appsv1alpha1.PodContainerProbe
	for i := range m.Probes {
		leave = append(leave, &m.Probes[i])
	}
	for _, other := range others {
		if !other.Selects(pod) {
			continue
		}
		for i := range other.Probes {
			stay = append(stay, &other.Probes[i])
		}
	}
	return Unmark(pod, leave, stay)
}
