// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package broadcastjob

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/broadcastjob/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/quantity"
)

// concernedByNode are the jobs that have not ended and for which the change of a node could decide something. before is nil for a node that
// comes, after for one that goes.
func (r *Reconciler) concernedByNode(ctx context.Context, before, after *corev1.Node) []types.NamespacedName {
	stored, err := r.Stored(ctx)
	if err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info("No object is enqueued", "err", err.Error())
		return nil
	}
	var names []types.NamespacedName
	for i := range stored {
		if ended(stored[i].Object) {
			continue
		}
		fit := r.fits.Of(&stored[i])
		if fit == nil {
			continue // it cannot be decoded, so nothing is done for it
		}
		if saw, known := workload.Seen[seen](r.Base, &stored[i]); !known || saw.concerned(fit, before, after) {
			names = append(names, client.ObjectKeyFromObject(&stored[i]))
		}
	}
	return names
}

// fitOf is what of the spec of a job decides which nodes concern it.
func fitOf(o plan.Options) func(*unstructured.Unstructured) *plan.Fitting {
	return func(stored *unstructured.Unstructured) *plan.Fitting {
		job := &appsv1beta1.BroadcastJob{}
		if err := quantity.FromUnstructured(stored.Object, job); err != nil {
			return nil
		}
		return &plan.Parse(job, o).Fitting
	}
}

// seen is on which nodes a job has, or had, something.
type seen struct {
	// nodes are those that fit, had a pod, or were finished.
	nodes sets.Set[string]
	// none says that no node fitted: then the status counts them all by why they do not.
	none bool
}

// seenIn is what a pass saw.
func seenIn(s plan.Snapshot, finished func(*plan.Node) bool) seen {
	now := seen{nodes: sets.New[string](), none: true}
	for i := range s.Nodes {
		node := &s.Nodes[i]
		now.none = now.none && !node.Fits
		if node.Fits || finished(node) {
			now.nodes.Insert(node.Name)
		}
	}
	for i := range s.Pods {
		now.nodes.Insert(string(s.Pods[i].Slot))
	}
	return now
}

// concerned says that the change of a node could decide something for a job that has seen this.
func (s seen) concerned(f *plan.Fitting, before, after *corev1.Node) bool {
	has := func(node *corev1.Node) bool {
		fits, _ := f.Fits(node)
		return fits || s.nodes.Has(node.Name)
	}
	switch {
	case before == nil:
		return s.none || has(after)
	case after == nil:
		return s.none || has(before)
	case before.UID != after.UID:
		return s.none || has(before) || has(after)
	}
	fitted, was := f.Fits(before)
	fits, is := f.Fits(after)
	return fitted != fits || s.none && was != is
}

// ended says whether a stored job has completed or failed. It reads the job as it is stored.
func ended(stored map[string]any) bool {
	never, _, _ := unstructured.NestedString(stored, "spec", "completionPolicy", "type")
	if _, failed := conditions.True(stored, appsv1beta1.BroadcastJobConditionFailed); failed {
		return true
	}
	_, complete := conditions.True(stored, appsv1beta1.BroadcastJobConditionComplete)
	return complete && never != string(appsv1beta1.BroadcastJobNever)
}
