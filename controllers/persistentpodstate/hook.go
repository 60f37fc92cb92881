// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package persistentpodstate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/controllers/persistentpodstate/plan"
	"github.com/kruise-operator/kruise-operator/controllers/persistentpodstate/podplace"
	"github.com/kruise-operator/kruise-operator/internal/hooks"
	"github.com/kruise-operator/kruise-operator/internal/kube/cache"
	"github.com/kruise-operator/kruise-operator/internal/kube/sticky"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

const (
	hookController = "persistentpodstate-hook"
	// perHook is how many workloads one hook names: its condition lists them.
	perHook = 100
)

// setupHook registers hooks on new pods of others, while there are states of them. Pods of our StatefulSets need none.
func (r *Reconciler) setupHook(mgr ctrl.Manager, d workload.Dependencies) error {
	r.hooked = d.Hooks.Owner(hookController, nil)
	c, err := workload.NewController(mgr, d, hookController, 1, reconcile.Func(r.register))
	if err != nil {
		return err
	}
	all := reconcile.Request{}
	all.Name = hookController
	look := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{all} })
	if err := c.Watch(cache.Source(d.Cache, workload.Object(plan.Kind()), look, targetsChanged())); err != nil {
		return fmt.Errorf("watching PersistentPodStates: %w", err)
	}
	return c.Watch(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		queue.Add(all) // Without any state, too: others' hooks wait for every owner.
		return nil
	}))
}

func (r *Reconciler) register(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	stored, err := r.List(ctx, plan.Kind())
	if err == nil {
		r.hooked.Want(hooksFor(stored)...)
	}
	return reconcile.Result{}, err
}

// hooksFor are the hooks on pods of the states' workloads.
func hooksFor(stored []unstructured.Unstructured) []*hooks.Hook {
	by := map[admissionv1.FailurePolicyType][]wanted{}
	for i := range stored {
		kind, name := targetOf(&stored[i])
		if kind == sticky.Own() || stored[i].GetDeletionTimestamp() != nil {
			continue
		}
		policy := failurePolicy(&stored[i])
		by[policy] = append(by[policy], wanted{stored[i].GetNamespace(), kind.Group + "/" + kind.Kind + "/" + name, kind == sticky.Native()})
	}
	var all []*hooks.Hook
	for _, policy := range []admissionv1.FailurePolicyType{admissionv1.Fail, admissionv1.Ignore} {
		slices.SortFunc(by[policy], func(a, b wanted) int {
			return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.workload, b.workload))
		})
		n := 0
		for some := range slices.Chunk(by[policy], perHook) {
			all = append(all, hookOn(some, policy, n))
			n++
		}
	}
	return all
}

// wanted is a workload with pods to ask about.
type wanted struct {
	namespace, workload string
	native              bool
}

func failurePolicy(stored *unstructured.Unstructured) admissionv1.FailurePolicyType {
	if stored.GetAnnotations()[shared.AnnotationPlaceFailurePolicy] == string(admissionv1.Fail) {
		return admissionv1.Fail
	}
	return admissionv1.Ignore
}

// hookName names the nth hook of a failure policy.
func hookName(policy admissionv1.FailurePolicyType, n int) string {
	return "persistentpodstate-" + strings.ToLower(string(policy)) + "-" + strconv.Itoa(n) + ".operator.kruise.io"
}

func hookOn(some []wanted, policy admissionv1.FailurePolicyType, n int) *hooks.Hook {
	var namespaces, names []string
	native := true
	for _, w := range some {
		namespaces = append(namespaces, w.namespace)
		names = append(names, "'"+w.namespace+"/"+w.workload+"'")
		native = native && w.native
	}
	hook := &hooks.Hook{
		Name: hookName(policy, n), Order: hooks.Arrange, Mutates: true,
		Resource: corev1.SchemeGroupVersion.WithResource("pods"), Verbs: []admissionv1.OperationType{admissionv1.Create},
		NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: slices.Compact(namespaces)},
		}},
		Conditions: []admissionv1.MatchCondition{{Name: "of-a-remembered-workload", Expression: `object.metadata.?ownerReferences.orValue([]).exists(o, ` +
			`o.?controller.orValue(false) && (request.namespace + '/' + o.apiVersion.split('/')[0] + '/' + o.kind + '/' + o.name) in [` + strings.Join(names, ", ") + `])`}},
		Path: podplace.Path, OnFailure: policy,
	}
	if native {
		hook.ObjectSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: shared.LabelPodName, Operator: metav1.LabelSelectorOpExists},
		}}
	}
	return hook
}

// notSteered is why new pods of the workload do not return; empty: they do, or soon will.
func (r *Reconciler) notSteered(spec *plan.Spec) string {
	if r.hooked == nil || kindOf(spec) == sticky.Own() {
		return ""
	}
	policy := admissionv1.Ignore
	if spec.State.Annotations[shared.AnnotationPlaceFailurePolicy] == string(admissionv1.Fail) {
		policy = admissionv1.Fail
	}
	if state := r.hooked.State(hookName(policy, 0)); state.Reason != hooks.InForce && state.Reason != hooks.Pending {
		return "their hook is not registered (" + string(state.Reason) + "): " + state.Message
	}
	return ""
}
