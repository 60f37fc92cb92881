// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"context"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/daemonset/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/nodefit"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/quantity"
)

// ownersOfPod is the set that controls a pod, or, for a pod without controller, the sets in its namespace whose selectors match it.
func (r *Reconciler) ownersOfPod(ctx context.Context, pod client.Object) []types.NamespacedName {
	if owners := r.Controller(ctx, pod); len(owners) > 0 {
		return owners
	}
	if metav1.GetControllerOfNoCopy(pod) != nil || pod.GetDeletionTimestamp() != nil {
		return nil
	}
	var names []types.NamespacedName
	for _, known := range r.all(ctx, client.InNamespace(pod.GetNamespace())) {
		if known.pods != nil && known.pods.Matches(labels.Set(pod.GetLabels())) {
			names = append(names, known.name)
		}
	}
	return names
}

// concernedByNode are the sets for which the change of a node could decide something: it begins or ceases to fit, or to match the selector of
// the update, or it comes or goes and fits or has one of their pods. While no node fits a set, it is also concerned by why they do not. before is
// nil for a node that comes, after for one that goes.
func (r *Reconciler) concernedByNode(ctx context.Context, before, after *corev1.Node) []types.NamespacedName {
	var names []types.NamespacedName
	for _, known := range r.all(ctx) {
		if known.concerned(before, after) {
			names = append(names, known.name)
		}
	}
	return names
}

// fit is what of a set decides which nodes and pods concern it, read once for each of its generations.
type fit struct {
	name types.NamespacedName
	pod  nodefit.Pod
	// pods is spec.selector, nodes updateStrategy.rollingUpdate.selector; nil when there is none, or it cannot be parsed.
	pods, nodes labels.Selector
	// seen is what was seen when the set was last observed; nil before the first time.
	seen atomic.Pointer[seen]
}

// seen is what of an observation decides which nodes concern a set.
type seen struct {
	// pods are the nodes that had pods of the set.
	pods sets.Set[string]
	// none says that no node should run a pod: then the status counts them all by why they should not.
	none bool
}

// sees remembers what was seen.
func (f *fit) sees(s plan.Snapshot) {
	now := seen{pods: make(sets.Set[string], len(s.Pods)), none: plan.Desired(s.Nodes) == 0}
	for i := range s.Pods {
		now.pods.Insert(string(s.Pods[i].Slot))
	}
	f.seen.Store(&now)
}

func (f *fit) concerned(before, after *corev1.Node) bool {
	seen := f.seen.Load()
	none := seen != nil && seen.none
	switch {
	case before == nil:
		return none || f.runsOn(after)
	case after == nil:
		return none || f.runsOn(before)
	case before.UID != after.UID:
		return none || f.runsOn(before) || f.runsOn(after)
	}
	was, is := f.pod.Fit(before), f.pod.Fit(after)
	if was.ShouldRun != is.ShouldRun || was.ShouldContinueRunning != is.ShouldContinueRunning || none && was.Reason != is.Reason {
		return true
	}
	return f.nodes != nil && (is.ShouldContinueRunning || is.ShouldRun) &&
		f.nodes.Matches(labels.Set(before.Labels)) != f.nodes.Matches(labels.Set(after.Labels))
}

// runsOn says that the node should run a pod of the set, or has one.
func (f *fit) runsOn(node *corev1.Node) bool {
	seen := f.seen.Load()
	return f.pod.Fit(node).ShouldRun || seen != nil && seen.pods.Has(node.Name)
}

// fits are those of all sets.
type fits struct{ workload.Derived[fit] }

// of is the fit of a set, made again when its spec is another one.
func (f *fits) of(set *appsv1beta1.DaemonSet) *fit {
	if known := f.Known(set); known != nil {
		return known
	}
	made := &fit{name: client.ObjectKeyFromObject(set), pod: plan.Compile(set)}
	if selector, err := podset.Selector(set.Spec.Selector); err == nil {
		made.pods = selector
	}
	if rolling := set.Spec.UpdateStrategy.RollingUpdate; rolling != nil && rolling.Selector != nil {
		if selector, err := metav1.LabelSelectorAsSelector(rolling.Selector); err == nil {
			made.nodes = selector
		}
	}
	if before := f.Keep(set, made); before != nil {
		made.seen.Store(before.seen.Load())
	}
	return made
}

// all are the fits of the sets that the cache has. Sets that cannot be decoded are left out: nothing is done for them.
func (r *Reconciler) all(ctx context.Context, options ...client.ListOption) []*fit {
	stored, err := r.Stored(ctx, options...)
	if err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info("No object is enqueued", "err", err.Error())
		return nil
	}
	found := make([]*fit, 0, len(stored))
	names := make(sets.Set[types.NamespacedName], len(stored))
	for i := range stored {
		names.Insert(client.ObjectKeyFromObject(&stored[i]))
		known := r.fits.Known(&stored[i])
		if known == nil {
			set := &appsv1beta1.DaemonSet{}
			if err := quantity.FromUnstructured(stored[i].Object, set); err != nil {
				continue
			}
			known = r.fits.of(set)
		}
		found = append(found, known)
	}
	if len(options) == 0 {
		r.fits.Only(names)
	}
	return found
}
