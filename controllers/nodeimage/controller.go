// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package nodeimage

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/nodeimage/plan"
	engineimage "github.com/kruise-operator/kruise-operator/internal/engine/image"
	"github.com/kruise-operator/kruise-operator/internal/engine/virtualnode"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
)

// Name is the controller's name, and the reportingController of its events.
const Name = "nodeimage-controller"

// byJob finds NodeImages by the UIDs of their jobs.
const byJob = "job"

// +kubebuilder:rbac:groups=apps.kruise.io,resources=nodeimages,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=apps.kruise.io,resources=nodeimages/status,verbs=patch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=imagepulljobs,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler reconciles NodeImages.
type Reconciler struct {
	*workload.Base
	// daemonOff: the Kruise object forbids the node daemon.
	daemonOff bool
	// gone are the UIDs of jobs gone for good.
	gone *lru.Cache
}

// Setup makes the manager run the reconciler of NodeImages.
func Setup(ctx context.Context, mgr ctrl.Manager, d workload.Dependencies, c *config.Config) error {
	r := &Reconciler{Base: workload.New(Name, plan.Kind(), d), daemonOff: c.Deployment != "" && !c.NodeDaemon && c.Features.Enabled(features.KruiseDaemon), gone: lru.New(maxGone)}
	if err := r.Setup(ctx, mgr, r, workload.Watches{OthersWriteStatus: true, Nodes: ofNode}); err != nil {
		return err
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, workload.Object(plan.Kind()), byJob, jobsOf); err != nil {
		return fmt.Errorf("indexing NodeImages by job: %w", err)
	}
	return r.WatchDeletions(ctx, job(), r.ofJob)
}

func job() *unstructured.Unstructured {
	return workload.Object(appsv1beta1.GroupVersion().WithKind("ImagePullJob"))
}

// ofNode names the NodeImage of a node.
func ofNode(_ context.Context, node client.Object) []types.NamespacedName {
	return []types.NamespacedName{{Name: node.GetName()}}
}

func (r *Reconciler) ofJob(ctx context.Context, job client.Object) []types.NamespacedName {
	list, err := r.List(ctx, r.Kind, client.MatchingFields{byJob: string(job.GetUID())})
	if err != nil {
		return nil
	}
	var names []types.NamespacedName
	for i := range list {
		names = append(names, types.NamespacedName{Name: list[i].GetName()})
	}
	return names
}

// jobsOf are the UIDs of the owners of a NodeImage's tags.
func jobsOf(object client.Object) (uids []string) {
	for signer := range engineimage.Signers(object) {
		uids = append(uids, string(signer.UID))
	}
	return uids
}

// Reconcile prunes one NodeImage, and has the node daemon deployed for hand-written tags.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pass, image, result, err := workload.Begin[appsv1beta1.NodeImage](ctx, r.Base, req.NamespacedName)
	if pass == nil {
		return result, err
	}
	defer pass.End()

	snapshot, err := r.observe(ctx, image)
	if err != nil {
		return ctrl.Result{}, err
	}
	todo := plan.Plan(image, snapshot)
	outcome := pass.Apply(ctx, image, todo.Plan)
	if outcome.Done == len(todo.Actions) {
		for _, tag := range todo.GivenUp {
			r.emitEvents(image, tag)
		}
	}
	// Only hand-written tags need it here, so few passes repeat the need.
	return pass.Finish(nil, pass.NoteDaemonNeed(todo.NeedsDaemon))
}

// emitEvents emits events about a given-up tag: on the list, and on every job it fails here.
func (r *Reconciler) emitEvents(image *appsv1beta1.NodeImage, tag plan.GivenUp) {
	r.Recorder.Eventf(image, nil, corev1.EventTypeWarning, "PullImageFailed", "GiveUp", "%s: %s", tag.Name, tag.Message)
	for i := range tag.Jobs {
		if tag.Jobs[i].Kind == "ImagePullJob" {
			r.Recorder.Eventf(&tag.Jobs[i], nil, corev1.EventTypeWarning, "PullImageFailed", "GiveUp", "node %s: %s: %s", image.Name, tag.Name, tag.Message)
		}
	}
}

func (r *Reconciler) observe(ctx context.Context, image *appsv1beta1.NodeImage) (plan.Snapshot, error) {
	snapshot := plan.Snapshot{Now: r.Clock.Now(), DaemonOff: r.daemonOff}
	node, name := &corev1.Node{}, client.ObjectKey{Name: image.Name}
	err := r.Cache.Get(ctx, name, node, client.UnsafeDisableDeepCopy)
	_, fake := image.Labels[plan.LabelFake]
	if !fake && (apierrors.IsNotFound(err) || err == nil && node.DeletionTimestamp != nil) {
		// Deletion would lose all jobs' requests. A new leader's cache may lack a new node, so ask the server.
		node = &corev1.Node{}
		err = r.Writer.Read(ctx, name, node)
	}
	if client.IgnoreNotFound(err) != nil {
		return snapshot, fmt.Errorf("reading the node: %w", err)
	}
	snapshot.Node, snapshot.Labels = err == nil && node.DeletionTimestamp == nil, node.Labels
	snapshot.Virtual = virtualnode.Is(node)
	snapshot.Gone = func(of corev1.ObjectReference) bool {
		found, gone := r.jobOf(ctx, of)
		return gone || found != nil && found.GetDeletionTimestamp() != nil
	}
	snapshot.Working = func(of corev1.ObjectReference) bool {
		found, gone := r.jobOf(ctx, of)
		if found == nil {
			return !gone // the cache does not show it yet
		}
		kind, _, _ := unstructured.NestedString(found.Object, "spec", "completionPolicy", "type")
		end, _, _ := unstructured.NestedString(found.Object, "status", "completionTime")
		return kind != string(appsv1beta1.CompleteNever) && end == ""
	}
	snapshot.PullSecretsOf = func(of corev1.ObjectReference) ([]appsv1beta1.ImagePullSecret, bool) {
		found, _ := r.jobOf(ctx, of)
		if found == nil {
			return nil, false
		}
		names, _, _ := unstructured.NestedStringSlice(found.Object, "spec", "pullSecrets")
		var secrets []appsv1beta1.ImagePullSecret
		for _, name := range names {
			secrets = append(secrets, engineimage.PullSecret(found.GetNamespace(), name))
		}
		return secrets, true
	}
	return snapshot, nil
}

// jobOf returns a tag's job from the cache; nil without that very one. Gone: the server has none either. A
// failed look-up is never gone.
func (r *Reconciler) jobOf(ctx context.Context, of corev1.ObjectReference) (found *unstructured.Unstructured, gone bool) {
	key := client.ObjectKey{Namespace: of.Namespace, Name: of.Name}
	found = job()
	err := r.Cache.Get(ctx, key, found, client.UnsafeDisableDeepCopy)
	switch {
	case err == nil && found.GetUID() == of.UID:
		return found, false
	case client.IgnoreNotFound(err) != nil:
		return nil, false
	}
	if _, known := r.gone.Get(of.UID); known {
		return nil, true
	}
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(job().GroupVersionKind())
	err = r.Writer.Read(ctx, key, live)
	if client.IgnoreNotFound(err) != nil || err == nil && live.UID == of.UID {
		return nil, false
	}
	r.gone.Add(of.UID, nil)
	return nil, true
}

// maxGone limits the jobs remembered as gone for good: the server is asked once per job, not once per node.
const maxGone = 1000
