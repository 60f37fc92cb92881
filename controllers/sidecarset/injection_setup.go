// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarset

import (
	"context"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/hooks"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
)

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

// reconcileInjection has the injection registered, and returns it for the status.
func (r *Reconciler) reconcileInjection(ctx context.Context, set *appsv1beta1.SidecarSet, observed observation) (plan.Injection, time.Duration, error) {
	if r.Injection == nil {
		return plan.Injection{}, 0, nil
	}
	state, err := r.Injection.Reconcile(ctx, set.Name, Latest{
		Generation: set.Generation, Revision: observed.snapshot.Update.Name, Hash: observed.spec.Hashes.Hash, HashWithoutImage: observed.spec.Hashes.WithoutImage,
	})
	r.EmitEvents(set, "Inject", state.Events)
	injection := plan.Injection{Fault: state.Fault, Stalled: state.Stalled, Pending: state.Pending}
	for _, c := range []*metav1.Condition{&state.Condition, state.Without} {
		if c != nil && c.Type != "" {
			injection.Conditions = append(injection.Conditions,
				conditions.Condition{Type: c.Type, Status: corev1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message})
		}
	}
	if err != nil {
		err = fmt.Errorf("registering what SidecarSet %s injects: %w", set.Name, err)
	}
	return injection, state.RecheckAfter, err
}
