// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/rollouts/shared"
	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/rollout/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/rollable"
	"github.com/kruise-operator/kruise-operator/internal/hooks"
	"github.com/kruise-operator/kruise-operator/internal/kube/released"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/quantity"
)

// errMoved means that the workload changed while it was read.
var errMoved = released.ErrMoved

// seen is what a pass has read.
type seen struct {
	plan.Snapshot
	row rollable.Workload
	// workload is as stored; nil: not there. deployment is the workload when it is one.
	workload   *unstructured.Unstructured
	deployment *released.Deployment
	// stableHash is the label of pods of the version before the release.
	stableHash string
	// shared is the TrafficRouting; nil: the Rollout names none.
	shared *sharedRoutes
	// requests are nil when nobody needs them.
	requests *requests
}

// quiet: nothing has changed since the last look at a workload at rest. This costs no request.
func (r *Reconciler) quiet(o *v1beta1.Rollout) bool {
	s, sub := o.Status, o.Status.CanaryStatus
	row, known := rollable.Of(o.Spec.WorkloadRef.APIVersion, o.Spec.WorkloadRef.Kind)
	if plan.ConditionOf(&s, plan.Reconciling).Status != "" {
		return false
	}
	if !known || sub == nil || o.DeletionTimestamp != nil || o.Spec.Disabled || s.Phase != v1beta1.RolloutPhaseHealthy || s.ObservedGeneration != o.Generation {
		return false
	}
	w := r.labeled.of(row.Kind, keyOf(o))
	if w == nil || r.hooked.State(hookName).Reason != hooks.InForce || sub.CurrentStepState != v1beta1.CanaryStepStateCompleted {
		return false
	}
	_, releasing := w.GetAnnotations()[shared.AnnotationInProgressing]
	guarded := plan.ConditionOf(&s, v1beta1.RolloutConditionGuarded).Status == metav1.ConditionTrue
	return guarded && !releasing && w.GetAnnotations()[shared.AnnotationRollout] == o.Name &&
		w.GetGeneration() == sub.ObservedWorkloadGeneration && rollable.RolloutID(w) == sub.ObservedRolloutID
}

func keyOf(o *v1beta1.Rollout) types.NamespacedName {
	return types.NamespacedName{Namespace: o.Namespace, Name: o.Spec.WorkloadRef.Name}
}

// observe reads the workload, past the cache, and the BatchRelease.
func (r *Reconciler) observe(ctx context.Context, o *v1beta1.Rollout) (*seen, error) {
	row, known := rollable.Of(o.Spec.WorkloadRef.APIVersion, o.Spec.WorkloadRef.Kind)
	if !known {
		return nil, fmt.Errorf("reading the workload: %s %s cannot be released", o.Spec.WorkloadRef.APIVersion, o.Spec.WorkloadRef.Kind)
	}
	s := &seen{row: row, Snapshot: plan.Snapshot{Now: r.Clock.Now()}}
	if err := r.observeRelease(ctx, o, s); err != nil {
		return nil, err
	}
	if row.Native {
		switch state := r.hooked.State(hookName); state.Reason {
		case hooks.InForce:
		case hooks.Pending:
			s.Registering = true
		default:
			s.HookFault = state.Message
		}
	}
	err := r.readWorkload(ctx, keyOf(o), s)
	if apierrors.IsNotFound(err) {
		if err := r.awaited(ctx, row); err != nil {
			return nil, err
		}
		return s, r.observeRequests(ctx, o, s)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the workload: %w", err)
	}
	if err := r.observeWorkload(ctx, o, s); err != nil {
		return nil, err
	}
	if r.unproven(ctx, o, s) {
		s.Registering = true
	}
	return s, r.observeRequests(ctx, o, s)
}

// readWorkload reads a Deployment with its ReplicaSets, and others alone.
func (r *Reconciler) readWorkload(ctx context.Context, key types.NamespacedName, s *seen) (err error) {
	if s.row.Kind.Kind != "Deployment" {
		stored := workload.Object(s.row.Kind)
		if err = r.Writer.Read(ctx, key, stored); err == nil {
			s.workload = stored
		}
		return err
	}
	if s.deployment, err = released.ReadDeployment(ctx, r.Live, key, false); err == nil {
		s.workload, err = s.deployment.Unstructured()
	}
	return err
}

