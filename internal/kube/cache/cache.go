// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package cache configures the informer cache by the enabled kinds: its contents and
// indexes.
//
// Most pods and revisions of a cluster are not ours. Objects no enabled kind needs are kept
// as their identity alone: name, labels, owners and deletion, enough for adoption. Cached
// objects may be trimmed, so they are never written back; changes go out as patches. Even
// of whole pods, leaveOutUnread removes fields nobody reads.
package cache

import (
	"maps"
	"reflect"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/lazy"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
)

// Owners are kinds of owners. The version of an ownerReference says nothing, so it is not part of them.
type Owners = sets.Set[schema.GroupKind]

// Contents configures the cache. The zero value keeps the identity of pods and revisions,
// and all other objects whole.
type Contents struct {
	// controllers are, by kind of object, the owners of objects to keep whole.
	controllers map[schema.GroupVersionKind]Owners
	// podAnnotations are annotation keys. Pods with one are kept whole, whoever controls
	// them.
	podAnnotations []string
	// keeps accept further pods to keep whole.
	keeps []func(*corev1.Pod) bool
	// podFacts keeps Needs.PodFacts of every pod.
	podFacts bool
	// distributed are, by kind of copies, the kinds that control copies.
	distributed map[schema.GroupVersionKind]Owners
}

func podKind() schema.GroupVersionKind { return corev1.SchemeGroupVersion.WithKind("Pod") }
func revisionKind() schema.GroupVersionKind {
	return appsv1.SchemeGroupVersion.WithKind("ControllerRevision")
}

// ContentsFor returns the contents for the given kinds.
func ContentsFor(enabled ...kinds.Kind) Contents {
	c := Contents{controllers: map[schema.GroupVersionKind]Owners{podKind(): {}, revisionKind(): {}}}
	for _, kind := range enabled {
		for _, controlled := range controlledBy(kind) {
			if c.controllers[controlled] == nil {
				c.controllers[controlled] = Owners{}
			}
			c.controllers[controlled].Insert(schema.GroupKind{Group: kind.Group, Kind: kind.Name})
		}
		if key := kind.Needs.PodAnnotation; key != "" && !slices.Contains(c.podAnnotations, key) {
			c.podAnnotations = append(c.podAnnotations, key)
		}
		c.podFacts = c.podFacts || kind.Needs.PodFacts
		for _, copied := range kind.Needs.Distributed {
			lazy.Put(&c.distributed, copied, c.distributed[copied].Union(sets.New(kind.GroupKind())))
		}
	}
	return c
}

// Keeping also keeps whole the pods accepted by keeps.
func (c Contents) Keeping(keeps func(*corev1.Pod) bool) Contents {
	c.keeps = append(slices.Clone(c.keeps), keeps)
	return c
}

// controlledBy are the kinds of objects the kind's workloads control.
func controlledBy(kind kinds.Kind) []schema.GroupVersionKind {
	controlled := slices.Clone(kind.Needs.Controls)
	if kind.Needs.ControlsPods {
		controlled = append(controlled, podKind())
	}
	if kind.Needs.OwnsRevisions {
		controlled = append(controlled, revisionKind())
	}
	return controlled
}

// Options configures a manager's cache. all are the kinds with definitions of ours.
// Informers start on demand. managedFields are never kept.
func (c Contents) Options(all kinds.Table) cache.Options {
	options := cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject:         map[client.Object]cache.ByObject{&corev1.Node{}: {Transform: trimNode}},
	}
	for kind, owners := range c.controllers {
		if own, ok := all.Of(kind.Kind); ok && own.Stored() == kind {
			continue // It has reconcilers of its own, or no definition in this cluster.
		}
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(kind)
		needed := func(object client.Object) bool { return ControllerOf(object, owners) != nil }
		trim := identity
		if kind == podKind() {
			needed = c.needsPod
			if c.podFacts {
				trim = withFacts
			}
		}
		options.ByObject[object] = cache.ByObject{Transform: trimUnless(needed, trim)}
	}
	var copies client.ListOptions
	client.HasLabels{shared.LabelDistributed}.ApplyToList(&copies)
	for copied, owners := range c.distributed {
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(copied)
		options.ByObject[object] = cache.ByObject{Label: copies.LabelSelector, Transform: trimCopy(owners)}
	}
	return options
}

// trimCopy keeps who wrote a copy, and the hash of what was copied. Anybody can write the label: of other objects it keeps the identity.
func trimCopy(owners Owners) toolscache.TransformFunc {
	return func(stored any) (any, error) {
		full, ok := stored.(*metav1.PartialObjectMetadata)
		if !ok {
			return stored, nil // The mark of an object whose deletion was missed.
		}
		trimmed := identity(full)
		if ControllerOf(full, owners) != nil {
			trimmed.SetManagedFields(full.ManagedFields)
			trimmed.SetAnnotations(map[string]string{shared.AnnotationDistributedHash: full.Annotations[shared.AnnotationDistributedHash]})
		}
		return trimmed, nil
	}
}

// needsPod is true if an enabled kind needs the whole pod.
func (c Contents) needsPod(pod client.Object) bool {
	if ControllerOf(pod, c.controllers[podKind()]) != nil {
		return true
	}
	if full, ok := pod.(*corev1.Pod); ok && slices.ContainsFunc(c.keeps, func(keeps func(*corev1.Pod) bool) bool { return keeps(full) }) {
		return true
	}
	annotations := pod.GetAnnotations()
	return slices.ContainsFunc(c.podAnnotations, func(key string) bool { _, found := annotations[key]; return found })
}

