// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podprobemarker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/controllers/podprobemarker/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/probing"
	"github.com/kruise-operator/kruise-operator/internal/engine/virtualnode"
	"github.com/kruise-operator/kruise-operator/internal/kube/nodedaemon"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

const (
	// silentInterval is between checks of the daemon while nodes are silent, else daemonInterval.
	silentInterval = time.Minute
	daemonInterval = 10 * time.Minute
)

// view is kept of a marker: when its generation was first seen, and the state of the node daemon.
type view struct {
	generation int64
	since      time.Time
	// next is when to look at the daemon again.
	next   time.Time
	silent bool
	daemon string
	// waits of the last decision.
	waits plan.Waits
}

func remember(pass *workload.Pass) *view {
	return workload.Own(pass.Memory, func() *view { return &view{} })
}

// gather collects results before the status is counted again over all pods.
// Marks on pods do not wait: NodePodProbe's controller writes them node by node.
const gather = time.Second

// observe reads a marker's pods and their nodes' results.
func (r *Reconciler) observe(ctx context.Context, pass *workload.Pass, spec *plan.Spec) (plan.Snapshot, error) {
	snapshot := plan.Snapshot{Now: r.Clock.Now(), Off: r.off}
	if spec.Marker == nil || r.off != "" {
		return snapshot, nil
	}
	if err := r.follow(ctx); err != nil {
		return snapshot, err
	}
	if spec.Marker.Deleting {
		carried, err := r.List(ctx, plan.KindNodePodProbe(), client.MatchingFields{byMarker: client.ObjectKeyFromObject(spec.Object).String()})
		if err != nil {
			return snapshot, err
		}
		for i := range carried {
			snapshot.Carried = append(snapshot.Carried, carried[i].GetName())
		}
		slices.Sort(snapshot.Carried)
		snapshot.Waits = remember(pass).waits
		return snapshot, nil
	}
	known := remember(pass)
	if known.since.IsZero() || known.generation != spec.Object.Generation {
		known.generation, known.since = spec.Object.Generation, snapshot.Now
	}
	snapshot.Since, snapshot.Waits = known.since, known.waits
	var err error
	if snapshot.Nodes, err = r.nodes(ctx, spec); err != nil {
		return snapshot, err
	}
	if snapshot.Others, err = r.others(ctx, spec); err != nil {
		return snapshot, err
	}
	return snapshot, nil
}

