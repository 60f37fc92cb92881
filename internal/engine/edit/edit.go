// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package edit holds the engine's changes of one pod: labels, conditions, images and so on.
// Deciders build an Edit and join several into one; only the executor turns it into requests.
//
// An Edit is sent in at most three requests, in this order, each only after the one before
// succeeded:
//
//  1. pods/status: the conditions; and, without a spec part, all metadata with them: one request
//     will do.
//  2. pods/resize: the resources.
//  3. pods: the images, together with all metadata: a pod never claims a revision without its
//     images. Metadata alone goes here too.
package edit

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/internal/engine/lazy"
)

// Edit is a change of one pod. The zero value changes nothing.
type Edit struct {
	// Labels to set; a nil value removes the label.
	Labels map[string]*string
	// Annotations to set; a nil value removes the annotation.
	Annotations map[string]*string
	// AddFinalizers are added to the pod's.
	AddFinalizers []string
	// RemoveFinalizers are taken from the pod's. A finalizer is in one of the two lists at most.
	RemoveFinalizers []string
	// Conditions are set by type. Each is complete: status, reason, message and transition time. A zero probe time or
	// observed generation leaves the one the pod has.
	Conditions []corev1.PodCondition
	// Images are the new images, by container.
	Images map[string]string
	// Resources are the resources to change, by container; only the quantities named are touched.
	Resources map[string]corev1.ResourceRequirements
	// Fresh is the first write to a new pod, right in any case: it is tied to the pod's UID, not to
	// its resourceVersion, so it does not lose against the scheduler and the kubelet.
	Fresh bool
	// Exact rewrites an annotation shared with others: each request is tied to the resourceVersion,
	// so nothing of theirs is lost.
	Exact bool
}

// IsZero is an Edit without changes, whatever the pod.
func (e Edit) IsZero() bool {
	return !e.hasMetadata() && !e.hasSpec() && len(e.Conditions) == 0
}

func (e Edit) hasMetadata() bool {
	return len(e.Labels)+len(e.Annotations)+len(e.AddFinalizers)+len(e.RemoveFinalizers) > 0
}

func (e Edit) hasSpec() bool {
	return len(e.Images)+len(e.Resources) > 0
}

// SetLabel sets a label.
func (e *Edit) SetLabel(key, value string) { put(&e.Labels, key, ptr.To(value)) }

// RemoveLabel removes a label.
func (e *Edit) RemoveLabel(key string) { put(&e.Labels, key, nil) }

// SetAnnotation sets an annotation.
func (e *Edit) SetAnnotation(key, value string) { put(&e.Annotations, key, ptr.To(value)) }

// RemoveAnnotation removes an annotation.
func (e *Edit) RemoveAnnotation(key string) { put(&e.Annotations, key, nil) }

// AddFinalizer adds a finalizer.
func (e *Edit) AddFinalizer(name string) {
	e.RemoveFinalizers = without(e.RemoveFinalizers, name)
	if !slices.Contains(e.AddFinalizers, name) {
		e.AddFinalizers = append(slices.Clip(e.AddFinalizers), name)
	}
}

// RemoveFinalizer removes a finalizer.
func (e *Edit) RemoveFinalizer(name string) {
	e.AddFinalizers = without(e.AddFinalizers, name)
	if !slices.Contains(e.RemoveFinalizers, name) {
		e.RemoveFinalizers = append(slices.Clip(e.RemoveFinalizers), name)
	}
}

// SetCondition sets a condition in place of one of the same type.
func (e *Edit) SetCondition(condition corev1.PodCondition) {
	e.Conditions = slices.Clone(e.Conditions)
	setCondition(&e.Conditions, condition)
}

// HasCondition says that the Edit sets a condition of this type.
func (e *Edit) HasCondition(conditionType corev1.PodConditionType) bool {
	return slices.ContainsFunc(e.Conditions, func(c corev1.PodCondition) bool { return c.Type == conditionType })
}

// SetResources changes quantities of a container; others in the Edit stay.
func (e *Edit) SetResources(container string, quantities corev1.ResourceRequirements) {
	present := e.Resources[container]
	merged := *present.DeepCopy()
	overlay(&merged.Limits, quantities.Limits)
	overlay(&merged.Requests, quantities.Requests)
	put(&e.Resources, container, merged)
}

