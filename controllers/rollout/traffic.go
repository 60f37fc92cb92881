// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/rollout/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/rollable"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/routing"
	"github.com/kruise-operator/kruise-operator/internal/kube/routes"
)

// +kubebuilder:rbac:groups="",resources=services,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=list
// +kubebuilder:rbac:groups=gateway.networking.k8s.io,resources=httproutes;grpcroutes,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups=networking.k8s.io,resources=ingresses,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups="",namespace=kruise-system,resources=configmaps,resourceNames=kruise-rollout-configuration,verbs=get

// maxSlices limits what is read to find an endpoint that is ready.
const maxSlices = 100

// requests are what was read of them.
type requests struct {
	names traffic.Names
	// stableHash and pods choose the pods of the old and the new version.
	stableHash string
	pods       traffic.Pods
	// stable and canary are Services as stored; service is the second one as it should be.
	stable, canary, service map[string]any
	places                  []routes.Place
}

// labelOf is the label by which Services choose pods of one version.
func labelOf(row rollable.Workload) string {
	if row.Kind.Kind == "StatefulSet" {
		return traffic.RevisionLabel
	}
	return traffic.HashLabel
}

// observeRequests reads Services and routes, past the cache, and only when the release needs something of them.
func (r *Reconciler) observeRequests(ctx context.Context, o *v1beta1.Rollout, s *seen) error {
	s.World = plan.Wanted(o, s.Workload, s.Release)
	if s.World == nil {
		return nil
	}
	canary := o.Spec.Strategy.Canary
	q := &requests{names: routing.Names(o.Name, canary), stableHash: s.stableHash, pods: traffic.Pods{Label: labelOf(s.row)}}
	if s.Workload != nil {
		q.pods.Hash = s.Workload.PodHash
	}
	if canary.EnableExtraWorkloadForCanary && canary.PatchPodTemplateMetadata != nil && s.row.Extra {
		q.pods.Append, q.pods.Patched = r.appends, canary.PatchPodTemplateMetadata.Labels
	}
	s.requests = q
	s.World.OneService = q.names.Stable == q.names.Canary
	if err := r.readServices(ctx, o, q, s.World); err != nil {
		return err
	}
	if err := r.readRoutes(ctx, o, q, s); err != nil {
		return err
	}
	last := cmp.Or(o.Status.CanaryStatus.LastUpdateTime, &o.CreationTimestamp).Time
	now := r.Clock.Now()
	since := now.Sub(routes.Written(last, now, q.places, q.stable, q.canary))
	s.World.Waited, s.World.Overdue = since >= routes.Grace(canary.TrafficRoutings), since >= routes.Overdue
	return nil
}

// readServices reads that of the user and that of the new version.
func (r *Reconciler) readServices(ctx context.Context, o *v1beta1.Rollout, q *requests, w *traffic.World) (err error) {
	service := corev1.SchemeGroupVersion.WithKind("Service")
	if q.stable, _, err = r.routes.Object(ctx, service, o.Namespace, q.names.Stable); err != nil {
		return err
	}
	pinned := traffic.Pinned(q.stable, q.pods.Label)
	w.Stable = traffic.ServiceState{Exists: q.stable != nil, Pinned: pinned != "" && (!w.Goal.Up() || w.Empties || pinned == q.stableHash)}
	if w.Goal.Up() && !w.Ahead && !w.OneService && q.stable != nil && !w.Stable.Pinned && q.stableHash != "" {
		if w.StableReady, err = routes.AnyPod(ctx, r.Live, q.stable, map[string]string{q.pods.Label: q.stableHash}); err != nil {
			return err
		}
	}
	if w.OneService {
		return nil
	}
	if q.canary, _, err = r.routes.Object(ctx, service, o.Namespace, q.names.Canary); err != nil {
		return err
	}
	if w.Goal.Routes() && q.stable != nil && q.pods.Hash == "" {
		return errMoved // new pods have no label yet
	}
	if !traffic.Owned(q.canary, string(o.UID)) {
		q.canary = nil // making ours is refused then, and says so
	}
	w.Canary.Exists = q.canary != nil
	if w.Canary.Exists && w.Goal.Routes() {
		w.Canary.Ready, err = r.anyReady(ctx, o.Namespace, q.names.Canary)
	}
	return err
}

// anyReady: a Service has an endpoint that is ready.
func (r *Reconciler) anyReady(ctx context.Context, namespace, service string) (bool, error) {
	var list discoveryv1.EndpointSliceList
	err := r.Live.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels{discoveryv1.LabelServiceName: service}, client.Limit(maxSlices))
	if err != nil {
		return false, fmt.Errorf("listing endpoints: %w", err)
	}
	return slices.ContainsFunc(list.Items, func(s discoveryv1.EndpointSlice) bool {
		return slices.ContainsFunc(s.Endpoints, func(e discoveryv1.Endpoint) bool { return e.Conditions.Ready == nil || *e.Conditions.Ready })
	}), nil
}

// readRoutes reads all of them, and asks their providers.
func (r *Reconciler) readRoutes(ctx context.Context, o *v1beta1.Rollout, q *requests, s *seen) (err error) {
	q.places, err = r.routes.Read(ctx, routes.Asked{
		Owner: o, Refs: o.Spec.Strategy.Canary.TrafficRoutings, Names: q.names, Share: s.World.Share, Goal: s.World.Goal,
	})
	if err != nil {
		return err
	}
	s.Corrected, s.World.Routes = routes.Corrected(q.places), routes.States(q.places)
	q.align(s.World)
	return nil
}

// align finds out what the Service of the new version should be. Its faults stand with the first route.
func (q *requests) align(w *traffic.World) {
	first := &w.Routes[0]
	first.Marked = first.Marked || !w.Stable.Pinned && len(traffic.Disown(q.stable)) > 0
	if w.OneService || q.stable == nil || !w.Goal.Routes() {
		w.Canary.Current = true
		return
	}
	var err error
	if q.service, err = traffic.CanaryService(q.stable, q.names, q.pods); err != nil {
		first.Fault = err.Error()
		return
	}
	w.Canary.Current = q.canary != nil && len(traffic.AlignService(q.canary, q.service)) == 0
}

// trafficActions are the writes of an act.
func trafficActions(r *v1beta1.Rollout, q *requests, act traffic.Act) []planning.Action {
	w := &routes.Writes{Owner: r, Kind: kind(), Act: act}
	switch act {
	case traffic.PinStable:
		w.Patch(q.stable, traffic.Pin(q.stable, q.pods.Label, q.stableHash))
	case traffic.OpenStable:
		w.Patch(q.stable, traffic.Pin(q.stable, q.pods.Label, ""))
	case traffic.MakeCanary:
		if q.canary == nil {
			w.Create(q.service)
		} else {
			w.Patch(q.canary, traffic.AlignService(q.canary, q.service))
		}
	case traffic.DropCanary:
		w.Remove(q.canary)
	case traffic.DisownRoutes:
		if traffic.Pinned(q.stable, q.pods.Label) == "" {
			w.Patch(q.stable, traffic.Disown(q.stable))
		}
		w.Routes(q.places)
	default:
		w.Routes(q.places)
	}
	return w.All()
}
