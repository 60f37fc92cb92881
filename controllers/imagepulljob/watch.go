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
	return r.Concerned(ctx, "", atWork)
}

// byPods names the running jobs choosing nodes by pods in the pod's namespace.
func (r *Reconciler) byPods(ctx context.Context, pod client.Object) []types.NamespacedName {
	return r.Concerned(ctx, pod.GetNamespace(), func(job *unstructured.Unstructured) bool {
		_, found, _ := unstructured.NestedFieldNoCopy(job.Object, "spec", "podSelector")
		return found && atWork(job)
	})
}

// placedOtherwise: a pod may choose another node or none, the only fact a job reads of it.
func placedOtherwise(before, after *corev1.Pod) bool {
	return before.Spec.NodeName != after.Spec.NodeName || !maps.Equal(before.Labels, after.Labels) || isOver(before) != isOver(after)
}

// isOver: a pod has ended, or is going.
func isOver(pod *corev1.Pod) bool { return podstate.Finished(pod) || pod.DeletionTimestamp != nil }

func atWork(job *unstructured.Unstructured) bool {
	end, _, _ := unstructured.NestedString(job.Object, "status", "completionTime")
	return end == ""
}

// jobsOf names the jobs with tags in a NodeImage.
func jobsOf(_ context.Context, object client.Object) (names []types.NamespacedName) {
	for signer := range image.Signers(object) {
		if signer.Kind == plan.Kind().Kind {
			names = append(names, types.NamespacedName{Namespace: signer.Namespace, Name: signer.Name})
		}
	}
	return names
}
