// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package controllers is the list of all kinds, and sets up their reconcilers.
package controllers

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	operatorv1alpha1 "github.com/kruise-operator/kruise-operator/api/operator/v1alpha1"
	"github.com/kruise-operator/kruise-operator/controllers/advancedcronjob"
	"github.com/kruise-operator/kruise-operator/controllers/batchrelease"
	"github.com/kruise-operator/kruise-operator/controllers/broadcastjob"
	"github.com/kruise-operator/kruise-operator/controllers/cloneset"
	"github.com/kruise-operator/kruise-operator/controllers/containerrecreaterequest"
	"github.com/kruise-operator/kruise-operator/controllers/daemonset"
	"github.com/kruise-operator/kruise-operator/controllers/deletionprotection"
	"github.com/kruise-operator/kruise-operator/controllers/ephemeraljob"
	"github.com/kruise-operator/kruise-operator/controllers/imagelistpulljob"
	"github.com/kruise-operator/kruise-operator/controllers/imagepulljob"
	"github.com/kruise-operator/kruise-operator/controllers/launchpriority"
	"github.com/kruise-operator/kruise-operator/controllers/nodeimage"
	"github.com/kruise-operator/kruise-operator/controllers/nodepodprobe"
	"github.com/kruise-operator/kruise-operator/controllers/operatorconfig"
	"github.com/kruise-operator/kruise-operator/controllers/persistentpodstate"
	"github.com/kruise-operator/kruise-operator/controllers/podprobemarker"
	"github.com/kruise-operator/kruise-operator/controllers/podreadiness"
	"github.com/kruise-operator/kruise-operator/controllers/podunavailablebudget"
	"github.com/kruise-operator/kruise-operator/controllers/resourcedistribution"
	"github.com/kruise-operator/kruise-operator/controllers/rollout"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarterminator"
	"github.com/kruise-operator/kruise-operator/controllers/statefulset"
	"github.com/kruise-operator/kruise-operator/controllers/trafficrouting"
	"github.com/kruise-operator/kruise-operator/controllers/uniteddeployment"
	"github.com/kruise-operator/kruise-operator/controllers/workloadspread"
	"github.com/kruise-operator/kruise-operator/internal/confirmation"
	"github.com/kruise-operator/kruise-operator/internal/controller"
	"github.com/kruise-operator/kruise-operator/internal/engine/probing"
	"github.com/kruise-operator/kruise-operator/internal/engine/spread"
	"github.com/kruise-operator/kruise-operator/internal/hooks"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/kube/budgets"
	kubecache "github.com/kruise-operator/kruise-operator/internal/kube/cache"
	"github.com/kruise-operator/kruise-operator/internal/kube/recorder"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/kube/writer"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	gate "github.com/kruise-operator/kruise-operator/internal/platform/features"
)

// Deps are for making reconcilers, beside the manager. Setup fills in the rest of what they share.
type Deps struct {
	workload.Dependencies
	Config *config.Config
	Log    logr.Logger
	// GuardHooks is Guard for registrations at the API server.
	GuardHooks func(reconcile.Reconciler) reconcile.Reconciler
	// Call is how the API server calls the operator at a path; nil: it does not.
	Call func(path string) (admissionv1.WebhookClientConfig, error)
	// Operator is for the reconciler of the operator's configuration; the other fields fill in the rest.
	Operator operatorconfig.Dependencies
}

// All are the values of all kinds, sorted by name, and of features without a kind.
func All() []controller.Kind {
	return []controller.Kind{
		advancedcronjob.Value(),
		batchrelease.Value(),
		broadcastjob.Value(),
		cloneset.Value(),
		containerrecreaterequest.Value(),
		daemonset.Value(),
		ephemeraljob.Value(),
		imagelistpulljob.Value(),
		imagepulljob.Value(),
		operatorconfig.Value(),
		nodeimage.Value(),
		nodepodprobe.Value(),
		persistentpodstate.Value(),
		podprobemarker.Value(),
		podunavailablebudget.Value(),
		resourcedistribution.Value(),
		rollout.Value(),
		sidecarset.Value(),
		statefulset.Value(),
		trafficrouting.Value(),
		uniteddeployment.Value(),
		workloadspread.Value(),

		deletionprotection.Value(),
		launchpriority.Value(),
		podreadiness.Value(),
		sidecarterminator.Value(),
	}
}

// Table is all kinds.
func Table() kinds.Table { return controller.Table(All()) }

