// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package persistentpodstate

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/controllers/persistentpodstate/plan"
	"github.com/kruise-operator/kruise-operator/internal/hooks"
	"github.com/kruise-operator/kruise-operator/internal/kube/sticky"
)

const (
	// prefix begins the names of the hooks.
	prefix = "place"
	// Path is where the API server calls, followed by the name of a PersistentPodState in the pod's namespace.
	Path = "/place-pods/"
)

// HookOf is the hook on new pods of a state's workload; nil: it needs none. Our StatefulSets ask the planner.
func HookOf(stored *unstructured.Unstructured) *hooks.Hook {
	kind, name := targetOf(stored)
	if kind == sticky.Own() || stored.GetDeletionTimestamp() != nil {
		return nil
	}
	return hooks.NewPods{
		Path: Path, Namespace: stored.GetNamespace(), Name: stored.GetName(), UID: stored.GetUID(), Prefix: prefix, Owner: kind, OwnerName: name,
		FailClosed: stored.GetAnnotations()[shared.AnnotationInjectionFailurePolicy] == string(admissionv1.Fail),
	}.Hook()
}

func hooksOf(context.Context) func(*unstructured.Unstructured) (*hooks.Hook, error) {
	return func(stored *unstructured.Unstructured) (*hooks.Hook, error) { return HookOf(stored), nil }
}

// notSteered is why new pods of the workload do not return; empty: they do, or soon will.
func (r *Reconciler) notSteered(spec *plan.Spec) string {
	if kindOf(spec) == sticky.Own() {
		return ""
	}
	state := r.hooked.State(hooks.NameOf(prefix, spec.State.Namespace, spec.State.Name))
	if state.Reason == hooks.InForce || state.Reason == hooks.Pending {
		return ""
	}
	return fmt.Sprintf("the operator is not asked about them (%s): %s", state.Reason, state.Message)
}
