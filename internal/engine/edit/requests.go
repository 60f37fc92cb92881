// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package edit

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
)

// Subresources of a pod.
const (
	SubresourceStatus = "status"
	SubresourceResize = "resize"
)

// Requests renders the Edit as patches of its pod, in their order.
//
// The patches are strategic merges, with conditions by type and containers by name, so other
// entries stay. Lists keep the pod's order: another order of containers is a forbidden change.
//
// Only the first patch is tied to the observed version, the others to the pod's UID: the kubelet, and
// other watchers of the pod, may write its status as soon as a condition changes. All of an Exact
// edit's are tied to the version.
//
// An Edit is of pods: the object is one.
func (e Edit) Requests(object planning.Object) []planning.Request {
	pod := object.(*corev1.Pod)
	metadata := func(p *patch) { e.addMetadata(p, pod) }
	conditions := func(p *patch) { e.addConditions(p, pod) }
	var requests []planning.Request
	add := func(subresource string, parts ...func(*patch)) {
		tied := !e.Fresh && (e.Exact || len(requests) == 0)
		requests = append(requests, planning.Request{
			Subresource: subresource,
			Type:        types.StrategicMergePatchType,
			Body: func(version planning.Version) ([]byte, error) {
				p := patch{Metadata: MetadataPatch{UID: pod.UID}}
				if tied {
					p.Metadata.ResourceVersion = version.ResourceVersion
				}
				for _, part := range parts {
					part(&p)
				}
				return json.Marshal(p)
			},
		})
	}

	if !e.hasSpec() {
		switch {
		case len(e.Conditions) > 0:
			add(SubresourceStatus, metadata, conditions)
		case e.hasMetadata():
			add("", metadata)
		}
		return requests
	}
	if len(e.Conditions) > 0 {
		add(SubresourceStatus, conditions)
	}
	if len(e.Resources) > 0 {
		add(SubresourceResize, func(p *patch) { e.addResources(p, pod) })
	}
	if len(e.Images) > 0 || e.hasMetadata() {
		add("", metadata, func(p *patch) { e.addImages(p, pod) })
	}
	return requests
}

type patch struct {
	Metadata MetadataPatch `json:"metadata"`
	Spec     *specPatch    `json:"spec,omitempty"`
	Status   *statusPatch  `json:"status,omitempty"`
}

// MetadataPatch is the metadata in a strategic merge patch of a pod.
type MetadataPatch struct {
	UID              types.UID          `json:"uid,omitempty"`
	ResourceVersion  string             `json:"resourceVersion,omitempty"`
	Labels           map[string]*string `json:"labels,omitempty"`
	Annotations      map[string]*string `json:"annotations,omitempty"`
	Finalizers       []string           `json:"finalizers,omitempty"`
	DeleteFinalizers []string           `json:"$deleteFromPrimitiveList/finalizers,omitempty"`
}

type specPatch struct {
	Containers []containerPatch `json:"containers"`
}

type containerPatch struct {
	Name      string                       `json:"name"`
	Image     string                       `json:"image,omitempty"`
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
}

type statusPatch struct {
	Conditions []map[string]any `json:"conditions"`
}

func (e Edit) addMetadata(p *patch, pod *corev1.Pod) {
	p.Metadata.Labels = e.Labels
	p.Metadata.Annotations = e.Annotations
	for _, name := range e.AddFinalizers {
		if !slices.Contains(pod.Finalizers, name) {
			p.Metadata.Finalizers = append(p.Metadata.Finalizers, name)
		}
	}
	p.Metadata.DeleteFinalizers = e.RemoveFinalizers
}

func (e Edit) addConditions(p *patch, pod *corev1.Pod) {
	p.Status = &statusPatch{}
	for _, condition := range inOrder(e.Conditions, pod) {
		// Reason and message are always named: a merge patch would keep the old ones.
		rendered := map[string]any{
			"type":               condition.Type,
			"status":             condition.Status,
			"reason":             condition.Reason,
			"message":            condition.Message,
			"lastTransitionTime": condition.LastTransitionTime,
		}
		if !condition.LastProbeTime.IsZero() {
			rendered["lastProbeTime"] = condition.LastProbeTime
		}
		if condition.ObservedGeneration != 0 {
			rendered["observedGeneration"] = condition.ObservedGeneration
		}
		p.Status.Conditions = append(p.Status.Conditions, rendered)
	}
}

func (e Edit) addImages(p *patch, pod *corev1.Pod) {
	for _, container := range pod.Spec.Containers {
		if image, ok := e.Images[container.Name]; ok {
			p.addContainer(containerPatch{Name: container.Name, Image: image})
		}
	}
}

func (e Edit) addResources(p *patch, pod *corev1.Pod) {
	for _, container := range pod.Spec.Containers {
		if quantities, ok := e.Resources[container.Name]; ok {
			p.addContainer(containerPatch{
				Name:      container.Name,
				Resources: &corev1.ResourceRequirements{Limits: quantities.Limits, Requests: quantities.Requests},
			})
		}
	}
}

func (p *patch) addContainer(container containerPatch) {
	if p.Spec == nil {
		p.Spec = &specPatch{}
	}
	p.Spec.Containers = append(p.Spec.Containers, container)
}

// inOrder sorts conditions as the pod has them; new ones come last.
func inOrder(conditions []corev1.PodCondition, pod *corev1.Pod) []corev1.PodCondition {
	place := func(condition corev1.PodCondition) int {
		i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == condition.Type })
		if i < 0 {
			return len(pod.Status.Conditions)
		}
		return i
	}
	return slices.SortedStableFunc(slices.Values(conditions), func(a, b corev1.PodCondition) int { return place(a) - place(b) })
}
