// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package persistentpodstate

import (
	"cmp"
	"context"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

func ownSets() schema.GroupVersionKind    { return appsv1beta1.GroupVersion().WithKind("StatefulSet") }
func nativeSets() schema.GroupVersionKind { return appsv1.SchemeGroupVersion.WithKind("StatefulSet") }

// changed reports whether a pod changed in fields of its place, or waits for one.
func changed(before, after *corev1.Pod) bool {
	return podstate.Ready(before) != podstate.Ready(after) || before.Spec.NodeName != after.Spec.NodeName ||
		before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() || podstate.Finished(before) != podstate.Finished(after) ||
		podstate.Unschedulable(before) != podstate.Unschedulable(after) || !maps.Equal(before.Annotations, after.Annotations)
}

// ofPod names the states of a pod's workload.
func (r *Reconciler) ofPod(ctx context.Context, pod client.Object) []types.NamespacedName {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return nil
	}
	return r.targeting(ctx, schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind(), types.NamespacedName{Namespace: pod.GetNamespace(), Name: owner.Name})
}

func (r *Reconciler) ofWorkload(kind schema.GroupKind) workload.MapFunc {
	return func(ctx context.Context, object client.Object) []types.NamespacedName {
		return r.targeting(ctx, kind, client.ObjectKeyFromObject(object))
	}
}

func (r *Reconciler) targeting(ctx context.Context, kind schema.GroupKind, name types.NamespacedName) []types.NamespacedName {
	return r.Concerned(ctx, name.Namespace, func(state *unstructured.Unstructured) bool {
		of, target := targetOf(state)
		return of == kind && target == name.Name
	})
}

// targetOf reads the target of a stored state.
func targetOf(stored *unstructured.Unstructured) (schema.GroupKind, string) {
	ref, _, _ := unstructured.NestedStringMap(stored.Object, "spec", "targetRef")
	return schema.FromAPIVersionAndKind(ref["apiVersion"], ref["kind"]).GroupKind(), ref["name"]
}

// ofNode names the states with a place on a node that comes, goes, or has other labels.
func (r *Reconciler) ofNode(ctx context.Context, before, after *corev1.Node) []types.NamespacedName {
	if before != nil && after != nil && before.UID == after.UID && maps.Equal(before.Labels, after.Labels) {
		return nil
	}
	node := cmp.Or(after, before)
	return r.Concerned(ctx, "", func(state *unstructured.Unstructured) bool { return isOn(state, node.Name) })
}

func isOn(stored *unstructured.Unstructured, node string) bool {
	places, _, _ := unstructured.NestedFieldNoCopy(stored.Object, "status", "podStates")
	all, _ := places.(map[string]any)
	for _, at := range all {
		if fields, _ := at.(map[string]any); fields["nodeName"] == node {
			return true
		}
	}
	return false
}
