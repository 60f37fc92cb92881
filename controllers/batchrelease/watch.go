// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package batchrelease

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/rollouts/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/rollable"
	"github.com/kruise-operator/kruise-operator/internal/engine/rolling"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

// follow watches the workloads of a kind from the first release of one on: ours whole, of those of Kubernetes only their metadata. The
// status of a Deployment tells of its pods; for others that would cost a list of all pods.
func (r *Reconciler) follow(ctx context.Context, row rollable.Workload) error {
	if !row.Native {
		return r.WatchLateGathering(ctx, workload.Object(row.Kind), r.ofWorkload(row), gather)
	}
	object := workload.Metadata(row.Kind)
	if row.Kind.Kind == "Deployment" {
		return r.WatchLateGathering(ctx, object, r.ofWorkload(row), gather)
	}
	return r.WatchLateSpecs(ctx, object, r.ofWorkload(row))
}

// ofWorkload names the releases of a workload or canary Deployment.
func (r *Reconciler) ofWorkload(row rollable.Workload) workload.MapFunc {
	return func(ctx context.Context, object client.Object) []types.NamespacedName {
		return r.Concerned(ctx, object.GetNamespace(), func(stored *unstructured.Unstructured) bool {
			ref, _, _ := unstructured.NestedStringMap(stored.Object, "spec", "workloadRef")
			kind, name := schema.FromAPIVersionAndKind(ref["apiVersion"], ref["kind"]).GroupKind(), ref["name"]
			return kind == row.Kind.GroupKind() && (name == object.GetName() || rolling.CanaryOf(name) == object.GetLabels()[shared.LabelCanary])
		})
	}
}
