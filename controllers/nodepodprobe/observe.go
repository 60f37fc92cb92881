// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package nodepodprobe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/controllers/nodepodprobe/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/probing"
	"github.com/kruise-operator/kruise-operator/internal/engine/virtualnode"
	"github.com/kruise-operator/kruise-operator/internal/kube/cache"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

// deniedAgain is when to look again after the server did not let PodProbeMarkers be read.
const deniedAgain = 30 * time.Second

func markerKind() schema.GroupVersionKind {
	return appsv1alpha1.GroupVersion().WithKind("PodProbeMarker")
}

// observe reads the node, its pods, and the PodProbeMarkers of their namespaces.
func (r *Reconciler) observe(ctx context.Context, list *appsv1alpha1.NodePodProbe) (plan.Snapshot, error) {
	snapshot := plan.Snapshot{Now: r.Clock.Now(), Off: r.off}
	node := &corev1.Node{}
	err := r.Cache.Get(ctx, client.ObjectKey{Name: list.Name}, node, client.UnsafeDisableDeepCopy)
	if client.IgnoreNotFound(err) != nil {
		return snapshot, fmt.Errorf("reading the node: %w", err)
	}
	snapshot.Node = err == nil && !virtualnode.Is(node)
	if !snapshot.Node || r.off {
		return snapshot, nil
	}
	if err := r.WatchLateSpecs(ctx, workload.Object(markerKind()), r.nodesOf); err != nil {
		return snapshot, err
	}
	pods, err := cache.OnNode(ctx, r.Cache, list.Name)
	if err != nil {
		return snapshot, err
	}
	namespaces := sets.New[string]()
	for i := range pods {
		snapshot.Pods = append(snapshot.Pods, &pods[i])
		namespaces.Insert(pods[i].Namespace)
	}
	if snapshot.Markers, err = r.markers(ctx, namespaces); err != nil {
		return snapshot, err
	}
	snapshot.Selected, err = r.selected(ctx, snapshot.Pods, snapshot.Markers)
	return snapshot, err
}

// selected are, for pods a marker labels, the labels their controllers select by.
func (r *Reconciler) selected(ctx context.Context, pods []*corev1.Pod, markers []*probing.Marker) (map[types.UID]sets.Set[string], error) {
	selected := map[types.UID]sets.Set[string]{}
	for _, pod := range pods {
		if !slices.ContainsFunc(markers, func(m *probing.Marker) bool {
			return m.GivesLabels() && m.Namespace == pod.Namespace && m.Selector.Matches(labels.Set(pod.Labels))
		}) {
			continue
		}
		keys, err := r.controllers.Keys(ctx, pod)
		if err != nil {
			return nil, err
		}
		selected[pod.UID] = keys
	}
	return selected, nil
}

func (r *Reconciler) markers(ctx context.Context, namespaces sets.Set[string]) ([]*probing.Marker, error) {
	stored, err := r.List(ctx, markerKind())
	if err != nil {
		return nil, err
	}
	var markers []*probing.Marker
	for i := range stored {
		if !namespaces.Has(stored[i].GetNamespace()) {
			continue
		}
		if parsed := r.Markers.Of(&stored[i]); parsed != nil {
			markers = append(markers, parsed)
		}
	}
	slices.SortFunc(markers, func(a, b *probing.Marker) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return markers, nil
}

// notObserved handles a NodePodProbe that could not be observed.
func (r *Reconciler) notObserved(cause error) (ctrl.Result, error) {
	switch {
	case errors.Is(cause, workload.ErrNotSynced):
		return ctrl.Result{RequeueAfter: workload.Busy}, nil
	case errors.Is(cause, workload.ErrDenied):
		return ctrl.Result{RequeueAfter: deniedAgain}, nil // the reconciler of PodProbeMarkers says so
	}
	return ctrl.Result{}, cause
}
