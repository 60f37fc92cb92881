// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/engine/launch"
	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
	"github.com/kruise-operator/kruise-operator/internal/kube/writer"
)

// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;delete

// orderContainers makes a new pod's containers start in the pod's order, without admission.
// An earlier pod's barrier of the name goes first: the new pod could take it for its own.
func (b *Base) orderContainers(ctx context.Context, ownerKey freshness.Owner, object client.Object) error {
	pod, isPod := object.(*corev1.Pod)
	if !isPod {
		return nil
	}
	ordered, fault := launch.Order(pod, "")
	if fault != nil {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, pod.Name, field.ErrorList{fault})
	}
	if !ordered {
		return nil
	}
	kind := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	found, err := b.Writer.Look(ctx, kind, client.ObjectKey{Namespace: pod.Namespace, Name: launch.BarrierName(pod.Name)})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking for the barrier of an earlier pod: %w", err)
	}
	for _, owner := range found.OwnerReferences {
		if owner.Kind != "Pod" || owner.APIVersion != "v1" || owner.Name != pod.Name {
			continue
		}
		untracked := &writer.Writer{Client: b.Client, Live: b.Live, Timeout: b.WriteTimeout} // no view of the workload shows it
		if err := untracked.Delete(ctx, ownerKey, freshness.RefOf(kind, found), writer.Delete{ExactVersion: true}); err != nil {
			return fmt.Errorf("deleting the barrier of an earlier pod: %w", err)
		}
		return nil
	}
	return nil
}
