// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workloadspread

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/controllers/workloadspread/podspread"
	"github.com/kruise-operator/kruise-operator/internal/engine/spread"
	"github.com/kruise-operator/kruise-operator/internal/hooks"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

// NeedsHook: the pods are created by others. Our own workloads ask the planner.
func NeedsHook(s *spread.Spread) bool {
	return s.Target.Group != spread.Kind().Group && len(validation.IsDNS1123Subdomain(s.TargetName)) == 0
}

// HookOf is the hook on the target's new pods, whether the target exists or not.
func HookOf(s *spread.Spread) *hooks.Hook {
	hook := &hooks.Hook{
		Name: hookName(s.Namespace, s.Name), UID: s.UID, Order: hooks.Arrange, Mutates: true,
		Resource: corev1.SchemeGroupVersion.WithResource("pods"), Verbs: []admissionv1.OperationType{admissionv1.Create},
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.Namespace}},
		ObjectSelector:    s.Filter,
		Conditions:        []admissionv1.MatchCondition{{Name: "of-the-workload", Expression: ownedBy(s)}},
		Path:              podspread.Path + s.Name, OnFailure: admissionv1.Ignore, SideEffects: admissionv1.SideEffectClassNoneOnDryRun,
	}
	if s.FailClosed {
		hook.OnFailure = admissionv1.Fail
	}
	return hook
}

// hookName is a domain name for a WorkloadSpread.
func hookName(namespace, name string) string {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(namespace + "/" + name)) // writing to a hash never fails
	return "spread-" + rand.SafeEncodeString(strconv.FormatUint(sum.Sum64(), 36)) + ".operator.kruise.io"
}

// ownedBy is true for pods with the target as their controller, or a ReplicaSet named after the Deployment and their hash.
func ownedBy(s *spread.Spread) string {
	owner := fmt.Sprintf("o.kind == '%s' && o.name == '%s'", s.Target.Kind, s.TargetName)
	if s.Target.Kind == "Deployment" {
		owner = fmt.Sprintf("o.kind == 'ReplicaSet' && o.name == '%s-' + object.metadata.?labels[?'%s'].orValue('')", s.TargetName, shared.LabelPodTemplateHash)
	}
	return "object.metadata.?ownerReferences.orValue([]).exists(o, o.?controller.orValue(false) && o.apiVersion.startsWith('" + s.Target.Group + "/') && " + owner + ")"
}

// followHooks has hooks registered for all WorkloadSpreads, also while a takeover holds back passes.
func (r *Reconciler) followHooks(mgr manager.Manager, d workload.Dependencies) error {
	r.hooks = d.Hooks.Owner(spread.Kind().Kind, r.hooksChanged)
	d.Guard = nil
	c, err := workload.NewController(mgr, d, Name+"-hooks", 1, reconcile.Func(func(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
		return ctrl.Result{}, r.wantHooks(ctx)
	}))
	if err != nil {
		return err
	}
	all := ctrl.Request{NamespacedName: types.NamespacedName{Name: Name}}
	return errors.Join(
		c.Watch(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
			queue.Add(all)
			return nil
		})),
		c.Watch(source.Kind(d.Cache, client.Object(workload.Object(spread.Kind())), handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []ctrl.Request {
			return []ctrl.Request{all}
		}))),
	)
}

// wantHooks wants the hooks of all WorkloadSpreads.
func (r *Reconciler) wantHooks(ctx context.Context) error {
	stored, err := r.Stored(ctx)
	if err != nil {
		return err
	}
	var wanted []*hooks.Hook
	byHook := map[string]types.NamespacedName{}
	for i := range stored {
		s := spread.ParseStored(&stored[i]) // annotations decide, too
		if s == nil || !NeedsHook(s) || r.off != "" {
			continue
		}
		hook := HookOf(s)
		hook.Version = strconv.FormatInt(stored[i].GetGeneration(), 10)
		wanted = append(wanted, hook)
		byHook[hook.Name] = client.ObjectKeyFromObject(&stored[i])
	}
	r.byHook.Store(&byHook)
	r.hooks.Want(wanted...)
	return nil
}

// hooksChanged has WorkloadSpreads planned whose hooks are in another state.
func (r *Reconciler) hooksChanged(changed []string) {
	byHook, enqueue := r.byHook.Load(), r.enqueue.Load()
	if byHook == nil || enqueue == nil {
		return // passes over all come
	}
	for _, hook := range changed {
		if name, found := (*byHook)[hook]; found {
			(*enqueue)(name)
		}
	}
}