// ControllerOf returns the object's controller if it is of one of the kinds.
func ControllerOf(object metav1.Object, owners Owners) *metav1.OwnerReference {
	owner := metav1.GetControllerOfNoCopy(object)
	if owner == nil {
		return nil
	}
	version, err := schema.ParseGroupVersion(owner.APIVersion)
	if err != nil || !owners.Has(schema.GroupKind{Group: version.Group, Kind: owner.Kind}) {
		return nil
	}
	return owner
}

// trimUnless trims unneeded objects.
func trimUnless(needed func(client.Object) bool, trim func(client.Object) client.Object) toolscache.TransformFunc {
	return func(stored any) (any, error) {
		object, ok := stored.(client.Object)
		if !ok {
			return stored, nil // The mark of an object whose deletion was missed.
		}
		if needed(object) {
			leaveOutUnread(object)
			return object, nil
		}
		return trim(object), nil
	}
}

// leaveOutUnread removes managedFields, and two fields the server fills in every pod.
func leaveOutUnread(object client.Object) {
	object.SetManagedFields(nil)
	pod, isPod := object.(*corev1.Pod)
	if !isPod {
		return
	}
	pod.Spec.Tolerations = nil
	for i := range pod.Spec.Volumes {
		if projected := pod.Spec.Volumes[i].Projected; projected != nil {
			projected.Sources = nil
		}
	}
}

// withFacts keeps a pod's identity and Needs.PodFacts. It drops kubectl's last applied
// configuration, as long as the whole pod.
func withFacts(full client.Object) client.Object {
	trimmed := identity(full)
	from, isPod := full.(*corev1.Pod)
	to, same := trimmed.(*corev1.Pod)
	if !isPod || !same {
		return trimmed
	}
	to.Annotations = from.Annotations
	if _, found := from.Annotations[corev1.LastAppliedConfigAnnotation]; found {
		to.Annotations = maps.Clone(from.Annotations)
		delete(to.Annotations, corev1.LastAppliedConfigAnnotation)
	}
	for i := range from.Spec.Containers {
		to.Spec.Containers = append(to.Spec.Containers, withNamedPorts(&from.Spec.Containers[i]))
	}
	// Only native sidecars are kept of the init containers: only these can be probed.
	for i := range from.Spec.InitContainers {
		if c := &from.Spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			kept := withNamedPorts(c)
			kept.RestartPolicy = c.RestartPolicy
			to.Spec.InitContainers = append(to.Spec.InitContainers, kept)
		}
	}
	to.Generation, to.Spec.NodeSelector = from.Generation, from.Spec.NodeSelector
	to.Status.PodIP, to.Status.Conditions, to.Status.ObservedGeneration = from.Status.PodIP, from.Status.Conditions, from.Status.ObservedGeneration
	return to
}

// placesAsked are the annotations that ask for a PersistentPodState; nil: none do.
func placesAsked(annotations map[string]string) map[string]string {
	if _, asks := annotations[shared.AnnotationAutoGeneratePersistentPodState]; !asks {
		return nil
	}
	kept := map[string]string{}
	for _, key := range shared.PersistentPodStateAnnotations() {
		if value, found := annotations[key]; found {
			kept[key] = value
		}
	}
	return kept
}

// identity returns an object of the same type with name, labels, owners and deletion. It
// also keeps what workloads of others say of their pods' places, a revision's number, and a pod's node, its end, and its ephemeral containers,
// rare as they are.
func identity(full client.Object) client.Object {
	trimmed, ok := reflect.New(reflect.TypeOf(full).Elem()).Interface().(client.Object)
	if !ok {
		return full // Not possible: the type is that of full.
	}
	switch full := full.(type) {
	case *metav1.PartialObjectMetadata:
		trimmed.GetObjectKind().SetGroupVersionKind(full.GetObjectKind().GroupVersionKind())
		trimmed.SetGeneration(full.Generation)
		trimmed.SetAnnotations(placesAsked(full.Annotations))
	case *unstructured.Unstructured:
		trimmed.GetObjectKind().SetGroupVersionKind(full.GetObjectKind().GroupVersionKind())
	case *corev1.Pod:
		if pod, ok := trimmed.(*corev1.Pod); ok {
			pod.CreationTimestamp = full.CreationTimestamp
			pod.Spec.NodeName, pod.Spec.EphemeralContainers = full.Spec.NodeName, full.Spec.EphemeralContainers
			pod.Status.Phase, pod.Status.EphemeralContainerStatuses = full.Status.Phase, full.Status.EphemeralContainerStatuses
		}
	case *appsv1.ControllerRevision:
		if revision, ok := trimmed.(*appsv1.ControllerRevision); ok {
			revision.Revision = full.Revision
		}
	}
	trimmed.SetNamespace(full.GetNamespace())
	trimmed.SetName(full.GetName())
	trimmed.SetUID(full.GetUID())
	trimmed.SetResourceVersion(full.GetResourceVersion())
	trimmed.SetLabels(full.GetLabels())
	trimmed.SetOwnerReferences(full.GetOwnerReferences())
	trimmed.SetDeletionTimestamp(full.GetDeletionTimestamp())
	return trimmed
}

// withNamedPorts is a container with only its name and its ports' names.
func withNamedPorts(from *corev1.Container) corev1.Container {
	container := corev1.Container{Name: from.Name}
	for _, port := range from.Ports {
		if port.Name != "" {
			container.Ports = append(container.Ports, corev1.ContainerPort{Name: port.Name, ContainerPort: port.ContainerPort})
		}
	}
	return container
}
