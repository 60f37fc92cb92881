// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package persistentpodstate

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/persistentpodstate/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/kube/cache"
	"github.com/kruise-operator/kruise-operator/internal/kube/executor"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/quantity"
)

const generatorName = "persistentpodstate-generator"

// Steps of the generator.
const (
	stepGenerate planning.Step = "generate"
	stepChange   planning.Step = "change"
	stepRemove   planning.Step = "remove"
)

// generator keeps the PersistentPodStates that annotations of workloads ask for. A request is the name of both.
type generator struct {
	*workload.Base
	kinds []schema.GroupVersionKind
}

func (r *Reconciler) setupGenerator(_ context.Context, mgr ctrl.Manager, d workload.Dependencies) error {
	g := &generator{Base: workload.New(generatorName, plan.Kind(), d)}
	c, err := workload.NewController(mgr, d, generatorName, 1, g)
	if err != nil {
		return err
	}
	for _, kind := range []schema.GroupVersionKind{ownSets(), nativeSets()} {
		if _, err := mgr.GetRESTMapper().RESTMapping(kind.GroupKind(), kind.Version); meta.IsNoMatchError(err) {
			continue
		}
		g.kinds = append(g.kinds, kind)
		if err := c.Watch(cache.Source(d.Cache, watchedAs(kind), &handler.EnqueueRequestForObject{}, asking())); err != nil {
			return fmt.Errorf("watching %s: %w", kind, err)
		}
	}
	if err := c.Watch(cache.Source(d.Cache, workload.Object(plan.Kind()), &handler.EnqueueRequestForObject{}, specChanged())); err != nil {
		return fmt.Errorf("watching PersistentPodStates: %w", err)
	}
	return nil
}

// watchedAs is ours as the cache has it, and one of Kubernetes as metadata alone.
func watchedAs(kind schema.GroupVersionKind) client.Object {
	if kind == ownSets() {
		return workload.Object(kind)
	}
	return metadataOf(kind)
}

// asking drops workloads without the annotation, before and after.
func asking() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return plan.Asks(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return (plan.Asks(e.ObjectOld) || plan.Asks(e.ObjectNew)) && !plan.AsksTheSame(e.ObjectOld, e.ObjectNew)
		},
		DeleteFunc: func(event.DeleteEvent) bool { return false }, // its state is collected with it
	}
}

// Reconcile compares the workloads of one name with the state of that name.
func (g *generator) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	existing, err := g.existing(ctx, req)
	if err != nil {
		return reconcile.Result{}, err
	}
	for _, kind := range g.kinds {
		object := watchedAs(kind)
		err := g.Cache.Get(ctx, req.NamespacedName, object, client.UnsafeDisableDeepCopy)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return reconcile.Result{}, fmt.Errorf("reading %s: %w", kind.Kind, err)
		}
		todo := plan.Generate(kind, object, existing)
		if todo.Taken {
			g.Recorder.Eventf(object, nil, "Warning", "PersistentPodStateTaken", "Generate", "A PersistentPodState of this name exists that was not generated for this workload; it stays as it is.")
		}
		if actions := g.actions(todo, existing); len(actions) > 0 {
			outcome := g.Executor.Apply(ctx, &executor.State{}, object, planning.Plan{Actions: actions})
			return reconcile.Result{RequeueAfter: outcome.RecheckAfter}, nil
		}
	}
	return reconcile.Result{}, nil
}

func (g *generator) existing(ctx context.Context, req reconcile.Request) (*appsv1beta1.PersistentPodState, error) {
	stored := workload.Object(plan.Kind())
	err := g.Cache.Get(ctx, req.NamespacedName, stored, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	state := &appsv1beta1.PersistentPodState{}
	return state, quantity.FromUnstructured(stored.Object, state)
}

// actions are at most one.
func (g *generator) actions(todo plan.Generated, existing *appsv1beta1.PersistentPodState) []planning.Action {
	action := planning.Action{Kind: plan.Kind(), Reason: "Annotations"}
	switch {
	case todo.Create != nil:
		action.Verb, action.Step, action.Object = planning.VerbCreate, stepGenerate, todo.Create
	case todo.Change != nil:
		action.Verb, action.Step, action.Object = planning.VerbPatch, stepChange, existing
		action.Change = planning.MergePatch(existing, map[string]any{"spec": specPatch(todo.Change)})
	case todo.Delete:
		action.Verb, action.Step, action.Object = planning.VerbDelete, stepRemove, existing
	default:
		return nil
	}
	name := action.Object.GetName()
	action.Success = planning.Event{Reason: "Generated", Message: fmt.Sprintf("%s PersistentPodState %s", action.Verb, name)}
	action.Failure = planning.Event{Warning: true, Reason: "FailedGenerate", Message: fmt.Sprintf("%s PersistentPodState %s", action.Verb, name)}
	return []planning.Action{action}
}

// specPatch names all generated fields: a missing one removes.
func specPatch(spec *appsv1beta1.PersistentPodStateSpec) map[string]any {
	fields := map[string]any{"requiredPersistentTopology": nil, "preferredPersistentTopology": nil, "persistentPodAnnotations": nil}
	if spec.RequiredPersistentTopology != nil {
		fields["requiredPersistentTopology"] = spec.RequiredPersistentTopology
	}
	if len(spec.PreferredPersistentTopology) > 0 {
		fields["preferredPersistentTopology"] = spec.PreferredPersistentTopology
	}
	if len(spec.PersistentPodAnnotations) > 0 {
		fields["persistentPodAnnotations"] = spec.PersistentPodAnnotations
	}
	return fields
}
