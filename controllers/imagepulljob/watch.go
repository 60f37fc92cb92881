// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package imagepulljob

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/controllers/imagepulljob/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/image"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

// unfinished names the running jobs: a node may concern any of them.
func (r *Reconciler) unfinished(ctx context.Context, _ client.Object) []types.NamespacedName {
	return r.atWork(ctx, "", func(*unstructured.Unstructured) bool { return true })
}

// byPods names the running jobs choosing nodes by pods in the pod's namespace.
func (r *Reconciler) byPods(ctx context.Context, pod client.Object) []types.NamespacedName {
	return r.atWork(ctx, pod.GetNamespace(), func(job *unstructured.Unstructured) bool {
		_, found, _ := unstructured.NestedFieldNoCopy(job.Object, "spec", "podSelector")
		return found
	})
}

// placedOtherwise: a pod may choose another node or none, the only fact a job reads of it.
func placedOtherwise(before, after *corev1.Pod) bool {
	return before.Spec.NodeName != after.Spec.NodeName || !maps.Equal(before.Labels, after.Labels) || isOver(before) != isOver(after)
}

// isOver: a pod has ended, or is going.
func isOver(pod *corev1.Pod) bool { return podstate.Finished(pod) || pod.DeletionTimestamp != nil }

// atWork names the running jobs of a namespace, or of all, that may be concerned.
func (r *Reconciler) atWork(ctx context.Context, namespace string, may func(*unstructured.Unstructured) bool) []types.NamespacedName {
	stored, err := r.List(ctx, r.Kind, client.InNamespace(namespace))
	if err != nil {
		return nil
	}
	var names []types.NamespacedName
	for i := range stored {
		end, _, _ := unstructured.NestedString(stored[i].Object, "status", "completionTime")
		if end == "" && may(&stored[i]) {
			names = append(names, client.ObjectKeyFromObject(&stored[i]))
		}
	}
	return names
}

// jobsOf names the jobs with tags in a NodeImage.
func jobsOf(_ context.Context, object client.Object) (names []types.NamespacedName) {
	stored, ok := object.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	for signer := range image.Signers(stored) {
		if signer.Kind == plan.Kind().Kind {
			names = append(names, types.NamespacedName{Namespace: signer.Namespace, Name: signer.Name})
		}
	}
	return names
}