// CacheContents is the cache's content for the enabled kinds.
func CacheContents(c *config.Config) kubecache.Contents {
	contents := kubecache.ContentsFor(c.Table.Where(func(k kinds.Kind) bool { return c.Enabled(k.Name) })...)
	for _, value := range All() {
		of := cmp.Or(value.Entry.Name, value.Requires)
		if value.Keeps != nil && value.IsOn(c) && (of == "" || c.Enabled(of)) {
			contents = contents.Keeping(value.Keeps)
		}
	}
	return contents
}

// Setup adds the reconciler of every enabled and served kind to the manager. It asks the API server once: a CRD
// installed later restarts the operator.
func Setup(ctx context.Context, mgr ctrl.Manager, deps Deps) error {
	share(mgr, &deps)
	configured, missing, err := setupKinds(ctx, mgr, &deps)
	if err != nil {
		return err
	}
	if err := setupHooks(mgr, &deps); err != nil {
		return err
	}
	if err := setupFeatures(ctx, mgr, deps, configured); err != nil {
		return err
	}
	return setupOperatorConfig(mgr, deps, configured, missing)
}

// share completes the common parts of reconcilers.
func share(mgr ctrl.Manager, deps *Deps) {
	c, all := deps.Config, &deps.Dependencies
	all.Client, all.Cache, all.Live = mgr.GetClient(), mgr.GetCache(), mgr.GetAPIReader()
	all.Pool, all.Markers = writer.NewPool(c.Writes), workload.NewParsed(probing.ParseStored)
	all.PullsImages, all.LaunchOrder = c.Enabled("ImagePullJob"), c.Features.Enabled(gate.PodWebhook)
	all.WriteTimeout, all.ReconcileTimeout = c.WriteTimeout, c.ReconcileTimeout
	managed := workload.Managed(mgr.GetRESTMapper(), c)
	if managed(spread.Kind()) {
		all.Spreads = workload.NewParsed(spread.ParseStored)
	}
	all.PodPlaces = managed(persistentpodstate.Value().Entry.Stored())
	if managed(workload.BudgetKind()) {
		all.Budgets = &workload.Budgets{
			Ledger: &budgets.Ledger{Live: all.Live, Client: all.Client, Clock: all.Clock}, Gates: podunavailablebudget.GatesOf(c.Features),
		}
	}
	if daemon := deps.Operator.NodeDaemon; daemon != nil {
		daemon.NoProbes = !c.Features.Enabled(gate.PodProbeMarker)
		daemon.NoReports = !c.Features.Enabled(gate.DaemonWatchingPod)
	}
	if c.NodeDaemon {
		all.DaemonNeeds = workload.NewDaemonNeeds(deps.Clock)
		deps.Operator.DaemonNeeds = all.DaemonNeeds
	}
}

// setupKinds sets up the reconcilers of all enabled and served kinds. It returns every kind's state and the
// unserved ones, and fills in deps.Operator the kinds needing the node daemon.
func setupKinds(ctx context.Context, mgr ctrl.Manager, deps *Deps) (configured []operatorconfig.Kind, missing []schema.GroupVersionKind, err error) {
	if !deps.Operator.Watch {
		missing = append(missing, operatorv1alpha1.GroupVersion().WithKind("Kruise"))
	}
	if len(deps.Config.Kinds) > 0 { // an index starts an informer
		if err := CacheContents(deps.Config).Index(ctx, mgr.GetFieldIndexer()); err != nil {
			return nil, nil, err
		}
	}
	for _, kind := range All() {
		if kind.Entry.Controller != kinds.Optional {
			continue
		}
		is, err := stateOf(ctx, mgr, *deps, kind.Entry, kind.Name)
		if err != nil {
			return nil, nil, err
		}
		configured = append(configured, is)
		switch {
		case !is.Enabled:
			if err := setup(ctx, mgr, *deps, kind, kind.CleanUp); err != nil {
				return nil, nil, err
			}
			continue
		case !is.Served:
			missing = append(missing, kind.Entry.Stored())
			continue
		}
		if kind.Entry.NodeDaemon && deps.Config.NodeDaemon && kind.IsOn(deps.Config) {
			deps.Operator.DaemonKinds = append(deps.Operator.DaemonKinds, kind.Entry.Stored())
		}
		if err := setup(ctx, mgr, *deps, kind, kind.Setup); err != nil {
			return nil, nil, err
		}
	}
	return configured, missing, nil
}

