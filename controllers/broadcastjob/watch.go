// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package broadcastjob

import (
	"context"
	"sync/atomic"

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
	unfinished := make(sets.Set[types.NamespacedName], len(stored))
	for i := range stored {
		if ended(stored[i].Object) {
			continue
		}
		name := client.ObjectKeyFromObject(&stored[i])
		unfinished.Insert(name)
		known := r.fits.Known(&stored[i])
		if known == nil {
			job := &appsv1beta1.BroadcastJob{}
			if err := quantity.FromUnstructured(stored[i].Object, job); err != nil {
				continue // it cannot be decoded, so nothing is done for it
			}
			known = r.fits.of(plan.Parse(job, r.Options))
		}
		if known.concerned(before, after) {
			names = append(names, name)
		}
	}
	r.fits.Only(unfinished)
	return names
}

// fit is what of a job decides which nodes concern it.
type fit struct {
	plan.Fitting
	// seen is what the last pass saw; nil before the first one.
	seen atomic.Pointer[seen]
}

// seen is on which nodes a job has, or had, something.
type seen struct {
	// nodes are those that fit, had a pod, or were finished.
	nodes sets.Set[string]
	// none says that no node fitted: then the status counts them all by why they do not.
	none bool
}

// sees remembers what a pass saw.
func (f *fit) sees(s plan.Snapshot, finished func(*plan.Node) bool) {
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
	f.seen.Store(&now)
}

func (f *fit) concerned(before, after *corev1.Node) bool {
	seen := f.seen.Load()
	if seen == nil {
		return true // its first pass is yet to come
	}
	has := func(node *corev1.Node) bool {
		fits, _ := f.Fits(node)
		return fits || seen.nodes.Has(node.Name)
	}
	switch {
	case before == nil:
		return seen.none || has(after)
	case after == nil:
		return seen.none || has(before)
	case before.UID != after.UID:
		return seen.none || has(before) || has(after)
	}
	fitted, was := f.Fits(before)
	fits, is := f.Fits(after)
	return fitted != fits || seen.none && was != is
}

// fits are those of all jobs that have not ended.
type fits struct{ workload.Derived[fit] }

// of is the fit of a job, made again when its spec is another one.
func (f *fits) of(spec *plan.Spec) *fit {
	if known := f.Known(spec.Job); known != nil {
		return known
	}
	made := &fit{Fitting: spec.Fitting}
	if before := f.Keep(spec.Job, made); before != nil {
		made.seen.Store(before.seen.Load())
	}
	return made
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
