// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarset

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/metadata"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
)

// cleanUpTimeout is the timeout of one try to remove what is registered, cleanUpRetry the delay before the next try.
const (
	cleanUpTimeout = 30 * time.Second
	cleanUpRetry   = 10 * time.Second
)

// injectionOf is the injection of a manager.
func injectionOf(mgr manager.Manager, d workload.Dependencies, c *config.Config) (*Injection, error) {
	watches, err := metadata.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("watching what SidecarSets register: %w", err)
	}
	options := InjectionOptions{
		Metadata: watches, Client: d.Client, Live: d.Live, Pods: d.Client, Namespace: c.Namespace, Clock: d.Clock,
		Kinds: c.Table, PreferPolicy: c.AdmissionMode != "Webhook", SortByName: c.Features.Enabled(features.EnableSortSidecarContainerByName),
		Sets: func(ctx context.Context) ([]unstructured.Unstructured, error) {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(Kind())
			err := d.Cache.List(ctx, list, client.UnsafeDisableDeepCopy)
			return list.Items, err
		},
	}
	if d.Denied != nil {
		options.ReadError = d.Denied.Handle
	}
	return NewInjection(options), nil
}

// CleanUp makes the manager remove what is registered for SidecarSets while the kind is off: no pod may wait for an operator that does not
// answer for it.
func CleanUp(_ context.Context, mgr ctrl.Manager, d workload.Dependencies, c *config.Config) error {
	none := NewInjection(InjectionOptions{
		Client: d.Client, Live: d.Live, Namespace: c.Namespace, Clock: d.Clock, PreferPolicy: true,
		Sets: func(context.Context) ([]unstructured.Unstructured, error) { return nil, nil },
	})
	return mgr.Add(none.cleanUp())
}

// cleanUp removes what is registered for sets that are not there: they may have been deleted while the operator did not run, and then
// nothing triggers a pass.
func (i *Injection) cleanUp() manager.Runnable {
	return manager.RunnableFunc(func(ctx context.Context) error {
		for {
			wait, err := i.tryCleanUp(ctx)
			if err != nil {
				ctrl.LoggerFrom(ctx).Info("Cannot take back yet what is registered on pods", "reason", err.Error())
				wait = cleanUpRetry
			}
			if wait == 0 {
				return nil
			}
			timer := time.NewTimer(wait)
			select {
			case <-ctx.Done():
				timer.Stop()
				return nil
			case <-timer.C:
			}
		}
	})
}

func (i *Injection) tryCleanUp(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, cleanUpTimeout)
	defer cancel()
	sets, err := i.options.Sets(ctx)
	if err != nil || len(sets) > 0 {
		return 0, err // The passes of these see to it.
	}
	state, err := i.Reconcile(ctx, "", Latest{})
	return state.RecheckAfter, err
}

// endInjection removes the injection of a set that was deleted, or whose stored object cannot be decoded. Such a set has no pass of its own.
func (r *Reconciler) endInjection(ctx context.Context, req ctrl.Request) (time.Duration, error) {
	if r.Injection == nil {
		return 0, nil
	}
	set := &unstructured.Unstructured{}
	set.SetGroupVersionKind(Kind())
	err := r.Cache.Get(ctx, req.NamespacedName, set, client.UnsafeDisableDeepCopy)
	var state InjectionState
	switch {
	case apierrors.IsNotFound(err):
		r.counts.forget(req.Name)
		state, err = r.Injection.Gone(ctx, req.Name)
	case err == nil && workload.Paused(set):
		// One of its name was deleted, and this one has come so soon after that nobody has seen it.
		if r.Injection.Succeeds(req.Name, set.GetUID()) {
			state, err = r.Injection.Reconcile(ctx, req.Name, Latest{})
		}
	case err == nil && r.Undecodable(req.NamespacedName):
		r.counts.saw(req.Name, contribution{reason: appsv1beta1.ReasonUndecodable, status: string(metav1.ConditionFalse)})
		state, err = r.Injection.Reconcile(ctx, req.Name, Latest{})
	}
	return state.RecheckAfter, err
}

// registrationTimeout is for how long what is registered may be refused until the set counts as stalled.
const registrationTimeout = 30 * time.Second

// failing notes how a pass over a set has ended, and says for how long all have failed.
func (i *Injection) failing(name string, err error) time.Duration {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	known, now := i.proofsOf(name), i.options.Clock.Now()
	switch {
	case err == nil:
		known.failing = time.Time{}
		return 0
	case known.failing.IsZero():
		known.failing = now
	}
	return now.Sub(known.failing)
}

// says notes what is said of a version of a set. After an error that is what was said before, for a while and about the same spec: mostly others had changed
// something at the same moment, or the server was busy, and what is registered stays so.
func (i *Injection) says(name, version string, state InjectionState, err error) InjectionState {
	failing := i.failing(name, err)
	i.mutex.Lock()
	defer i.mutex.Unlock()
	known := i.proofsOf(name)
	if err == nil {
		known.said, known.saidAbout = state, version
		known.said.Events = nil
		return state
	}
	if state.Condition.Type != "" {
		return state
	}
	said := notRegistered(err, failing)
	passes := !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) && failing < registrationTimeout
	if passes && known.said.Condition.Type != "" && known.saidAbout == version {
		said = known.said
	}
	said.Without, said.PodsWithout, said.Events = state.Without, state.PodsWithout, state.Events
	return said
}

// notRegistered is the state of a set that could not be registered for some time. The operator retries, which helps when the server was busy;
// otherwise somebody has to grant the permissions or correct what the server refuses.
func notRegistered(err error, failing time.Duration) InjectionState {
	fault := "they cannot be registered at the API server: " + err.Error()
	return InjectionState{
		Path: PathNone, Fault: fault, Stalled: apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || failing >= registrationTimeout,
		Condition: metav1.Condition{Type: ConditionInjectionPath, Status: metav1.ConditionUnknown, Reason: appsv1beta1.ReasonNotRegistered, Message: fault},
	}
}

// reconcileInjection registers what the set injects, and returns what its status says about that. What cannot be done is a condition,
// too; the error has it tried again.
func (r *Reconciler) reconcileInjection(ctx context.Context, set *appsv1beta1.SidecarSet, observed observation) (plan.Injection, time.Duration, error) {
	if r.Injection == nil {
		return plan.Injection{}, 0, nil
	}
	latest := Latest{
		Generation: set.Generation, Revision: observed.snapshot.Update.Name, Hash: observed.spec.Hashes.Hash, HashWithoutImage: observed.spec.Hashes.WithoutImage,
	}
	if object := observed.snapshot.Update.Object; object != nil {
		latest.Made = object.CreationTimestamp.Time
	}
	state, err := r.Injection.Reconcile(ctx, set.Name, latest)
	state = r.Injection.says(set.Name, fmt.Sprint(set.UID, set.Generation), state, err)
	r.EmitEvents(set, "Inject", state.Events)
	injection := plan.Injection{Fault: state.Fault, Stalled: state.Stalled, PodsWithout: state.PodsWithout}
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
