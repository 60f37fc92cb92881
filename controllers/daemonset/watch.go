// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
		if known.fit.pods != nil && known.fit.pods.Matches(labels.Set(pod.GetLabels())) {
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

// fit is what of the spec of a set decides which nodes and pods concern it.
type fit struct {
	pod nodefit.Pod
	// pods is spec.selector, nodes updateStrategy.rollingUpdate.selector; nil when there is none, or it cannot be parsed.
	pods, nodes labels.Selector
}

// seen is what of an observation decides which nodes concern a set. The zero value is that of a set that was not observed yet.
type seen struct {
	// pods are the nodes that had pods of the set.
	pods sets.Set[string]
	// none says that no node should run a pod: then the status counts them all by why they should not.
	none bool
}

// known is both, of the set of this name.
type known struct {
	*fit
	seen
	name types.NamespacedName
}

func seenIn(s plan.Snapshot) seen {
	now := seen{pods: make(sets.Set[string], len(s.Pods)), none: plan.Desired(s.Nodes) == 0}
	for i := range s.Pods {
		now.pods.Insert(string(s.Pods[i].Slot))
	}
	return now
}

func (f known) concerned(before, after *corev1.Node) bool {
	none := f.none
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
func (f known) runsOn(node *corev1.Node) bool {
	return f.pod.Fit(node).ShouldRun || f.seen.pods.Has(node.Name)
}

// fitOf is the fit of a stored set; nil of one that cannot be decoded, for which nothing is done.
func fitOf(stored *unstructured.Unstructured) *fit {
	set := &appsv1beta1.DaemonSet{}
	if err := quantity.FromUnstructured(stored.Object, set); err != nil {
		return nil
	}
	return compile(set)
}

func compile(set *appsv1beta1.DaemonSet) *fit {
	made := &fit{pod: plan.Compile(set)}
	if selector, err := podset.Selector(set.Spec.Selector); err == nil {
		made.pods = selector
	}
	if rolling := set.Spec.UpdateStrategy.RollingUpdate; rolling != nil && rolling.Selector != nil {
		if selector, err := metav1.LabelSelectorAsSelector(rolling.Selector); err == nil {
			made.nodes = selector
		}
	}
	return made
}

// all is what is known of the sets that the cache has.
func (r *Reconciler) all(ctx context.Context, options ...client.ListOption) []known {
	stored, err := r.Stored(ctx, options...)
	if err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info("No object is enqueued", "err", err.Error())
		return nil
	}
	found := make([]known, 0, len(stored))
	for i := range stored {
		if fit := r.fits.Of(&stored[i]); fit != nil {
			saw, _ := workload.Seen[seen](r.Base, &stored[i])
			found = append(found, known{fit: fit, seen: saw, name: client.ObjectKeyFromObject(&stored[i])})
		}
	}
	return found
}
