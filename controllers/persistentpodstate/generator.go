// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package persistentpodstate

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/persistentpodstate/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/kube/cache"
	"github.com/kruise-operator/kruise-operator/internal/kube/executor"
	"github.com/kruise-operator/kruise-operator/internal/kube/listed"
	"github.com/kruise-operator/kruise-operator/internal/kube/pages"
	"github.com/kruise-operator/kruise-operator/internal/kube/sticky"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/quantity"
)

const generatorName = "persistentpodstate-generator"

// maxListed and maxListedBytes bound one look at the workloads of a listed kind.
const maxListed, maxListedBytes = 2000, 8 << 20

// createdSoon is when a new state is looked for: one deleted before it was seen causes no event.
const createdSoon = 10 * time.Second

// generator keeps the PersistentPodStates that annotations of workloads ask for. A request is the name of both, or empty for a look at
// listed kinds: these are not watched, but their list is.
type generator struct {
	*workload.Base
	kinds     []schema.GroupVersionKind
	namespace string
}

func (r *Reconciler) setupGenerator(mgr ctrl.Manager, d workload.Dependencies) error {
	g := &generator{Base: workload.New(generatorName, plan.Kind(), d), namespace: r.namespace}
	c, err := workload.NewController(mgr, d, generatorName, 1, g)
	if err != nil {
		return err
	}
	for _, kind := range []schema.GroupVersionKind{ownSets(), nativeSets()} {
		if _, err := mgr.GetRESTMapper().RESTMapping(kind.GroupKind(), kind.Version); meta.IsNoMatchError(err) {
			continue
		}
		g.kinds = append(g.kinds, kind)
		if err := c.Watch(cache.Source(d.Cache, watchedAs(kind), &handler.EnqueueRequestForObject{}, asking(), workload.Changes())); err != nil {
			return fmt.Errorf("watching %s: %w", kind, err)
		}
	}
	if err := c.Watch(cache.Source(d.Cache, workload.Object(plan.Kind()), &handler.EnqueueRequestForObject{}, workload.Changes())); err != nil {
		return fmt.Errorf("watching PersistentPodStates: %w", err)
	}
	watches, err := metadata.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("watching the ConfigMap %s: %w", listed.ConfigMap, err)
	}
	return c.Watch(source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		settings := corev1.SchemeGroupVersion.WithResource("configmaps")
		return cache.Inform(ctx, watches, settings, g.namespace, cache.Named(listed.ConfigMap), nil, func() { queue.Add(reconcile.Request{}) })
	}))
}

// watchedAs is ours as the cache has it, and one of Kubernetes as metadata alone.
func watchedAs(kind schema.GroupVersionKind) client.Object {
	if kind == ownSets() {
		return workload.Object(kind)
	}
	return workload.Metadata(kind)
}

// asking drops workloads without the annotation, before and after.
func asking() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return plan.Asks(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool { return plan.Asks(e.ObjectOld) || plan.Asks(e.ObjectNew) },
		DeleteFunc: func(event.DeleteEvent) bool { return false }, // its state is collected with it
	}
}

// Reconcile compares the workloads of one name with the state of that name.
func (g *generator) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if req.Name == "" {
		return g.look(ctx)
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
		if wait, err := g.compare(ctx, kind, object); err != nil || wait > 0 {
			return reconcile.Result{RequeueAfter: wait}, err
		}
	}
	return reconcile.Result{}, nil
}

// look compares the workloads of listed kinds. Rights on them are the administrator's to give.
func (g *generator) look(ctx context.Context) (reconcile.Result, error) {
	kinds, err := listed.Kinds(ctx, g.Live, g.namespace, sticky.Key)
	if err != nil || len(kinds) == 0 {
		return reconcile.Result{}, err
	}
	for i := range kinds {
		kind := kinds[i].GroupVersionKind
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		_, err := pages.Read(ctx, g.Live, list, pages.Limits{Objects: maxListed, Bytes: maxListedBytes}, func(page *metav1.PartialObjectMetadataList) bool {
			for i := range page.Items {
				page.Items[i].SetGroupVersionKind(kind)
				if _, err := g.compare(ctx, kind, &page.Items[i]); err != nil {
					ctrl.LoggerFrom(ctx).Info("Not generated", "kind", kind.Kind, "namespace", page.Items[i].Namespace, "name", page.Items[i].Name, "err", err.Error())
				}
			}
			return true
		})
		if err != nil {
			ctrl.LoggerFrom(ctx).Info("Cannot list workloads; the operator needs the rights get and list", "kind", kind.Kind, "err", err.Error())
		}
	}
	return reconcile.Result{RequeueAfter: lookEvery}, nil
}

// compare compares a workload with the state of its name, and says when to look again.
func (g *generator) compare(ctx context.Context, kind schema.GroupVersionKind, object client.Object) (time.Duration, error) {
	existing, err := g.existing(ctx, client.ObjectKeyFromObject(object))
	if err != nil {
		return 0, err
	}
	todo, taken := plan.Generate(kind, object, existing)
	if taken {
		g.Recorder.Eventf(object, nil, "Warning", "PersistentPodStateTaken", "Generate", "A PersistentPodState of this name exists that was not generated for this workload; it stays as it is.")
	}
	if len(todo) == 0 {
		return 0, nil
	}
	wait := g.Executor.Apply(ctx, &executor.State{}, object, planning.Plan{Actions: todo}).RecheckAfter
	if existing == nil && wait == 0 {
		wait = createdSoon
	}
	return wait, nil
}

func (g *generator) existing(ctx context.Context, name types.NamespacedName) (*appsv1beta1.PersistentPodState, error) {
	stored := workload.Object(plan.Kind())
	err := g.Cache.Get(ctx, name, stored, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	state := &appsv1beta1.PersistentPodState{}
	return state, quantity.FromUnstructured(stored.Object, state)
}