// nodes returns the nodes with chosen pods, sorted by name.
func (r *Reconciler) nodes(ctx context.Context, spec *plan.Spec) ([]plan.Node, error) {
	var pods corev1.PodList
	selector := client.MatchingLabelsSelector{Selector: spec.Marker.Selector}
	if err := r.Cache.List(ctx, &pods, client.InNamespace(spec.Marker.Namespace), selector, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	on := map[string][]plan.Pod{}
	for i := range pods.Items {
		if pod := &pods.Items[i]; spec.Marker.Chooses(pod) {
			on[pod.Spec.NodeName] = append(on[pod.Spec.NodeName], plan.Pod{Object: pod})
		}
	}
	var nodes []plan.Node
	for name, pods := range on {
		node := &corev1.Node{}
		err := r.Cache.Get(ctx, client.ObjectKey{Name: name}, node, client.UnsafeDisableDeepCopy)
		if apierrors.IsNotFound(err) {
			continue // its pods will go, too
		}
		if err != nil {
			return nil, fmt.Errorf("reading node %s: %w", name, err)
		}
		slices.SortFunc(pods, func(a, b plan.Pod) int { return strings.Compare(a.Object.Name, b.Object.Name) })
		of := plan.Node{Name: name, UID: node.UID, Virtual: virtualnode.Is(node), Pods: pods}
		if err := r.readList(ctx, spec, &of); err != nil {
			return nil, err
		}
		nodes = append(nodes, of)
	}
	slices.SortFunc(nodes, func(a, b plan.Node) int { return strings.Compare(a.Name, b.Name) })
	return nodes, nil
}

// readList decodes only the marker's part of a NodePodProbe: decoding all would dominate a pass.
func (r *Reconciler) readList(ctx context.Context, spec *plan.Spec, of *plan.Node) error {
	stored := workload.Object(plan.KindNodePodProbe())
	err := r.Cache.Get(ctx, client.ObjectKey{Name: of.Name}, stored, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the NodePodProbe of %s: %w", of.Name, err)
	}
	of.Listed, of.Full = true, probing.HasLeftOut(stored.GetAnnotations(), spec.Marker.Namespace)
	pods := map[string]*plan.Pod{}
	for i := range of.Pods {
		pods[string(of.Pods[i].Object.UID)] = &of.Pods[i]
	}
	mine := func(entry, item map[string]any) (*plan.Pod, string) {
		uid, _ := entry["uid"].(string)
		key, _ := item["name"].(string)
		if marker, _, ok := probing.SplitKey(key); !ok || marker != spec.Marker.Name {
			return nil, ""
		}
		return pods[uid], key
	}
	for entry, item := range itemsOf(stored, "probes", "spec", "podProbes") {
		if pod, key := mine(entry, item); pod != nil {
			pod.Asked = append(pod.Asked, key)
		}
	}
	for entry, item := range itemsOf(stored, "probeStates", "status", "podProbeStatuses") {
		if pod, _ := mine(entry, item); pod != nil {
			result := appsv1alpha1.ContainerProbeState{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item, &result); err != nil {
				return fmt.Errorf("decoding the status of the NodePodProbe of %s: %w", of.Name, err)
			}
			pod.Results = append(pod.Results, result)
		}
	}
	return nil
}

// others are the other markers of the namespace.
func (r *Reconciler) others(ctx context.Context, spec *plan.Spec) ([]*probing.Marker, error) {
	stored, err := r.List(ctx, r.Kind, client.InNamespace(spec.Marker.Namespace))
	if err != nil {
		return nil, err
	}
	var others []*probing.Marker
	for i := range stored {
		if stored[i].GetName() == spec.Marker.Name {
			continue
		}
		if parsed := r.Markers.Of(&stored[i]); parsed != nil {
			others = append(others, parsed)
		}
	}
	return others, nil
}

// look checks the node daemon if needed, and returns the next time. silent are the nodes with overdue results. It does
// not report unknown causes.
func (r *Reconciler) look(ctx context.Context, known *view, s *plan.Snapshot, silent []string) time.Duration {
	if !slices.ContainsFunc(s.Nodes, func(n plan.Node) bool { return !n.Virtual }) {
		*known = view{generation: known.generation, since: known.since, waits: known.waits}
		return 0
	}
	if known.next.IsZero() {
		known.next = known.since.Add(silentInterval)
	}
	if len(silent) > 0 && !known.silent || !known.next.After(s.Now) {
		var err error
		known.silent = len(silent) > 0
		if known.silent {
			known.daemon, err = r.silence(ctx, silent[0])
		} else {
			known.daemon, err = r.absence(ctx)
		}
		if err != nil {
			ctrl.LoggerFrom(ctx).Info("Looking at the node daemon failed", "err", err.Error())
		}
		known.next = s.Now.Add(daemonInterval)
		if known.daemon != "" {
			known.next = s.Now.Add(silentInterval)
		}
	}
	s.Daemon = known.daemon
	return known.next.Sub(s.Now)
}

// silence says why a node may say nothing.
func (r *Reconciler) silence(ctx context.Context, node string) (string, error) {
	state, err := nodedaemon.OnNode(ctx, r.Live, node, r.WriteTimeout)
	switch state {
	case nodedaemon.Absent:
		return "no pod of the node daemon is on node " + node +
			". nodeDaemon.mode of the Kruise object may be Disabled, or its pods cannot be scheduled there or are refused.", err
	case nodedaemon.Starting:
		return "the node daemon on node " + node + " is not ready. Look at its pods in kruise-daemon-config.", err
	case nodedaemon.Running:
		return "the node daemon on node " + node + " is ready and has said nothing of them. A container that was never started has no result; " +
			"look at the pods, and at the log of the daemon in kruise-daemon-config.", err
	}
	return "nobody has answered.", err
}

// absence reports a missing node daemon; empty: there is one.
func (r *Reconciler) absence(ctx context.Context) (string, error) {
	state, err := nodedaemon.Deployed(ctx, r.Live, r.WriteTimeout)
	if err != nil || state != nodedaemon.Absent {
		return "", err
	}
	return "There is no node daemon in the cluster, so nothing is probed and results stay as they are. nodeDaemon.mode of the Kruise object may be Disabled.", nil
}
