// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workloadspread

import (
	"context"
	"strconv"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kruise-operator/kruise-operator/controllers/workloadspread/podspread"
	"github.com/kruise-operator/kruise-operator/internal/engine/spread"
	"github.com/kruise-operator/kruise-operator/internal/hooks"
	"github.com/kruise-operator/kruise-operator/internal/kube/listed"
)

// prefix begins the names of the hooks.
const prefix = "spread"

// NeedsHook is true where pods are created by others. Our own workloads ask the planner.
func NeedsHook(s *spread.Spread) bool {
	return s.Target.Group != spread.Kind().Group && len(validation.IsDNS1123Subdomain(s.TargetName)) == 0
}

// HookOf is the hook on the target's new pods, whether the target exists or not.
func HookOf(s *spread.Spread) *hooks.Hook {
	return hooks.NewPods{
		Path: podspread.Path, Namespace: s.Namespace, Name: s.Name, UID: s.UID, Prefix: prefix, Owner: s.Target.GroupKind(), OwnerName: s.TargetName,
		Between:  s.Between,
		Selector: s.Filter, FailClosed: s.FailClosed, SideEffects: admissionv1.SideEffectClassNoneOnDryRun,
	}.Hook()
}

// hookOf is the hook of a stored WorkloadSpread; nil: it needs none.
func hookOf(stored *unstructured.Unstructured, kinds listed.Custom) (*hooks.Hook, error) {
	s := spread.ParseStored(stored) // annotations decide, too
	if s == nil || !NeedsHook(s) {
		return nil, nil
	}
	s, err := kinds.Complete(s)
	if s == nil || err != nil {
		return nil, err
	}
	return HookOf(s), nil
}

// wanted returns the hook of a stored WorkloadSpread.
func (r *Reconciler) wanted(ctx context.Context) func(*unstructured.Unstructured) (*hooks.Hook, error) {
	kinds := listed.Spreads(ctx, r.Live, r.namespace)
	return func(stored *unstructured.Unstructured) (*hooks.Hook, error) {
		if r.off {
			return nil, nil
		}
		hook, err := hookOf(stored, kinds)
		if hook != nil {
			hook.Version = strconv.FormatInt(stored.GetGeneration(), 10)
		}
		return hook, err
	}
}
