// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package operatorconfig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	operatorv1alpha1 "github.com/kruise-operator/kruise-operator/api/operator/v1alpha1"
	"github.com/kruise-operator/kruise-operator/internal/hooks"
	"github.com/kruise-operator/kruise-operator/internal/kube/cache"
	"github.com/kruise-operator/kruise-operator/internal/kube/installowner"
	"github.com/kruise-operator/kruise-operator/internal/kube/nodedaemon"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/internal/platform/operands"
)

// relatedDaemon names the image of the node daemon, where it is not the operator's own.
const relatedDaemon = "RELATED_IMAGE_NODE_DAEMON"

// managerContainer is the operator's container in its own Deployment.
const managerContainer = "manager"

const (
	// idle is for how long nothing has to need the node daemon before it goes.
	idle = 10 * time.Minute
	// daemonInterval is the time between checks of the daemon, daemonMinInterval the least: each object needing the
	// daemon asks for a check.
	daemonInterval    = time.Minute
	daemonMinInterval = 5 * time.Second
	// unguarded is the wait between checks for the daemon's registered policy.
	unguarded = time.Second
)

// The operator makes the daemon's namespace and its contents. Roles it only binds, so it grants nothing beyond
// them. It patches them only to set their owner: the API server accepts no rules from somebody with fewer
// rights.
// +kubebuilder:rbac:groups="",resources=namespaces,resourceNames=kruise-daemon-config,verbs=get;create;patch
// +kubebuilder:rbac:groups="",resources=serviceaccounts,resourceNames=kruise-daemon,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups=apps,resources=daemonsets,resourceNames=kruise-daemon,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,resourceNames=kruise-daemon;kruise-daemon-secrets;kruise-operator-pull-secrets,verbs=bind
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,resourceNames=kruise-daemon;kruise-daemon-secrets;kruise-operator-pull-secrets;kruise-operator-read-pull-secrets;kruise-operator-distribute-secrets;kruise-operator-route-istio,verbs=get;patch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterrolebindings,resourceNames=kruise-daemon,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=rolebindings,resourceNames=kruise-daemon-secrets;kruise-operator-pull-secrets,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies,resourceNames=kruise-daemon-own-node,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicybindings,resourceNames=kruise-daemon-own-node,verbs=get;list;watch;create;patch;delete

// watchNeeds reconciles the node daemon again when another object needs it.
func (r *Reconciler) watchNeeds(c controller.Controller) error {
	if r.NodeDaemon == nil {
		return nil
	}
	r.NodeDaemon.Needed = r.daemonNeeded
	again := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{request()} })
	if r.DaemonNeeds != nil {
		if err := c.Watch(source.Channel(r.DaemonNeeds.Added(), again)); err != nil {
			return fmt.Errorf("watching for what needs the node daemon for now: %w", err)
		}
	}
	created := predicate.Funcs{
		UpdateFunc: func(event.UpdateEvent) bool { return false }, DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
	for _, kind := range r.DaemonKinds {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(kind)
		if err := c.Watch(cache.Source(r.Cache, object, again, created)); err != nil {
			return fmt.Errorf("watching %s for the node daemon: %w", kind.Kind, err)
		}
	}
	return nil
}

// daemonNeeded: the node daemon is needed by an unended object, by a workload's waiting pods, or by hand-written
// tags of a NodeImage.
func (r *Reconciler) daemonNeeded(ctx context.Context) (bool, error) {
	if r.DaemonNeeds.Any() {
		return true, nil
	}
	for _, kind := range r.DaemonKinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		if err := r.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return false, fmt.Errorf("listing %s: %w", kind.Kind, err)
		}
		for i := range list.Items {
			over, _, _ := unstructured.NestedString(list.Items[i].Object, "status", "completionTime")
			if over == "" {
				return true, nil
			}
		}
	}
	return false, nil
}

