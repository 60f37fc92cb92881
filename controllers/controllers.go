// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package controllers is the list of all reconcilers and of what each one gets.
package controllers

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	operatorv1alpha1 "github.com/kruise-operator/kruise-operator/api/operator/v1alpha1"
	"github.com/kruise-operator/kruise-operator/controllers/cloneset"
	"github.com/kruise-operator/kruise-operator/controllers/operatorconfig"
	"github.com/kruise-operator/kruise-operator/controllers/statefulset"
	"github.com/kruise-operator/kruise-operator/internal/engine/inplace"
	"github.com/kruise-operator/kruise-operator/internal/kube/executor"
	"github.com/kruise-operator/kruise-operator/internal/kube/index"
	"github.com/kruise-operator/kruise-operator/internal/kube/predownload"
	"github.com/kruise-operator/kruise-operator/internal/kube/recorder"
	"github.com/kruise-operator/kruise-operator/internal/kube/templatecheck"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
	"github.com/kruise-operator/kruise-operator/internal/platform/metrics"
	"github.com/kruise-operator/kruise-operator/internal/platform/takeover"
)

// Deps are what reconcilers are made from, beside what the manager offers.
type Deps struct {
	Config  *config.Config
	Metrics *metrics.Metrics
	// Accepted are templates that the server would take, shared with admission. Nil remembers none.
	Accepted *templatecheck.Accepted
	Clock    clock.WithTicker
	Log      logr.Logger
	// Guard holds reconcilers back while OpenKruise is in charge. Nil never does.
	Guard *takeover.Guard
	// Operator is for the reconciler of the operator's own configuration; what follows from the other fields is filled in.
	Operator operatorconfig.Dependencies
}

// Kinds are the enabled workloads that control pods. The cache keeps their pods whole.
func Kinds(c *config.Config) index.Kinds {
	kinds := sets.New[schema.GroupKind]()
	for _, kind := range []schema.GroupVersionKind{cloneset.Kind(), statefulset.Kind()} {
		if c.Enabled(kind.Kind) {
			kinds.Insert(kind.GroupKind())
		}
	}
	return kinds
}

// Setup makes the manager run the reconciler of every kind that is enabled and served. It asks the API server once: for a CRD that is
// installed later the process begins anew.
func Setup(ctx context.Context, mgr ctrl.Manager, deps Deps) error {
	all := shared{pool: executor.NewPool(deps.Config.Writes, deps.Clock)}
	if deps.Config.Features.Enabled(features.PreDownloadImageForInPlaceUpdate) {
		all.pullJobs = predownload.NewWatch(mgr.GetCache())
	}
	reconcilers := []struct {
		kind  schema.GroupVersionKind
		name  string
		setup func(context.Context) error
	}{
		{cloneset.Kind(), cloneset.Name, func(ctx context.Context) error { return setupCloneSet(ctx, mgr, deps, all) }},
		{statefulset.Kind(), statefulset.Name, func(ctx context.Context) error { return setupStatefulSet(ctx, mgr, deps, all) }},
	}
	kinds := make([]operatorconfig.Kind, len(reconcilers))
	var missing []schema.GroupVersionKind
	if !deps.Operator.Watch {
		missing = append(missing, operatorv1alpha1.GroupVersion().WithKind("Kruise"))
	}
	indexed := false
	for i, r := range reconcilers {
		kinds[i] = operatorconfig.Kind{Name: r.kind.Kind, Controller: r.name, Enabled: deps.Config.Enabled(r.kind.Kind)}
		if !kinds[i].Enabled {
			deps.Log.Info("Kind is off", "kind", r.kind.Kind)
			continue
		}
		_, err := mgr.GetRESTMapper().RESTMapping(r.kind.GroupKind(), r.kind.Version)
		if meta.IsNoMatchError(err) {
			deps.Log.Info("Kind is not served; its CRD is missing", "kind", r.kind.String())
			missing = append(missing, r.kind)
			continue
		}
		if err != nil {
			return fmt.Errorf("asking whether %s is served: %w", r.kind.Kind, err)
		}
		if !indexed {
			if err := index.Add(ctx, mgr.GetFieldIndexer(), Kinds(deps.Config)); err != nil {
				return err
			}
			indexed = true
		}
		if err := r.setup(ctx); err != nil {
			return fmt.Errorf("setting up %s: %w", r.kind.Kind, err)
		}
		kinds[i].Served, kinds[i].Synced = true, synced(ctx, mgr.GetCache(), r.kind)
	}
	return setupOperatorConfig(mgr, deps, kinds, missing)
}

// appeared returns what names a kind, of those given, that the API server serves by now.
func appeared(mapper meta.RESTMapper, missing []schema.GroupVersionKind) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		for _, kind := range missing {
			_, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
			if err == nil {
				return kind.Kind, nil
			}
			if !meta.IsNoMatchError(err) {
				return "", fmt.Errorf("asking whether %s is served: %w", kind.Kind, err)
			}
		}
		return "", nil
	}
}

