// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

const (
	// byController finds objects by their controller's UID.
	byController = "controller"
	// withoutController finds orphans: value yes.
	withoutController = "orphan"
	// byInstanceClaim finds volume claims with an instance ID: by the UID of each owner, and under OfPod if one of them is a pod.
	byInstanceClaim = "instance-claim"

	// byNode finds pods by the name of their node.
	byNode = "node"

	// OfPod is the owner of the claims of all pods.
	OfPod types.UID = "pod"

	yes = "true"
)

// Index adds the indexes on pods and revisions for Controlled, Orphans and Annotated. It
// starts informers of both.
func (c Contents) Index(ctx context.Context, indexer client.FieldIndexer) error {
	for object, owners := range map[client.Object]Owners{
		&corev1.Pod{}: c.controllers[podKind()], &appsv1.ControllerRevision{}: c.controllers[revisionKind()],
	} {
		controlled := func(object client.Object) []string {
			if owner := ControllerOf(object, owners); owner != nil {
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
		if err := errors.Join(index(ctx, indexer, object, byController, controlled), index(ctx, indexer, object, withoutController, orphan)); err != nil {
			return err
		}
	}
	for _, key := range c.podAnnotations {
		listed := func(pod client.Object) []string { return podstate.Listed(pod.GetAnnotations()[key]) }
		if err := index(ctx, indexer, &corev1.Pod{}, byAnnotation(key), listed); err != nil {
			return err
		}
	}
	if !c.podFacts {
		return nil
	}
	return index(ctx, indexer, &corev1.Pod{}, byNode, func(object client.Object) []string {
		if pod, ok := object.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
			return []string{pod.Spec.NodeName}
		}
		return nil
	})
}

// index adds one index.
func index(ctx context.Context, indexer client.FieldIndexer, object client.Object, name string, values client.IndexerFunc) error {
	if err := indexer.IndexField(ctx, object, name, values); err != nil {
		return fmt.Errorf("indexing %T by %s: %w", object, name, err)
	}
	return nil
}

// OnNode lists a node's pods of all namespaces. An enabled kind must need PodFacts. The
// items are the cache's own: read-only, and most are trimmed.
func OnNode(ctx context.Context, reader client.Reader, node string) ([]corev1.Pod, error) {
	var list corev1.PodList
	if err := reader.List(ctx, &list, client.MatchingFields{byNode: node}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the pods of node %s: %w", node, err)
	}
	return list.Items, nil
}

func byAnnotation(key string) string { return "annotation:" + key }

// IndexByController adds the index of Controlled to one more kind, whatever controls its
// objects. It starts their informer.
func IndexByController(ctx context.Context, indexer client.FieldIndexer, object client.Object) error {
	return index(ctx, indexer, object, byController, func(object client.Object) []string {
		if owner := metav1.GetControllerOfNoCopy(object); owner != nil {
			return []string{string(owner.UID)}
		}
		return nil
	})
}

// Controlled lists, into list, the objects the workload with this UID controls in
// namespace; in all namespaces if empty. The items are the cache's own: read-only.
func Controlled(ctx context.Context, reader client.Reader, list client.ObjectList, namespace string, owner types.UID) error {
	return reader.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{byController: string(owner)}, client.UnsafeDisableDeepCopy)
}

// Orphans lists, into list, the objects of namespace without a controller. The items are
// the cache's own: read-only, and trimmed.
func Orphans(ctx context.Context, reader client.Reader, list client.ObjectList, namespace string) error {
	return reader.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{withoutController: yes}, client.UnsafeDisableDeepCopy)
}

// IndexInstanceClaims adds the index on volume claims for InstanceClaims.
// It may be added while the cache runs.
func IndexInstanceClaims(ctx context.Context, indexer client.FieldIndexer, claims client.Object) error {
	owners := func(object client.Object) []string {
		if object.GetLabels()[shared.LabelInstanceID] == "" {
			return nil
		}
		var values []string
		for _, owner := range object.GetOwnerReferences() {
			values = append(values, string(owner.UID))
			if owner.APIVersion == "v1" && owner.Kind == "Pod" {
				values = append(values, string(OfPod))
			}
		}
		return values
	}
	return index(ctx, indexer, claims, byInstanceClaim, owners)
}

// InstanceClaims lists the volume claims with an instance ID that an owner of this UID, or any pod with OfPod, owns in namespace. The items are
// the cache's own: read-only.
func InstanceClaims(ctx context.Context, reader client.Reader, namespace string, owner types.UID) ([]corev1.PersistentVolumeClaim, error) {
	var list corev1.PersistentVolumeClaimList
	err := reader.List(ctx, &list, client.InNamespace(namespace), client.MatchingFields{byInstanceClaim: string(owner)}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing volume claims: %w", err)
	}
	return list.Items, nil
}