// NodeDaemon deploys the node daemon while something needs it, and removes it some minutes after the last need.
type NodeDaemon struct {
	// Client reads past the cache and writes.
	Client client.Client
	// Deployment is the operator's own.
	Deployment client.ObjectKey
	// Needed tells if the daemon is needed now. Nil: never.
	Needed func(ctx context.Context) (bool, error)
	// NoProbes stops the daemon from running stored probes: the gate of PodProbeMarkers is off.
	NoProbes bool
	// NoReports stops its reports on containers: the gate DaemonWatchingPod is off.
	NoReports bool
	// Guard registers the policy keeping each daemon to its own node's objects. Nil: none.
	Guard *hooks.Owner
	// Foreign names the DaemonSet of OpenKruise's node daemon.
	Foreign client.ObjectKey
	// Clock is the time.
	Clock clock.PassiveClock

	// deployed: it was there at looked, the last check. applied is the time of the last apply, for a generation of the settings.
	deployed        bool
	looked, applied time.Time
	generation      int64
	// needed is when something needed it last.
	needed time.Time
	// leaving: its removal has begun.
	leaving bool
	// owned: the roles go with the installation.
	owned bool
	// conflicts: OpenKruise's daemon ran beside this one at the last check.
	conflicts bool
}

// guardHook is the policy of the daemon, as a hook.
const guardHook = "own-node.kruise-daemon.operator.kruise.io"

// Guarded leaves the registered policy alone until the need for the daemon is known.
func (n *NodeDaemon) Guarded(by *hooks.Owner) {
	n.Guard = by
	by.Want(&hooks.Hook{Name: guardHook, Policy: operands.DaemonPolicy, Hold: true})
}

// guard registers the daemon's policy, and returns true once it is in force.
func (n *NodeDaemon) guard() bool {
	if n.Guard == nil {
		return true
	}
	n.Guard.Want(&hooks.Hook{Name: guardHook, Version: "needed", Policy: operands.DaemonPolicy})
	state := n.Guard.State(guardHook)
	return state.Reason == hooks.InForce && state.Version == "needed"
}

// unguard removes the policy of the daemon.
func (n *NodeDaemon) unguard() {
	if n.Guard != nil {
		n.Guard.Want()
	}
}

// daemonPolicies are the policies of the daemon, as hooks name them; none outside of a cluster.
func daemonPolicies(c *config.Config) ([]*hooks.Policy, error) {
	if c.Deployment == "" {
		return nil, nil
	}
	objects, err := operands.RenderDaemonPolicy()
	return []*hooks.Policy{{Name: operands.DaemonPolicy, Objects: objects, Unexempted: true}}, err
}

// Settle brings the daemon closer to its wanted state, and returns when to look again; zero: on a change.
func (n *NodeDaemon) Settle(ctx context.Context, object *operatorv1alpha1.Kruise) (recheck time.Duration, err error) {
	if object == nil {
		object = &operatorv1alpha1.Kruise{}
	}
	if err := n.ownRoles(ctx); err != nil {
		return 0, err
	}
	settings, now := ptr.Deref(object.Spec.NodeDaemon, operatorv1alpha1.NodeDaemonSettings{}), n.Clock.Now()
	allowed, needed := settings.Mode != operatorv1alpha1.NodeDaemonDisabled && n.Needed != nil, false
	if allowed {
		if needed, err = n.Needed(ctx); err != nil {
			return 0, fmt.Errorf("asking whether something needs the node daemon: %w", err)
		}
	}
	if needed || n.needed.IsZero() { // the leader before may have deployed it: it gets the same time to be needed again
		n.needed = now
	}
	changed := object.Generation != n.generation
	if !changed && !n.leaving && needed && n.deployed && now.Sub(n.looked) < daemonMinInterval {
		return daemonInterval, nil
	}
	// Somebody may have deleted it, or its namespace, as an uninstall of OpenKruise does.
	if n.deployed, err = n.exists(ctx); err != nil {
		return 0, err
	}
	n.looked = now
	stays := needed || n.deployed && allowed && now.Sub(n.needed) < idle
	switch {
	case needed && (!n.deployed || changed || now.Sub(n.applied) >= lookAgain):
		if !n.guard() {
			return unguarded, nil
		}
		if err := n.apply(ctx, settings, ptr.Deref(object.Spec.Images, operatorv1alpha1.ImageSettings{})); err != nil {
			return 0, fmt.Errorf("deploying the node daemon: %w", err)
		}
		n.deployed, n.applied, n.generation = true, now, object.Generation
	case !stays && (n.deployed || n.leaving):
		n.leaving = true
		if err := n.remove(ctx); err != nil {
			return 0, fmt.Errorf("removing the node daemon: %w", err)
		}
		n.deployed = false
	}
	n.leaving = false
	switch {
	case !stays:
		n.conflicts = false
		n.unguard()
		return 0, nil
	case !needed:
		return idle - now.Sub(n.needed), n.lookForForeign(ctx)
	}
	return daemonInterval, n.lookForForeign(ctx)
}

