// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package index says what the cache keeps of pods and revisions, and by which keys it finds them.
//
// Most pods and revisions of a cluster are not ours. Of those only what adoption needs is kept: name, labels, owners and whether
// they are being deleted. So a cached object may be trimmed: it is never written back, and changes go out as patches.
package index

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
)

const (
	// Controller finds what a workload of ours controls, by its UID.
	Controller = "controller"
	// Orphan finds what nothing controls: value yes.
	Orphan = "orphan"
	// InstanceClaim finds volume claims with an instance ID: by the UID of each owner, and under ofPod if one of them is a pod.
	InstanceClaim = "instance-claim"

	ofPod = "pod"

	yes = "true"
)

// Kinds are the workloads that control pods of ours. The version of an ownerReference says nothing.
type Kinds = sets.Set[schema.GroupKind]

// ControllerOf returns the owner that controls object, if it is of one of the kinds.
func ControllerOf(object metav1.Object, kinds Kinds) *metav1.OwnerReference {
	owner := metav1.GetControllerOfNoCopy(object)
	if owner == nil {
		return nil
	}
	version, err := schema.ParseGroupVersion(owner.APIVersion)
	if err != nil || !kinds.Has(schema.GroupKind{Group: version.Group, Kind: owner.Kind}) {
		return nil
	}
	return owner
}

// Cache returns what the cache keeps: of every object all but managedFields; of pods and revisions that the kinds do not control,
// metadata alone.
func Cache(kinds Kinds) cache.Options {
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}:                {Transform: trimPod(kinds)},
			&appsv1.ControllerRevision{}: {Transform: trimRevision(kinds)},
		},
	}
}

func trimPod(kinds Kinds) toolscache.TransformFunc {
	return func(object any) (any, error) {
		pod, ok := object.(*corev1.Pod)
		if !ok {
			return object, nil
		}
		if ControllerOf(pod, kinds) == nil {
			return &corev1.Pod{ObjectMeta: identity(&pod.ObjectMeta)}, nil
		}
		pod.ManagedFields = nil
		return pod, nil
	}
}

func trimRevision(kinds Kinds) toolscache.TransformFunc {
	return func(object any) (any, error) {
		revision, ok := object.(*appsv1.ControllerRevision)
		if !ok {
			return object, nil
		}
		if ControllerOf(revision, kinds) == nil {
			return &appsv1.ControllerRevision{ObjectMeta: identity(&revision.ObjectMeta), Revision: revision.Revision}, nil
		}
		revision.ManagedFields = nil
		return revision, nil
	}
}

// identity keeps what decides whose an object is.
func identity(full *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace:         full.Namespace,
		Name:              full.Name,
		UID:               full.UID,
		ResourceVersion:   full.ResourceVersion,
		Labels:            full.Labels,
		OwnerReferences:   full.OwnerReferences,
		DeletionTimestamp: full.DeletionTimestamp,
	}
}

// Add adds the indexes on pods and revisions.
func Add(ctx context.Context, indexer client.FieldIndexer, kinds Kinds) error {
	controller := func(object client.Object) []string {
		if owner := ControllerOf(object, kinds); owner != nil {
			return []string{string(owner.UID)}
		}
		return nil
	}
	orphan := func(object client.Object) []string {
		if metav1.GetControllerOfNoCopy(object) == nil {
			return []string{yes}
		}
		return nil
	}
	for _, object := range []client.Object{&corev1.Pod{}, &appsv1.ControllerRevision{}} {
		if err := indexer.IndexField(ctx, object, Controller, controller); err != nil {
			return fmt.Errorf("indexing %T by controller: %w", object, err)
		}
		if err := indexer.IndexField(ctx, object, Orphan, orphan); err != nil {
			return fmt.Errorf("indexing %T without controller: %w", object, err)
		}
	}
	return nil
}

// AddController adds the index by controller to objects of one more kind, whatever controls them. The kind is watched from then on.
func AddController(ctx context.Context, indexer client.FieldIndexer, object client.Object) error {
	err := indexer.IndexField(ctx, object, Controller, func(object client.Object) []string {
		if owner := metav1.GetControllerOfNoCopy(object); owner != nil {
			return []string{string(owner.UID)}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("indexing %s by controller: %w", object.GetObjectKind().GroupVersionKind().Kind, err)
	}
	return nil
}

// Controlled lists, into list, what the workload with this UID controls in namespace. The items are the cache's own: read-only.
func Controlled(ctx context.Context, reader client.Reader, list client.ObjectList, namespace string, owner types.UID) error {
	return reader.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{Controller: string(owner)}, client.UnsafeDisableDeepCopy)
}

// Orphans lists, into list, what nothing controls in namespace. The items are the cache's own: read-only, and trimmed.
func Orphans(ctx context.Context, reader client.Reader, list client.ObjectList, namespace string) error {
	return reader.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{Orphan: yes}, client.UnsafeDisableDeepCopy)
}

// AddInstanceClaims adds the index on volume claims. It may be added when the cache runs already.
func AddInstanceClaims(ctx context.Context, indexer client.FieldIndexer) error {
	owners := func(object client.Object) []string {
		if object.GetLabels()[shared.LabelInstanceID] == "" {
			return nil
		}
		var values []string
		for _, owner := range object.GetOwnerReferences() {
			values = append(values, string(owner.UID))
			if owner.APIVersion == "v1" && owner.Kind == "Pod" {
				values = append(values, ofPod)
			}
		}
		return values
	}
	if err := indexer.IndexField(ctx, &corev1.PersistentVolumeClaim{}, InstanceClaim, owners); err != nil {
		return fmt.Errorf("indexing volume claims by owner: %w", err)
	}
	return nil
}

// InstanceClaims lists the volume claims with an instance ID that the workload with this UID owns in namespace, and ClaimsOfPods those
// that any pod owns. The items are the cache's own: read-only.
func InstanceClaims(ctx context.Context, reader client.Reader, namespace string, owner types.UID) ([]corev1.PersistentVolumeClaim, error) {
	return instanceClaims(ctx, reader, namespace, string(owner))
}

// ClaimsOfPods lists the volume claims with an instance ID that pods own in namespace. See InstanceClaims.
func ClaimsOfPods(ctx context.Context, reader client.Reader, namespace string) ([]corev1.PersistentVolumeClaim, error) {
	return instanceClaims(ctx, reader, namespace, ofPod)
}

func instanceClaims(ctx context.Context, reader client.Reader, namespace, value string) ([]corev1.PersistentVolumeClaim, error) {
	var list corev1.PersistentVolumeClaimList
	err := reader.List(ctx, &list, client.InNamespace(namespace), client.MatchingFields{InstanceClaim: value}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing volume claims: %w", err)
	}
	return list.Items, nil
}