// stateOf tells if a kind is enabled and, if so, served. Unserved ones are logged.
func stateOf(ctx context.Context, mgr ctrl.Manager, deps Deps, kind kinds.Kind, controller string) (operatorconfig.Kind, error) {
	is := operatorconfig.Kind{Name: kind.Name, Controller: controller, Enabled: deps.Config.Enabled(kind.Name)}
	if objects, waits := deps.Config.Unconfirmed[kind.Name]; waits {
		is.Unconfirmed = confirmation.Message(kind.Name, objects)
		deps.Log.Info("Kind waits to be confirmed", "kind", kind.Name, "message", is.Unconfirmed)
	}
	if !is.Enabled {
		deps.Log.Info("Kind is off", "kind", kind.Name)
		return is, nil
	}
	stored := kind.Stored()
	_, err := mgr.GetRESTMapper().RESTMapping(stored.GroupKind(), stored.Version)
	switch {
	case meta.IsNoMatchError(err):
		deps.Log.Info("Kind is not served; its CRD is missing", "kind", stored.String())
	case err != nil:
		return is, fmt.Errorf("asking whether %s is served: %w", kind.Name, err)
	default:
		is.Served, is.Synced = true, synced(ctx, mgr.GetCache(), stored)
	}
	return is, nil
}

// setup sets up one part of a kind or feature, if it has it.
func setup(ctx context.Context, mgr ctrl.Manager, deps Deps, kind controller.Kind, part controller.Setup) error {
	if part == nil {
		return nil
	}
	all := deps.Dependencies
	all.Recorder, all.Scope = recorder.New(mgr.GetEventRecorder(kind.Name)), kind.Entry.Scope
	all.Workers = deps.Config.WorkersOf(kind.Entry.Name)
	if err := part(ctx, mgr, all, deps.Config); err != nil {
		return fmt.Errorf("setting up %s: %w", kind.Name, err)
	}
	return nil
}

func setupFeatures(ctx context.Context, mgr ctrl.Manager, deps Deps, configured []operatorconfig.Kind) error {
	for _, feature := range All() {
		if !feature.IsFeature() || !feature.IsOn(deps.Config) {
			continue
		}
		required := func(k operatorconfig.Kind) bool { return k.Name == feature.Requires && k.Served }
		if feature.Requires != "" && !slices.ContainsFunc(configured, required) {
			deps.Log.Info("Controller is off: the kind that it needs is off or not served", "controller", feature.Name, "kind", feature.Requires)
			continue
		}
		if err := setup(ctx, mgr, deps, feature, feature.Setup); err != nil {
			return err
		}
	}
	return nil
}

// Registrar registers the hooks of all kinds. It also removes the policies of kinds switched off.
func Registrar(mgr ctrl.Manager, deps Deps) (*hooks.Registrar, error) {
	options := hooks.Options{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Namespace: deps.Config.Namespace, Call: deps.Call, Clock: deps.Clock,
		PreferPolicy: deps.Config.AdmissionMode != "Webhook",
	}
	for _, kind := range All() {
		if kind.Policies == nil {
			continue
		}
		policies, err := kind.Policies(deps.Config)
		if err != nil {
			return nil, fmt.Errorf("reading the policies of %s: %w", kind.Name, err)
		}
		options.Policies = append(options.Policies, policies...)
	}
	return hooks.New(options), nil
}

// setupHooks sets up the registrar with its first wants.
func setupHooks(mgr ctrl.Manager, deps *Deps) error {
	all := deps.Dependencies
	for _, kind := range All() {
		if kind.Hooks != nil {
			all.Hooks.Owner(kind.Name, nil).Want(kind.Hooks(deps.Config)...)
		}
	}
	if daemon := deps.Operator.NodeDaemon; daemon != nil {
		daemon.Guarded(all.Hooks.Owner("nodedaemon", nil))
	}
	deps.Operator.HookFaults = all.Hooks.Faults
	all.Guard = deps.GuardHooks
	c, err := workload.NewController(mgr, all, hooks.Name, 1, all.Hooks)
	if err == nil {
		err = all.Hooks.Watch(mgr, c, deps.Denied.Handle)
	}
	if err != nil {
		return fmt.Errorf("setting up hooks: %w", err)
	}
	return nil
}

// appeared returns a function naming one of the missing kinds once the API server serves it.
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

// synced returns a function: true once a kind's objects, as its reconciler watches them, have been read.
func synced(ctx context.Context, from cache.Cache, kind schema.GroupVersionKind) func() bool {
	object := workload.Object(kind)
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
	d.Denied = deps.Denied.Messages
	d.Kinds, d.Gates, d.Elected = kinds, deps.Config.Features.On(), mgr.Elected()
	if err := d.Levels.Set(deps.Config.LogLevel, operatorconfig.Levels(deps.Config, kinds)); err != nil {
		return fmt.Errorf("setting the log levels: %w", err)
	}
	return operatorconfig.New(d).SetupWithManager(mgr)
}
