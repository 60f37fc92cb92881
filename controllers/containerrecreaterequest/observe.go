// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package containerrecreaterequest

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/containerrecreaterequest/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/restart"
	"github.com/kruise-operator/kruise-operator/internal/engine/virtualnode"
	"github.com/kruise-operator/kruise-operator/internal/kube/nodedaemon"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

// observe reads a request's pod and its predecessor. The cache has only the pod's identity;
// the whole pod is read to write its readiness, or for a request taking too long.
func (r *Reconciler) observe(ctx context.Context, pass *workload.Pass, request *appsv1beta1.ContainerRecreateRequest) (plan.Snapshot, error) {
	snapshot := plan.Snapshot{Now: r.Clock.Now()}
	uid := types.UID(request.Labels[appsv1beta1.LabelRequestPodUID])
	key := client.ObjectKey{Namespace: request.Namespace, Name: request.Spec.PodName}
	known := &corev1.Pod{}
	err := r.Cache.Get(ctx, key, known, client.UnsafeDisableDeepCopy)
	if err != nil && !apierrors.IsNotFound(err) {
		return snapshot, fmt.Errorf("reading the pod: %w", err)
	}
	snapshot.PodKnown = err == nil && known.UID == uid && known.DeletionTimestamp == nil
	firstAtWork := false
	if !restart.Over(request) {
		first, err := r.first(ctx, request, uid)
		if err != nil {
			return snapshot, err
		}
		if first != nil {
			snapshot.First, firstAtWork = first.Name, first.Status.Phase == appsv1beta1.RecreateRecreating
		}
	}
	if snapshot.PodKnown {
		if err := r.daemon(ctx, pass, request, &snapshot, firstAtWork); err != nil {
			return snapshot, err
		}
	}
	needs, stuck := plan.NeedsPod(request), snapshot.PodKnown && plan.MayNeverBeReady(request, snapshot.Now)
	if !needs && !stuck {
		return snapshot, nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.WriteTimeout)
	defer cancel()
	pod := &corev1.Pod{}
	err = r.Live.Get(ctx, key, pod)
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return snapshot, fmt.Errorf("reading the pod past the cache: %w", err)
	case plan.Unfilled(request):
		snapshot.Pod = pod
		return snapshot, r.place(ctx, pod, &snapshot)
	case pod.UID == uid:
		if needs {
			snapshot.Pod = pod
		}
		if stuck {
			snapshot.Trouble = plan.TroubleOf(request, pod, snapshot.Now)
		}
	}
	return snapshot, nil
}

// place looks at the node of a pod.
func (r *Reconciler) place(ctx context.Context, pod *corev1.Pod, to *plan.Snapshot) error {
	node := &corev1.Node{}
	if err := r.Live.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, node); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the node: %w", err)
	}
	to.Virtual = virtualnode.Is(node)
	return nil
}

// absence is since when the daemon is missing; zero: it is there.
type absence struct{ since time.Time }

// daemon looks at the daemon of the node where there is a reason to.
func (r *Reconciler) daemon(
	ctx context.Context, pass *workload.Pass, request *appsv1beta1.ContainerRecreateRequest, to *plan.Snapshot, firstAtWork bool,
) error {
	if !plan.DaemonTimedOut(request, to.Now) && !plan.DaemonMayBeGone(request, to.Now) {
		return nil
	}
	daemon, err := nodedaemon.OnNode(ctx, r.Live, request.Labels[appsv1beta1.LabelRequestNode], r.WriteTimeout)
	if err != nil {
		return err
	}
	to.DaemonStarting, to.DaemonBusy = daemon == nodedaemon.Starting, daemon == nodedaemon.Running && firstAtWork
	known := workload.Own(pass.Memory, func() *absence { return &absence{} })
	switch {
	case daemon != nodedaemon.Absent:
		known.since = time.Time{}
	case known.since.IsZero():
		known.since = to.Now
	}
	to.AbsentSince = known.since
	return nil
}

// first returns the request to run before this one on the same pod; nil: none.
func (r *Reconciler) first(ctx context.Context, request *appsv1beta1.ContainerRecreateRequest, uid types.UID) (*appsv1beta1.ContainerRecreateRequest, error) {
	same, err := r.requestsOf(ctx, request.Namespace, uid)
	if err != nil {
		return nil, err
	}
	if queue := restart.Queue(same); len(queue) > 0 && queue[0].Name != request.Name {
		return queue[0], nil
	}
	return nil, nil
}
