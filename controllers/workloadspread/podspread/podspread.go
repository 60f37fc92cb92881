// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package podspread gives new pods of others their subset.
//
// The API server calls it only for pods whose workload has a WorkloadSpread. Each pod is counted in the status before it is admitted, tied to
// the version read. So several replicas never overfill a subset. Pods that arrive together share one write.
package podspread

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/engine/spread"
	"github.com/kruise-operator/kruise-operator/internal/kube/listed"
	"github.com/kruise-operator/kruise-operator/internal/kube/rounds"
	"github.com/kruise-operator/kruise-operator/internal/webhook/newpods"
)

// Path is where the API server calls, followed by the name of a WorkloadSpread in the pod's namespace.
const Path = "/spread-pods/"

// +kubebuilder:rbac:groups=apps.kruise.io,resources=workloadspreads,verbs=get
// +kubebuilder:rbac:groups=apps.kruise.io,resources=workloadspreads/status,verbs=patch
// +kubebuilder:rbac:groups=apps,resources=deployments;statefulsets;replicasets,verbs=get
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get
// +kubebuilder:rbac:groups="",resources=pods,verbs=list

// Handler answers the API server.
type Handler struct {
	// Client asks the API server directly, not a cache.
	Client client.Client
	// Namespace is the operator's own.
	Namespace string

	rounds rounds.Of[*asked]
}

// asked is one pod in wait for its subset.
type asked struct {
	pod   *corev1.Pod
	owner metav1.OwnerReference
	dry   bool

	// The answer.
	spread *spread.Spread
	at     int
	uid    string
}

// Change gives one pod its subset.
func (h *Handler) Change(ctx context.Context, about newpods.Asked) (warnings []string, err error) {
	ask := &asked{pod: about.Pod, owner: *about.Owner, dry: about.Dry, at: spread.None}
	if err := h.rounds.Ask(ctx, about.Of, ask, h.decide); err != nil || ask.at == spread.None {
		return nil, err
	}
	if err := ask.spread.Inject(ask.pod, ask.at, ask.uid, nil); err != nil {
		warnings = append(warnings, err.Error())
	}
	return warnings, nil
}

// decide gives pods their subsets, and counts them in the stored status.
func (h *Handler) decide(ctx context.Context, name types.NamespacedName, batch []*asked) error {
	stored := &unstructured.Unstructured{}
	stored.SetGroupVersionKind(spread.Kind())
	if err := h.Client.Get(ctx, name, stored); err != nil {
		return client.IgnoreNotFound(err)
	}
	s := spread.ParseStored(stored)
	if s == nil {
		return nil
	}
	s, err := listed.Spreads(ctx, h.Client, h.Namespace).Complete(s)
	if s == nil || err != nil {
		return err
	}
	count := newCounting(h.Client, s, spread.StatusOf(stored), batch)
	for _, a := range batch {
		if err := count.place(ctx, a); err != nil {
			return err
		}
	}
	if !count.changed {
		return nil
	}
	body, _ := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": stored.GetUID(), "resourceVersion": stored.GetResourceVersion()},
		"status":   map[string]any{"versionedSubsetStatuses": count.versions},
	})
	if err := h.Client.Status().Patch(ctx, stored, client.RawPatch(types.MergePatchType, body)); err != nil {
		return fmt.Errorf("counting pods in WorkloadSpread %s: %w", name.Name, err)
	}
	return nil
}