// Merge adds another Edit, which wins. The result is Fresh only if every part with a change is.
func (e *Edit) Merge(other Edit) {
	if other.IsZero() {
		return
	}
	e.Fresh = other.Fresh && (e.Fresh || e.IsZero())
	e.Exact = e.Exact || other.Exact
	putAll(&e.Labels, other.Labels)
	putAll(&e.Annotations, other.Annotations)
	for _, name := range other.AddFinalizers {
		e.AddFinalizer(name)
	}
	for _, name := range other.RemoveFinalizers {
		e.RemoveFinalizer(name)
	}
	for _, condition := range other.Conditions {
		e.SetCondition(condition)
	}
	putAll(&e.Images, other.Images)
	for container, quantities := range other.Resources {
		e.SetResources(container, quantities)
	}
}

// Generation is the pod's metadata.generation after all requests: one more for each change of its
// spec.
func (e Edit) Generation(pod *corev1.Pod) int64 {
	generation := pod.Generation
	if len(e.Resources) > 0 && e.applyResources(pod.Spec.DeepCopy()) {
		generation++
	}
	if e.changesImages(&pod.Spec) {
		generation++
	}
	return generation
}

// Apply returns a copy of the pod as the server would have it after all requests. Only the
// resourceVersion stays: nobody can foresee it.
func (e Edit) Apply(pod *corev1.Pod) *corev1.Pod {
	out := pod.DeepCopy()
	out.Generation = e.Generation(pod)
	e.applyResources(&out.Spec)
	e.applyImages(&out.Spec)
	applyKeys(&out.Labels, e.Labels)
	applyKeys(&out.Annotations, e.Annotations)
	out.Finalizers = slices.DeleteFunc(out.Finalizers, func(name string) bool { return slices.Contains(e.RemoveFinalizers, name) })
	for _, name := range e.AddFinalizers {
		if !slices.Contains(out.Finalizers, name) {
			out.Finalizers = append(out.Finalizers, name)
		}
	}
	for _, condition := range e.Conditions {
		setCondition(&out.Status.Conditions, condition)
	}
	return out
}

// changesImages says whether the server would see another image. Unknown containers are left out,
// as in the requests.
func (e Edit) changesImages(spec *corev1.PodSpec) bool {
	return slices.ContainsFunc(spec.Containers, func(c corev1.Container) bool {
		image, ok := e.Images[c.Name]
		return ok && image != c.Image
	})
}

func (e Edit) applyImages(spec *corev1.PodSpec) {
	for i := range spec.Containers {
		container := &spec.Containers[i]
		if image, ok := e.Images[container.Name]; ok {
			container.Image = image
		}
	}
}

// applyResources reports whether anything changed.
func (e Edit) applyResources(spec *corev1.PodSpec) bool {
	changed := false
	for i := range spec.Containers {
		container := &spec.Containers[i]
		quantities, ok := e.Resources[container.Name]
		if !ok {
			continue
		}
		before := container.Resources.DeepCopy()
		overlay(&container.Resources.Limits, quantities.Limits)
		overlay(&container.Resources.Requests, quantities.Requests)
		if !equality.Semantic.DeepEqual(before, &container.Resources) {
			changed = true
		}
	}
	return changed
}

// setCondition replaces the condition of that type, with its open parts kept, or appends it.
func setCondition(conditions *[]corev1.PodCondition, condition corev1.PodCondition) {
	for i := range *conditions {
		old := &(*conditions)[i]
		if old.Type != condition.Type {
			continue
		}
		if condition.ObservedGeneration == 0 {
			condition.ObservedGeneration = old.ObservedGeneration
		}
		if condition.LastProbeTime.IsZero() {
			condition.LastProbeTime = old.LastProbeTime
		}
		*old = condition
		return
	}
	*conditions = append(*conditions, condition)
}

func applyKeys(target *map[string]string, changes map[string]*string) {
	for key, value := range changes {
		if value == nil {
			delete(*target, key)
		} else {
			put(target, key, *value)
		}
	}
}

func overlay(target *corev1.ResourceList, changes corev1.ResourceList) {
	for name, quantity := range changes {
		lazy.Put(target, name, quantity.DeepCopy())
	}
}

// put writes to a copy-on-write map: a merged Edit never changes with its parts.
func put[V any](target *map[string]V, key string, value V) {
	clone := make(map[string]V, len(*target)+1)
	maps.Copy(clone, *target)
	clone[key] = value
	*target = clone
}

// putAll is put for several keys. An empty map becomes the given one, shared: nobody changes it in
// place.
func putAll[V any](target *map[string]V, changes map[string]V) {
	switch {
	case len(changes) == 0:
		return
	case len(*target) == 0:
		*target = changes
		return
	}
	clone := make(map[string]V, len(*target)+len(changes))
	maps.Copy(clone, *target)
	maps.Copy(clone, changes)
	*target = clone
}

func without(names []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(s string) bool { return s == name })
}
