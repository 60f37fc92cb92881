// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarset

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/hooks"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
)

// Setup makes the manager run the reconciler of SidecarSets.
func Setup(ctx context.Context, mgr ctrl.Manager, d workload.Dependencies, c *config.Config) error {
	r := New(d, c.Namespace)
	r.Injection = r.injectionOf(mgr, d, c, d.Hooks.Owner(Kind().Kind, r.hooksChanged))
	if err := workload.EachChange(mgr, d, Name+"-injection", Kind(), r.Injection.Refresh); err != nil {
		return fmt.Errorf("saying what SidecarSets inject: %w", err)
	}
	d.Metrics.SidecarSetInjection.Add(r.countPaths)
	d.Metrics.SidecarSetPods.Add(r.countPods)
	return r.Setup(ctx, mgr, r, workload.Watches{Pods: r.injected, Revisions: true})
}

// injectionOf is the injection of a manager.
func (r *Reconciler) injectionOf(mgr manager.Manager, d workload.Dependencies, c *config.Config, registered Hooks) *Injection {
	return NewInjection(InjectionOptions{
		Live: d.Live, Pods: d.Client, Namespace: c.Namespace, Clock: d.Clock, Hooks: registered, Servers: d.Servers,
		PreferPolicy: c.AdmissionMode != "Webhook" && policyServed(mgr.GetRESTMapper()), SortByName: c.Features.Enabled(features.EnableSortSidecarContainerByName),
		Sets: func(ctx context.Context) ([]unstructured.Unstructured, error) { return r.Stored(ctx) },
	})
}

// policies are the policies of SidecarSets.
func policies(c *config.Config) ([]*hooks.Policy, error) {
	policy, err := Policy(c.Namespace)
	return []*hooks.Policy{policy}, err
}

func policyServed(mapper meta.RESTMapper) bool {
	_, err := mapper.RESTMapping(schema.GroupKind{Group: admissionv1.GroupName, Kind: "MutatingAdmissionPolicy"}, admissionv1.SchemeGroupVersion.Version)
	return err == nil
}

// endInjection ends the injection of a deleted or undecodable set: it has no pass of its own.
func (r *Reconciler) endInjection(ctx context.Context, req ctrl.Request) error {
	if r.Injection == nil || !r.Undecodable(req.NamespacedName) && !r.isGone(ctx, req.NamespacedName) {
		return nil
	}
	return r.Injection.Refresh(ctx)
}

// reconcileInjection has the injection registered.
func (r *Reconciler) reconcileInjection(ctx context.Context, set *appsv1beta1.SidecarSet, observed observation) (InjectionState, error) {
	if r.Injection == nil {
		return InjectionState{}, nil
	}
	state, err := r.Injection.Reconcile(ctx, set.Name, Latest{
		Generation: set.Generation, Revision: observed.snapshot.Update.Name, Hashes: observed.spec.Hashes,
	})
	r.EmitEvents(set, "Inject", state.Events)
	if err != nil {
		err = fmt.Errorf("registering what SidecarSet %s injects: %w", set.Name, err)
	}
	return state, err
}
