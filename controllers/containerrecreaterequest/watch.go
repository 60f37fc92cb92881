// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package containerrecreaterequest

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/restart"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

// byPod finds requests by the UID of their pod.
const byPod = "pod-uid"

// index adds requestsOf's index.
func (r *Reconciler) index(ctx context.Context) error {
	err := r.Cache.IndexField(ctx, workload.Object(r.Kind), byPod, func(object client.Object) []string {
		if uid := object.GetLabels()[appsv1beta1.LabelRequestPodUID]; uid != "" {
			return []string{uid}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("indexing requests by pod: %w", err)
	}
	return nil
}

// requestsOf returns a pod's requests with only the fields for their order.
func (r *Reconciler) requestsOf(ctx context.Context, namespace string, pod types.UID) ([]*appsv1beta1.ContainerRecreateRequest, error) {
	if pod == "" {
		return nil, nil
	}
	list, err := r.List(ctx, r.Kind, client.InNamespace(namespace), client.MatchingFields{byPod: string(pod)})
	if err != nil {
		return nil, err
	}
	all := make([]*appsv1beta1.ContainerRecreateRequest, len(list))
	for i := range list {
		item := &list[i]
		phase, _, _ := unstructured.NestedString(item.Object, "status", "phase")
		all[i] = &appsv1beta1.ContainerRecreateRequest{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: item.GetNamespace(), Name: item.GetName(), CreationTimestamp: item.GetCreationTimestamp(), DeletionTimestamp: item.GetDeletionTimestamp(),
			},
			Status: appsv1beta1.ContainerRecreateRequestStatus{Phase: appsv1beta1.ContainerRecreateRequestPhase(phase)},
		}
	}
	return all, nil
}

// requestsFor names a pod's unfinished requests.
func (r *Reconciler) requestsFor(ctx context.Context, pod client.Object) []types.NamespacedName {
	all, err := r.requestsOf(ctx, pod.GetNamespace(), pod.GetUID())
	if err != nil {
		return nil
	}
	var names []types.NamespacedName
	for _, request := range all {
		if !restart.Over(request) {
			names = append(names, client.ObjectKeyFromObject(request))
		}
	}
	return names
}