// lookForForeign looks for OpenKruise's daemon on nodes, and logs a change.
func (n *NodeDaemon) lookForForeign(ctx context.Context) error {
	set := &appsv1.DaemonSet{}
	err := n.Client.Get(ctx, n.Foreign, set)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("looking for OpenKruise's node daemon: %w", err)
	}
	before := n.conflicts
	n.conflicts = err == nil && set.Status.CurrentNumberScheduled+set.Status.NumberMisscheduled > 0
	if n.conflicts != before {
		ctrl.LoggerFrom(ctx).Info("OpenKruise's node daemon beside this operator's", "daemonSet", n.Foreign.String(), "runs", n.conflicts)
	}
	return nil
}

// Conflict describes OpenKruise's daemon running beside this one, and the effects; empty when it does not.
func (n *NodeDaemon) Conflict() string {
	if n == nil || !n.conflicts {
		return ""
	}
	return fmt.Sprintf("DaemonSet %s of OpenKruise runs beside the node daemon of this operator. By default both listen on port 10221, so that the one of this operator "+
		"cannot start, and restarts of containers do not end; with another port (spec.nodeDaemon.port), images are pulled and probes are run twice. When no pod waits for OpenKruise's any "+
		"more, delete it: kubectl --namespace=%s delete daemonset %s", n.Foreign, n.Foreign.Namespace, n.Foreign.Name)
}

// roles are the ClusterRoles installed beside the operator's own.
func roles() []string {
	return []string{
		"kruise-daemon", "kruise-daemon-secrets", "kruise-operator-pull-secrets", "kruise-operator-read-pull-secrets", "kruise-operator-distribute-secrets",
		"kruise-operator-route-istio",
	}
}

// ownRoles makes the roles go with the installation and reserves the namespace, once per start: the Operator
// Lifecycle Manager leaves a bundle's ClusterRoles behind, and rewrites them with each version.
func (n *NodeDaemon) ownRoles(ctx context.Context) error {
	if n.owned {
		return nil
	}
	owner, err := installowner.Find(ctx, n.Client)
	if errors.Is(err, installowner.ErrNone) {
		n.owned = true
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range roles() {
		role := &rbacv1.ClusterRole{}
		err := n.Client.Get(ctx, client.ObjectKey{Name: name}, role)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading the ClusterRole %s: %w", name, err)
		}
		if slices.Contains(role.OwnerReferences, owner) {
			continue
		}
		before := role.DeepCopy()
		role.OwnerReferences = []metav1.OwnerReference{owner}
		if err := n.Client.Patch(ctx, role, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("having the ClusterRole %s go with the installation: %w", name, err)
		}
	}
	if _, err := n.reserve(ctx, owner); err != nil {
		ctrl.LoggerFrom(ctx).Info("The namespace of the node daemon is not there for it", "err", err.Error())
	}
	n.owned = true
	return nil
}

func (n *NodeDaemon) exists(ctx context.Context) (bool, error) {
	err := n.Client.Get(ctx, client.ObjectKey{Namespace: operands.DaemonNamespace, Name: operands.DaemonName}, &appsv1.DaemonSet{})
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("looking for the node daemon: %w", err)
	}
	return err == nil, nil
}

