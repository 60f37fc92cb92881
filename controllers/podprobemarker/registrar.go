// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podprobemarker

import (
	"context"
	"errors"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kruise-operator/kruise-operator/internal/engine/probing"
	"github.com/kruise-operator/kruise-operator/internal/kube/installowner"
	"github.com/kruise-operator/kruise-operator/internal/kube/registration"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations,verbs=get;list;watch;create;update;patch;delete,resourceNames=kruise-operator-pods-probes
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterrolebindings,verbs=get,resourceNames=kruise-operator-manager;"kruise-operator-manager-service-system:auth-delegator"

// verifyEvery is the interval between checks of the registered webhook.
const verifyEvery = 10 * time.Minute

// Registrar keeps the webhook by which new pods ask the provider of a virtual node for probes. It is there for the namespaces that have markers with
// such probes, and only while there are any. It is for the leader alone.
type Registrar struct {
	// Client writes; Live reads past the cache; Cache reads the markers, of which Markers are those that were parsed.
	Client  client.Client
	Live    client.Reader
	Cache   client.Reader
	Markers *workload.Parsed[*probing.Marker]
	// On says that providers are asked.
	On bool
	// Namespace is the operator's.
	Namespace string
	// Call is how the API server calls the operator at a path. Nil: it does not, so there is no webhook.
	Call func(path string) (map[string]any, error)
}

// SetupRegistrar makes the manager keep the webhook, or take it back.
func SetupRegistrar(mgr ctrl.Manager, d workload.Dependencies, r *Registrar) error {
	c, err := workload.NewController(mgr, d, Name+"-admission", 1, r)
	if err != nil {
		return err
	}
	all := reconcile.Request{NamespacedName: types.NamespacedName{Name: probing.WebhookConfiguration}}
	once := source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		queue.Add(all)
		return nil
	})
	if err := c.Watch(once); err != nil {
		return fmt.Errorf("starting the registration of probes: %w", err)
	}
	if !r.On {
		return nil
	}
	markers := &unstructured.Unstructured{}
	markers.SetGroupVersionKind(Kind())
	enqueue := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{all} })
	if err := c.Watch(source.Kind(d.Cache, client.Object(markers), enqueue, predicate.GenerationChangedPredicate{})); err != nil {
		return fmt.Errorf("watching PodProbeMarkers: %w", err)
	}
	return nil
}

// Reconcile implements reconcile.Reconciler.
func (r *Registrar) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	namespaces, err := r.namespaces(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	if len(namespaces) == 0 || r.Call == nil {
		return ctrl.Result{}, registration.Remove(ctx, r.Live, r.Client, registration.MutatingWebhooks(probing.WebhookConfiguration))
	}
	owner, err := installowner.Find(ctx, r.Live)
	if errors.Is(err, installowner.ErrNone) {
		ctrl.LoggerFrom(ctx).Info("Pods on virtual nodes are not probed: " + err.Error())
		return ctrl.Result{RequeueAfter: verifyEvery}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	webhook := registration.Webhook{
		Name: probing.WebhookConfiguration, Owner: owner, Path: probing.WebhookPath, Call: r.Call,
		Entry: func(call admissionv1.WebhookClientConfig) admissionv1.MutatingWebhook {
			return probing.Webhook(r.Namespace, namespaces, call)
		},
	}
	return ctrl.Result{RequeueAfter: verifyEvery}, webhook.Keep(ctx, r.Live, r.Client)
}

// namespaces are those that have markers with probes for which a provider can be asked, sorted; none while no provider is asked.
func (r *Registrar) namespaces(ctx context.Context) ([]string, error) {
	if !r.On {
		return nil, nil
	}
	stored := &unstructured.UnstructuredList{}
	stored.SetGroupVersionKind(Kind())
	if err := r.Cache.List(ctx, stored, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing PodProbeMarkers: %w", err)
	}
	found := sets.New[string]()
	for i := range stored.Items {
		if found.Has(stored.Items[i].GetNamespace()) {
			continue
		}
		if marker := r.Markers.Of(&stored.Items[i]); marker != nil && marker.Provides() {
			found.Insert(marker.Namespace)
		}
	}
	return sets.List(found), nil
}
