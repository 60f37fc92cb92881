// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package probing

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/engine/restart"
)

// Defaults of a probe, as the kubelet has them.
const (
	defaultPeriod  = 10
	defaultTimeout = 1
	defaultSuccess = 1
	defaultFailure = 3
)

// Marker is a valid PodProbeMarker.
type Marker struct {
	Namespace, Name string
	// Selector chooses pods of the namespace.
	Selector labels.Selector
	// Probes are its probes. Read-only.
	Probes []appsv1alpha1.PodContainerProbe
	// Withheld are reserved labels and annotations of the policies, sorted. They are not written.
	Withheld []string
	// Deleting markers want nothing any more.
	Deleting bool
}

// Parse reads a PodProbeMarker. The error says why nobody can carry it out.
func Parse(m *appsv1alpha1.PodProbeMarker) (*Marker, error) {
	selector, err := podset.Selector(m.Spec.Selector)
	if err != nil {
		return nil, err
	}
	marker := &Marker{Namespace: m.Namespace, Name: m.Name, Selector: selector, Deleting: m.DeletionTimestamp != nil}
	marker.Probes, marker.Withheld = allowed(m.Spec.Probes)
	return marker, nil
}

// ParseStored is Parse for a stored marker; nil for an invalid one. Its own reconciler says why.
func ParseStored(stored *unstructured.Unstructured) *Marker {
	object := &appsv1alpha1.PodProbeMarker{}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(stored.Object, object) != nil {
		return nil
	}
	parsed, err := Parse(object)
	if err != nil {
		return nil
	}
	return parsed
}

// Chooses says whether the marker wants to probe a pod: a selected and active one.
func (m *Marker) Chooses(pod *corev1.Pod) bool {
	return !m.Deleting && pod.Namespace == m.Namespace && Active(pod) && m.Selector.Matches(labels.Set(pod.Labels))
}

// GivesLabels says that results may change labels of pods.
func (m *Marker) GivesLabels() bool {
	return slices.ContainsFunc(m.Probes, func(p appsv1alpha1.PodContainerProbe) bool {
		return slices.ContainsFunc(p.MarkerPolicy, func(policy appsv1alpha1.ProbeMarkerPolicy) bool { return len(policy.Labels) > 0 })
	})
}

// Active pods can be probed: they are initialized, on a node, and not over.
func Active(pod *corev1.Pod) bool {
	initialized := podstate.Condition(pod, corev1.PodInitialized)
	return pod.DeletionTimestamp == nil && pod.Spec.NodeName != "" && !podstate.Finished(pod) &&
		initialized != nil && initialized.Status == corev1.ConditionTrue
}

// separator stands between the names of a marker and of its probe. Neither has it in it.
const separator = "#"

// Key names a probe among its pod's.
func Key(marker, probe string) string { return marker + separator + probe }

// SplitKey is the opposite of Key; false for other texts.
func SplitKey(key string) (marker, probe string, ok bool) {
	marker, probe, ok = strings.Cut(key, separator)
	return marker, probe, ok && marker != "" && probe != "" && !strings.Contains(probe, separator)
}

// Default fills in a probe as the kubelet would.
func Default(p *corev1.Probe) {
	p.PeriodSeconds = cmp.Or(p.PeriodSeconds, defaultPeriod)
	p.TimeoutSeconds = cmp.Or(p.TimeoutSeconds, defaultTimeout)
	p.SuccessThreshold = cmp.Or(p.SuccessThreshold, defaultSuccess)
	p.FailureThreshold = cmp.Or(p.FailureThreshold, defaultFailure)
	if p.HTTPGet != nil {
		p.HTTPGet.Scheme = cmp.Or(p.HTTPGet.Scheme, corev1.URISchemeHTTP)
	}
}

// Wanted are a marker's probes for one of its pods, and why it cannot have the rest.
func (m *Marker) Wanted(pod *corev1.Pod) (probes []appsv1alpha1.ContainerProbe, faults []string) {
	for i := range m.Probes {
		of := &m.Probes[i]
		container, _ := restart.Find(pod, of.ContainerName)
		if container == nil {
			faults = append(faults, fmt.Sprintf("probe %s: the pod has no container %s", of.Name, of.ContainerName))
			continue
		}
		probe := *of.Probe.DeepCopy()
		probe.TerminationGracePeriodSeconds = nil
		Default(&probe)
		if err := resolve(&probe, container); err != nil {
			faults = append(faults, fmt.Sprintf("probe %s: %s", of.Name, err))
			continue
		}
		probes = append(probes, appsv1alpha1.ContainerProbe{Name: Key(m.Name, of.Name), ContainerName: of.ContainerName, Probe: probe})
	}
	return probes, faults
}

// resolve makes the port of a probe a number.
func resolve(p *corev1.Probe, container *corev1.Container) error {
	var port *intstr.IntOrString
	switch {
	case p.HTTPGet != nil:
		port = &p.HTTPGet.Port
	case p.TCPSocket != nil:
		port = &p.TCPSocket.Port
	default:
		return nil
	}
	if port.Type == intstr.Int {
		return nil
	}
	at := slices.IndexFunc(container.Ports, func(c corev1.ContainerPort) bool { return c.Name == port.StrVal })
	if at < 0 {
		return fmt.Errorf("container %s has no port %s", container.Name, port.StrVal)
	}
	*port = intstr.FromInt32(container.Ports[at].ContainerPort)
	return nil
}
