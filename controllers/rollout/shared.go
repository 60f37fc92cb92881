// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/rollouts/shared"
	"github.com/kruise-operator/kruise-operator/api/rollouts/v1alpha1"
	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/rollout/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/routing"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

func sharedKind() schema.GroupVersionKind { return v1alpha1.GroupVersion().WithKind("TrafficRouting") }

// sharedRoutes are the TrafficRouting of a Rollout.
type sharedRoutes struct {
	plan.Shared
	// stored is nil when it is not there.
	stored *unstructured.Unstructured
}

func (s *sharedRoutes) held() bool { return s != nil && s.Held }

// observeShared reads the TrafficRouting from the cache; nil: the Rollout names none. It is watched from the first such Rollout on.
func (r *Reconciler) observeShared(ctx context.Context, o *v1beta1.Rollout) (*sharedRoutes, error) {
	s := &sharedRoutes{Shared: plan.Shared{Name: routing.SharedOf(o)}}
	switch {
	case s.Name == "":
		return nil, nil
	case !r.shares:
		s.Fault = "the operator does not carry out TrafficRoutings here"
		return s, nil
	}
	stored := workload.Object(sharedKind())
	if err := r.WatchLate(ctx, stored, r.sharing); err != nil {
		return nil, err
	}
	err := r.Cache.Get(ctx, types.NamespacedName{Namespace: o.Namespace, Name: s.Name}, stored, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		s.Fault = "there is no TrafficRouting " + s.Name
		return s, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the TrafficRouting: %w", err)
	}
	if s.stored = stored; stored.GetDeletionTimestamp() != nil {
		s.Fault = "TrafficRouting " + s.Name + " is being deleted"
	}
	s.Held = slices.Contains(stored.GetFinalizers(), shared.FinalizerInUse+o.Name)
	others := slices.ContainsFunc(stored.GetFinalizers(), func(f string) bool {
		return strings.HasPrefix(f, shared.FinalizerInUse) && f != shared.FinalizerInUse+o.Name
	})
	phase, _, _ := unstructured.NestedString(stored.Object, "status", "phase")
	switch v1alpha1.TrafficRoutingPhase(phase) {
	case v1alpha1.TrafficRoutingPhaseProgressing, v1alpha1.TrafficRoutingPhaseFinalizing, v1alpha1.TrafficRoutingPhaseTerminating:
		s.Routing = !others
	}
	return s, nil
}

// sharing names the Rollouts that name a TrafficRouting.
func (r *Reconciler) sharing(ctx context.Context, object client.Object) []types.NamespacedName {
	return r.Concerned(ctx, object.GetNamespace(), func(stored *unstructured.Unstructured) bool {
		return routing.SharedIn(stored) == object.GetName()
	})
}