// apply applies the daemon's objects, owned by the installation.
func (n *NodeDaemon) apply(ctx context.Context, settings operatorv1alpha1.NodeDaemonSettings, images operatorv1alpha1.ImageSettings) error {
	own := &appsv1.Deployment{}
	if err := n.Client.Get(ctx, n.Deployment, own); err != nil {
		return fmt.Errorf("reading the operator's own Deployment: %w", err)
	}
	at := slices.IndexFunc(own.Spec.Template.Spec.Containers, func(c corev1.Container) bool { return c.Name == managerContainer })
	if at < 0 {
		return fmt.Errorf("the Deployment %s has no container %s", own.Name, managerContainer)
	}
	d := operands.Daemon{
		Namespace: n.Deployment.Namespace, Resources: settings.Resources, Tolerations: settings.Tolerations, Socket: settings.CRISocketPath,
		NoProbes: n.NoProbes, NoReports: n.NoReports, PriorityClass: settings.PriorityClassName, Port: settings.Port,
		SELinux: settings.SELinuxOptions, Privileged: settings.Privileged,
		Image: operands.DaemonImage(settings.Image, os.Getenv(relatedDaemon), own.Spec.Template.Spec.Containers[at].Image, images.Repository),
	}
	if providers := settings.CredentialProviders; providers != nil {
		d.CredentialConfig, d.CredentialFolder = providers.ConfigPath, providers.PluginFolder
	}
	for _, secret := range images.PullSecrets {
		d.PullSecrets = append(d.PullSecrets, secret.Name)
	}
	objects, err := operands.RenderDaemon(d)
	if err != nil {
		return err
	}
	owner, err := installowner.Find(ctx, n.Client)
	if err != nil {
		return err
	}
	namespace, err := n.reserve(ctx, owner)
	if err != nil {
		return err
	}
	for _, object := range objects {
		object.SetOwnerReferences([]metav1.OwnerReference{owner})
		if object.GetKind() == "Namespace" {
			// The UID pins this namespace: another may have replaced it. An administrator's does not go with the installation.
			object.SetUID(namespace.UID)
			object.SetOwnerReferences(namespace.OwnerReferences)
		}
		err := n.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(shared.FieldManager), client.ForceOwnership)
		if err != nil {
			return fmt.Errorf("applying %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	ctrl.LoggerFrom(ctx).Info("The node daemon is deployed", "image", d.Image)
	return nil
}

// reserve creates the namespace before anybody else can, and returns it.
func (n *NodeDaemon) reserve(ctx context.Context, owner metav1.OwnerReference) (*corev1.Namespace, error) {
	found, err := nodedaemon.Namespace(ctx, n.Client)
	if err != nil || found != nil {
		return found, err
	}
	// Applied, not created: the right to create can name an object only where the request does.
	made := &unstructured.Unstructured{}
	made.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	made.SetName(operands.DaemonNamespace)
	made.SetOwnerReferences([]metav1.OwnerReference{owner})
	if err := n.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(made), client.FieldOwner(shared.FieldManager)); err != nil {
		return nil, fmt.Errorf("making the namespace of the node daemon: %w", err)
	}
	// The answer was decoded into the sent object.
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: made.GetName(), UID: made.GetUID(), OwnerReferences: made.GetOwnerReferences()}}, nil
}

// remove deletes everything applied by this or another process, pods first. The namespace stays reserved.
func (n *NodeDaemon) remove(ctx context.Context) error {
	objects, err := operands.RenderDaemon(operands.Daemon{Namespace: n.Deployment.Namespace, Image: "unknown"})
	if err != nil {
		return err
	}
	owner, err := installowner.Find(ctx, n.Client)
	if errors.Is(err, installowner.ErrNone) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, object := range slices.Backward(objects) {
		if object.GetKind() == "Namespace" {
			continue
		}
		err := n.Client.Get(ctx, client.ObjectKeyFromObject(object), object)
		if apierrors.IsNotFound(err) {
			continue
		}
		ours := func(o metav1.OwnerReference) bool { return o.UID == owner.UID }
		if err == nil && slices.ContainsFunc(object.GetOwnerReferences(), ours) {
			err = n.Client.Delete(ctx, object)
		}
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}
