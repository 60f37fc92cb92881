// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package hooks

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	kubecache "github.com/kruise-operator/kruise-operator/internal/kube/cache"
)

// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations,resourceNames=kruise-operator-pods,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations,resourceNames=kruise-operator-pods-launch-priority,verbs=get;delete
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations,resourceNames=kruise-operator-deletion-protection,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingadmissionpolicybindings,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterrolebindings,verbs=get,resourceNames=kruise-operator-manager;"kruise-operator-manager-service-system:auth-delegator"
// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list;watch;create;patch;delete

const (
	// Name is the controller's.
	Name = "hooks"
	// gather is how long changes are gathered for one pass.
	gather = 100 * time.Millisecond
	// contested is the pause while somebody keeps changing the registration.
	contested = 5 * time.Second
)

// Watch triggers the registrar's controller on new hooks and changed registrations. Leader only.
func (r *Registrar) Watch(mgr ctrl.Manager, c controller.Controller, failed cache.WatchErrorHandlerWithContext) error {
	watches, err := metadata.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("watching what is registered: %w", err)
	}
	all := reconcile.Request{NamespacedName: types.NamespacedName{Name: Name}}
	return c.Watch(source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		limit := rate.NewLimiter(rate.Every(time.Second), 20)
		r.watch = func(kind schema.GroupVersionKind, namespace string, only func(*metav1.ListOptions)) error {
			mapping, err := mgr.GetRESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
			if err != nil {
				return err
			}
			return kubecache.Inform(ctx, watches, mapping.Resource, namespace, only, failed, func() {
				queue.AddAfter(all, map[bool]time.Duration{true: gather, false: contested}[limit.Allow()])
			})
		}
		r.mutex.Lock()
		defer r.mutex.Unlock()
		r.look = func() { queue.AddAfter(all, gather) }
		queue.Add(all)
		return nil
	}))
}

// follow watches an object from the time on when it is registered.
func (r *Registrar) follow(k key) error {
	only := kubecache.Named(k.name)
	switch k.kind {
	case bindingKind():
		k.name, only = "", func(o *metav1.ListOptions) { o.LabelSelector = nameLabel + "=" + operatorName }
	case revisionKind():
		k.name, only = "", func(o *metav1.ListOptions) { o.LabelSelector = OwnLabel }
	}
	if r.watch == nil || r.watched[k] {
		return nil
	}
	r.watched[k] = true
	return r.watch(k.kind, k.namespace, only)
}
