// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kruise-operator/kruise-operator/internal/hooks"
)

// Hooked has the hook of each object of a kind registered. Objects may share one: its name is the same.
type Hooked struct {
	base   *Base
	owner  *hooks.Owner
	hookOf HookOf
	byHook atomic.Pointer[map[string][]types.NamespacedName]
}

// HookOf returns what gives each object its hook; nil for one without.
type HookOf func(context.Context) func(*unstructured.Unstructured) (*hooks.Hook, error)

// FollowHooks registers the hooks of all objects, also while a takeover holds back passes.
func (b *Base) FollowHooks(mgr manager.Manager, d Dependencies, name string, hookOf HookOf) (*Hooked, error) {
	h := &Hooked{base: b, hookOf: hookOf}
	h.owner = d.Hooks.Owner(b.Kind.Kind, h.changed)
	return h, EachChange(mgr, d, name+"-hooks", b.Kind, h.Want, Changes())
}

// EachChange calls look at the start and after each change of an object of the kind, also while a takeover holds back passes.
func EachChange(
	mgr manager.Manager, d Dependencies, name string, kind schema.GroupVersionKind, look func(context.Context) error, changes ...predicate.Predicate,
) error {
	d.Guard = nil
	c, err := NewController(mgr, d, name, 1, reconcile.Func(func(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
		return ctrl.Result{}, look(ctx)
	}))
	if err != nil {
		return err
	}
	all := ctrl.Request{NamespacedName: types.NamespacedName{Name: name}}
	return errors.Join(
		c.Watch(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
			queue.Add(all)
			return nil
		})),
		c.Watch(source.Kind(d.Cache, client.Object(Object(kind)), handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []ctrl.Request {
			return []ctrl.Request{all}
		}), changes...)),
	)
}

// Want registers the hooks of all objects.
func (h *Hooked) Want(ctx context.Context) error {
	if h == nil {
		return nil
	}
	stored, err := h.base.Stored(ctx)
	if err != nil {
		return err
	}
	var wanted []*hooks.Hook
	byHook := map[string][]types.NamespacedName{}
	hookOf := h.hookOf(ctx)
	for i := range stored {
		hook, err := hookOf(&stored[i])
		if err != nil {
			return err
		}
		if hook != nil {
			if len(byHook[hook.Name]) == 0 {
				wanted = append(wanted, hook)
			}
			byHook[hook.Name] = append(byHook[hook.Name], client.ObjectKeyFromObject(&stored[i]))
		}
	}
	h.byHook.Store(&byHook)
	h.owner.Want(wanted...)
	return nil
}

// changed has objects planned whose hooks are in another state.
func (h *Hooked) changed(names []string) {
	byHook := h.byHook.Load()
	if byHook == nil {
		return // passes over all come
	}
	for _, hook := range names {
		for _, object := range (*byHook)[hook] {
			h.base.Enqueue(object)
		}
	}
}

// State is how it is with the hook of a name; in force in tests without hooks.
func (h *Hooked) State(name string) hooks.State {
	if h == nil {
		return hooks.State{Reason: hooks.InForce}
	}
	return h.owner.State(name)
}