// shared is what all kinds have together.
type shared struct {
	// pool keeps the writes of all kinds together within the limit.
	pool *executor.Pool
	// pullJobs is where they see their ImagePullJobs; nil when no images are pulled ahead.
	pullJobs *predownload.Watch
}

// synced returns what says whether the objects of a kind, as its reconciler watches them, have been read.
func synced(ctx context.Context, from cache.Cache, kind schema.GroupVersionKind) func() bool {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	return func() bool {
		informer, err := from.GetInformer(ctx, object, cache.BlockUntilSynced(false))
		return err == nil && informer.HasSynced()
	}
}

func setupOperatorConfig(mgr ctrl.Manager, deps Deps, kinds []operatorconfig.Kind, missing []schema.GroupVersionKind) error {
	d := deps.Operator
	if len(missing) > 0 {
		d.Appeared = appeared(mgr.GetRESTMapper(), missing)
	}
	d.Client, d.Live, d.Cache, d.Clock = mgr.GetClient(), mgr.GetAPIReader(), mgr.GetCache(), deps.Clock
	d.Kinds, d.Gates, d.Elected = kinds, deps.Config.Features.On(), mgr.Elected()
	if err := d.Levels.Set(deps.Config.LogLevel, operatorconfig.Levels(deps.Config, kinds)); err != nil {
		return fmt.Errorf("setting the log levels: %w", err)
	}
	return operatorconfig.New(d).SetupWithManager(mgr)
}

func setupCloneSet(ctx context.Context, mgr ctrl.Manager, deps Deps, all shared) error {
	given, err := dependencies(mgr, deps, all, cloneset.Name, deps.Config.WorkersOf(cloneset.Kind().Kind))
	if err != nil {
		return err
	}
	return cloneset.New(given, cloneSetOptions(deps.Config)).SetupWithManager(ctx, mgr)
}

// cloneSetOptions are the gates and flags as far as they concern CloneSets.
func cloneSetOptions(c *config.Config) cloneset.Options {
	gates := c.Features
	options := cloneset.Options{
		PartitionRollback:       gates.Enabled(features.CloneSetPartitionRollback),
		PreparingUpdateAsUpdate: gates.Enabled(features.PreparingUpdateAsUpdate),
		ExcludePreparingDelete:  c.CloneSetExcludePreparingDelete,
		PreDownloadImages:       gates.Enabled(features.PreDownloadImageForInPlaceUpdate),
		InPlace:                 inPlace(gates),
	}
	options.InPlace.ShortHash = gates.Enabled(features.CloneSetShortHash)
	options.InPlace.ClaimTemplates = gates.Enabled(features.RecreatePodWhenChangeVCTInCloneSet)
	return options
}

func setupStatefulSet(ctx context.Context, mgr ctrl.Manager, deps Deps, all shared) error {
	given, err := dependencies(mgr, deps, all, statefulset.Name, deps.Config.WorkersOf(statefulset.Kind().Kind))
	if err != nil {
		return err
	}
	gates := deps.Config.Features
	return statefulset.New(given, statefulset.Options{
		StartOrdinal:      gates.Enabled(features.StatefulSetStartOrdinal),
		AutoDeletePVC:     gates.Enabled(features.StatefulSetAutoDeletePVC),
		AutoResizePVC:     gates.Enabled(features.StatefulSetAutoResizePVC),
		PodIndexLabel:     gates.Enabled(features.PodIndexLabel),
		PreDownloadImages: gates.Enabled(features.PreDownloadImageForInPlaceUpdate),
		InPlace:           inPlace(gates),
	}).SetupWithManager(ctx, mgr)
}

// inPlace says what may change in place, whatever the kind.
func inPlace(gates features.Set) inplace.Options {
	return inplace.Options{
		Resources: gates.Enabled(features.InPlaceWorkloadVerticalScaling),
		// EnvFromMetadata needs a node daemon that restarts containers; there is none.
		EnvFromMetadata: false,
	}
}

// dependencies are what the reconciler of one kind of workload is made from. Its events carry the controller's name.
func dependencies(mgr ctrl.Manager, deps Deps, all shared, name string, workers int) (workload.Dependencies, error) {
	events := recorder.New(mgr.GetEventRecorder(name), deps.Metrics)
	if err := mgr.Add(events); err != nil {
		return workload.Dependencies{}, fmt.Errorf("adding the event recorder: %w", err)
	}
	return workload.Dependencies{
		Client:           mgr.GetClient(),
		Cache:            mgr.GetCache(),
		Live:             mgr.GetAPIReader(),
		Recorder:         events,
		Metrics:          deps.Metrics,
		Pool:             all.pool,
		PullJobs:         all.pullJobs,
		Accepted:         deps.Accepted,
		Clock:            deps.Clock,
		Guard:            deps.Guard,
		Workers:          workers,
		WriteTimeout:     deps.Config.WriteTimeout,
		ReconcileTimeout: deps.Config.ReconcileTimeout,
	}, nil
}