// unproven: the API server does not hold a new template yet, although it was told to. A workload that is the first one has shown that to
// nobody before.
func (r *Reconciler) unproven(ctx context.Context, o *v1beta1.Rollout, s *seen) bool {
	known := plan.ConditionOf(&o.Status, v1beta1.RolloutConditionGuarded).Status == metav1.ConditionTrue
	exempt := o.Namespace == r.routes.Namespace || o.Namespace == metav1.NamespaceSystem
	if known || exempt || !s.row.Native || !s.Workload.Guarded || s.Registering || s.HookFault != "" || r.hooked == nil {
		return false
	}
	return errors.Is(held(ctx, client.NewDryRunClient(r.Client), s.row.Kind, keyOf(o), nil), errNotHeld)
}

// observeRelease reads the BatchRelease. It is watched from the first Rollout on.
func (r *Reconciler) observeRelease(ctx context.Context, o *v1beta1.Rollout, s *seen) error {
	object := workload.Object(releaseKind())
	if err := r.WatchLate(ctx, object, r.Controller); err != nil {
		return err
	}
	err := r.Cache.Get(ctx, client.ObjectKeyFromObject(o), object, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the BatchRelease: %w", err)
	}
	s.Release = &v1beta1.BatchRelease{}
	if err := quantity.FromUnstructured(object.Object, s.Release); err != nil {
		return fmt.Errorf("decoding the BatchRelease: %w", err)
	}
	return nil
}

func (r *Reconciler) observeWorkload(ctx context.Context, o *v1beta1.Rollout, s *seen) error {
	facts, notes := s.row.FactsOf(s.workload), s.workload.GetAnnotations()
	w := &plan.Workload{Workload: s.row, Facts: facts}
	by, named := notes[shared.AnnotationRollout]
	_, numbered := notes[shared.AnnotationSequence]
	w.Guarded, w.Noted = facts.Guarded && by == o.Name, named || numbered
	w.Foreign = facts.Guarded && facts.InRelease && !named
	if facts.Guarded && named && by != o.Name {
		other, err := r.refers(ctx, types.NamespacedName{Namespace: o.Namespace, Name: by}, s.row, o.Spec.WorkloadRef.Name)
		if err != nil {
			return err
		}
		if other {
			w.Other, w.Guarded, w.Noted = by, false, false
		}
	}
	s.Workload = w
	var err error
	if w.Revision, w.Stable, w.PodHash, err = r.revisions(ctx, o, s); err != nil {
		return err
	}
	w.Moving = w.Stable != "" && w.Stable != w.Revision && facts.Kept == 0 && facts.Updated < facts.Replicas && rolls(s.workload)
	return nil
}

// revisions are those of the template, of the pods before, and the label of new pods. That of pods before the release is noted, too.
func (r *Reconciler) revisions(ctx context.Context, o *v1beta1.Rollout, s *seen) (revision, stable, hash string, err error) {
	if d := s.deployment; d != nil {
		revision, stable = d.Revisions()
		preferred := ""
		if sub := o.Status.CanaryStatus; sub != nil {
			preferred, s.stableHash = sub.StableRevision, d.HashOf(sub.StableRevision)
		}
		if o.Spec.Strategy.BlueGreen != nil {
			stable = d.Fullest(preferred) // all others go
		}
		return revision, stable, d.PodHash(), nil
	}
	revision, stable, err = released.Revisions(ctx, r.Live, s.row, s.workload)
	if err != nil {
		return "", "", "", err
	}
	short := func(revision string) string {
		if s.row.Native || s.row.Kind.Kind == "StatefulSet" {
			return revision
		}
		return strings.TrimPrefix(revision, s.workload.GetName()+"-")
	}
	if sub := o.Status.CanaryStatus; sub != nil {
		s.stableHash = short(sub.StableRevision)
	}
	return revision, stable, short(revision), nil
}

// rolls: nothing of its user keeps a workload from replacing pods.
func rolls(w *unstructured.Unstructured) bool {
	paused, _, _ := unstructured.NestedBool(w.Object, "spec", "paused")
	held, _, _ := unstructured.NestedBool(w.Object, "spec", "updateStrategy", "rollingUpdate", "paused")
	kind, _, _ := unstructured.NestedString(w.Object, "spec", "updateStrategy", "type")
	return !paused && !held && kind != "OnDelete"
}

// refers: this Rollout is stored, and is for the workload.
func (r *Reconciler) refers(ctx context.Context, rollout types.NamespacedName, row rollable.Workload, name string) (bool, error) {
	stored := workload.Object(kind())
	err := r.Cache.Get(ctx, rollout, stored, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading a Rollout: %w", err)
	}
	return refersTo(stored, row.Kind.GroupKind(), name), nil
}
