// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package batchrelease

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/rollouts/shared"
	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/batchrelease/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/ordinal"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/engine/rollable"
	"github.com/kruise-operator/kruise-operator/internal/engine/rolling"
	"github.com/kruise-operator/kruise-operator/internal/kube/cache"
	"github.com/kruise-operator/kruise-operator/internal/kube/released"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

// observed is what a pass has read.
type observed struct {
	snapshot plan.Snapshot
	row      rollable.Workload
	object   *unstructured.Unstructured
	// deployment is the workload, when it is one, with the numbers of its user and its old ReplicaSets.
	deployment *appsv1.Deployment
	numbers    rolling.Numbers
	newest     *appsv1.ReplicaSet
	old        []*appsv1.ReplicaSet
	// advanced: OpenKruise has taken it from Kubernetes.
	advanced bool
	// pods are those that were read.
	pods []*corev1.Pod
	// canary is the Deployment beside it for the present template, as it should be; nil: the release has none. canaries are those that are stored.
	canary   *appsv1.Deployment
	canaries []*appsv1.Deployment
	// beside: new pods come beside all old ones. scalers are the autoscalers of the workload, when they matter.
	beside  bool
	scalers []scaler
	// labeled: the labels of new pods matter.
	labeled bool
	// again is when time alone makes another pod ready.
	again time.Duration
}

// observe reads the workload of a release, and its pods as far as they matter.
func (r *Reconciler) observe(ctx context.Context, release *v1beta1.BatchRelease) (*observed, error) {
	o := &observed{snapshot: plan.Snapshot{Now: r.Clock.Now(), Labels: r.labels, Keeps: r.keeps}, labeled: r.labels && release.Spec.ReleasePlan.RolloutID != ""}
	ref := release.Spec.WorkloadRef
	row, known := rollable.Of(ref.APIVersion, ref.Kind)
	if !known {
		o.snapshot.Workload = &plan.Workload{Facts: rollable.Facts{Unsupported: fmt.Sprintf("%s of %s is none of %s", ref.Kind, ref.APIVersion, rollable.Names())}}
		return o, nil
	}
	o.row, o.beside = row, release.Spec.ReleasePlan.RollingStyle == v1beta1.BlueGreenRollingStyle
	switch err := r.follow(ctx, row); {
	case meta.IsNoMatchError(err):
		return o, nil
	case err != nil:
		return nil, err
	}
	if err := r.readCanaries(ctx, o, release); err != nil {
		return nil, err
	}
	if err := r.readScalers(ctx, o, release); err != nil {
		return nil, err
	}
	err := r.read(ctx, o, release)
	if errors.Is(err, released.ErrMoved) {
		err = r.read(ctx, o, release)
	}
	if apierrors.IsNotFound(err) || err == nil && o.object.GetDeletionTimestamp() != nil {
		o.snapshot.Workload = nil
		return o, nil
	}
	if err != nil {
		return nil, err
	}
	w := o.snapshot.Workload
	w.Controlled, w.Other = r.controlOf(ctx, o.object, release)
	if _, ours := o.object.GetAnnotations()[shared.AnnotationSequence]; w.Controlled && !ours {
		w.Controlled, w.Foreign = false, true
	}
	if o.deployment != nil {
		w.Held = w.Unsupported != "" && o.deployment.Spec.Paused && !w.Controlled && !w.Foreign
		return o, r.readSetPods(ctx, o, release)
	}
	return o, r.readPods(ctx, o)
}

// read reads the workload: ours from the cache, those of Kubernetes past it.
func (r *Reconciler) read(ctx context.Context, o *observed, release *v1beta1.BatchRelease) error {
	name := types.NamespacedName{Namespace: release.Namespace, Name: release.Spec.WorkloadRef.Name}
	o.object = workload.Object(o.row.Kind)
	switch {
	case o.row.Kind.Kind == "Deployment":
		return r.readDeployment(ctx, o, name, release)
	case o.row.Native:
		if err := r.Live.Get(ctx, name, o.object); err != nil {
			return err
		}
	default:
		if err := r.Cache.Get(ctx, name, o.object, client.UnsafeDisableDeepCopy); err != nil {
			return err
		}
	}
	o.snapshot.Workload = &plan.Workload{Workload: o.row, Facts: o.row.FactsOf(o.object)}
	o.noted(release)
	return nil
}

// noted takes the version before the release from the Rollout: all its pods stay. OpenKruise names versions in its own way.
func (o *observed) noted(release *v1beta1.BatchRelease) {
	noted := release.Annotations[shared.AnnotationStable]
	if _, ours := o.object.GetAnnotations()[shared.AnnotationSequence]; ours {
		noted = cmp.Or(noted, release.Status.StableRevision)
	}
	if noted != "" && o.beside {
		o.snapshot.Workload.Stable = noted
	}
}

// readDeployment reads one with its ReplicaSets.
func (r *Reconciler) readDeployment(ctx context.Context, o *observed, name types.NamespacedName, release *v1beta1.BatchRelease) error {
	d, err := released.ReadDeployment(ctx, r.Live, name, true)
	if err != nil {
		return err
	}
	o.deployment = d.Deployment
	if o.object, err = d.Unstructured(); err != nil {
		return err
	}
	w := &plan.Workload{Workload: o.row, Facts: o.row.FactsOf(o.object)}
	o.snapshot.Workload = w
	if !r.deployments && o.snapshot.Canary == nil && w.Unsupported == "" {
		w.Unsupported = "the feature gate AdvancedDeployment is off"
	}
	o.numbers = rolling.NumbersOf(d.Deployment)
	if kept, found := d.Annotations[shared.AnnotationOriginal]; found {
		o.numbers = rolling.DecodeNumbers(kept)
	}
	if kept, found := d.Annotations[shared.AnnotationAdvancedStrategy]; found {
		o.advanced, o.numbers = true, rolling.Advanced(d.Deployment, kept)
	}
	view, newest, old := rolling.Read(d.Deployment, d.Sets, o.numbers)
	w.Rolling, o.old = &view, old
	w.Revision, w.Stable = d.Revisions()
	o.noted(release)
	view.Stable = slices.IndexFunc(old, func(set *appsv1.ReplicaSet) bool { return rolling.Revision(&set.Spec.Template) == w.Stable })
	w.MaxUnavailable = view.Unavailable
	if newest != nil {
		w.Updated = int(newest.Status.Replicas)
	}
	if seconds := o.numbers.ProgressDeadlineSeconds; seconds != nil {
		w.Deadline = time.Duration(*seconds) * time.Second
	}
	w.Ready, w.Available = view.New.Ready, view.New.Ready
	for _, set := range view.Old {
		w.Available += set.Ready
	}
	o.newest = newest
	o.ofCanary(release, d)
	return nil
}

// readSetPods reads the new pods of a Deployment when their ReplicaSet does not tell enough.
func (r *Reconciler) readSetPods(ctx context.Context, o *observed, release *v1beta1.BatchRelease) error {
	w := o.snapshot.Workload
	if o.newest == nil {
		return nil
	}
	hash := labels.Set{appsv1.DefaultDeploymentUniqueLabelKey: o.newest.Labels[appsv1.DefaultDeploymentUniqueLabelKey]}
	if o.labeled {
		others, err := released.Lacks(ctx, r.Live, o.object, o.newest.UID, hash, shared.RolloutID, release.Spec.ReleasePlan.RolloutID)
		if err != nil {
			return err
		}
		w.Labeled = !others
	}
	slow := w.Ready < w.Updated && o.snapshot.Now.Sub(plan.Progressed(release)) > patience
	if !slow && o.numbers.MinReadySeconds <= 0 && (w.Labeled || !o.labeled) {
		return nil
	}
	var err error
	if o.pods, err = released.Pods(ctx, r.Live, o.object, o.newest.UID, hash); err != nil {
		return err
	}
	old := w.Available - w.Ready
	o.count(o.pods, time.Duration(o.numbers.MinReadySeconds)*time.Second)
	w.Rolling.New.Ready, w.Available = w.Ready, old+w.Ready
	return nil
}

// readPods reads the pods of other workloads: ours from the cache.
func (r *Reconciler) readPods(ctx context.Context, o *observed) (err error) {
	w := o.snapshot.Workload
	ofDaemonSet := w.Native && w.Partition == nil
	if ofDaemonSet {
		if w.Revision, err = released.NewestRevision(ctx, r.Live, o.object); err != nil {
			return err
		}
	}
	if w.Native {
		o.pods, err = released.Pods(ctx, r.Live, o.object, o.object.GetUID(), nil)
	} else {
		o.pods, err = cache.ControlledPods(ctx, r.Cache, o.object.GetNamespace(), o.object.GetUID())
	}
	if err != nil {
		return err
	}
	if w.Stable == "" {
		w.Stable = released.StableOf(o.pods, w.Revision)
	}
	var updated []*corev1.Pod
	for _, pod := range o.pods {
		if has(pod, w.Revision) {
			updated = append(updated, pod)
		}
	}
	seconds, _, _ := unstructured.NestedInt64(o.object.Object, "spec", "minReadySeconds")
	minReady := time.Duration(seconds) * time.Second
	inStatus := w.Updated
	o.count(updated, minReady)
	switch {
	case ofDaemonSet:
		w.Pods = o.daemons(w.Revision, minReady)
	case w.Native: // its status does not tell what is ready
	case w.Sized:
		available, _, _ := unstructured.NestedInt64(o.object.Object, "status", "updatedAvailableReplicas")
		w.Updated, w.Ready = inStatus, min(w.Ready, int(available))
	}
	o.blocked()
	if o.beside {
		o.twins()
	}
	return nil
}

// twins counts old pods, and finds pods of neither version.
func (o *observed) twins() {
	w := o.snapshot.Workload
	w.Twin, _ = rollable.TwinOf(o.object.GetAnnotations())
	for _, pod := range o.pods {
		switch {
		case pod.DeletionTimestamp != nil || podstate.Finished(pod) || has(pod, w.Revision):
		case has(pod, w.Stable):
			w.Old++
		default:
			w.Middle = append(w.Middle, pod.Name)
		}
	}
}

// count counts updated pods, and names those that are not ready.
func (o *observed) count(updated []*corev1.Pod, minReady time.Duration) {
	w := o.snapshot.Workload
	w.Updated, w.Ready = 0, 0
	for _, pod := range updated {
		if pod.DeletionTimestamp != nil || podstate.Finished(pod) {
			continue
		}
		w.Updated++
		if o.labeled && !w.Labeled {
			batch, _ := strconv.Atoi(pod.Labels[shared.LabelBatchID])
			w.New = append(w.New, plan.NewPod{Name: pod.Name, ID: pod.Labels[shared.RolloutID], NoNeed: pod.Labels[shared.LabelNoNeedUpdate], Batch: batch})
		}
		available, in := podstate.Availability(pod, minReady, o.snapshot.Now)
		switch {
		case available:
			w.Ready++
		case in > 0:
			o.again = workload.Earliest(o.again, in)
			w.Unready = append(w.Unready, pod.Name+": it is ready, and not for long enough")
		default:
			w.Unready = append(w.Unready, pod.Name+": "+podset.WhyUnready(pod))
		}
	}
}

// blocked finds pods of a StatefulSet that hold up others although they will be replaced: they are outdated, not ready, and above the
// partition of a StatefulSet of Kubernetes, or of a version that is neither the new one nor the stable one. One of ours counts its
// partition in pods, and moves those that are not ready by itself.
func (o *observed) blocked() {
	w := o.snapshot.Workload
	if w.Kind.Kind != "StatefulSet" {
		return
	}
	for _, pod := range o.pods {
		if pod.DeletionTimestamp != nil || podstate.Ready(pod) || has(pod, w.Revision) {
			continue
		}
		if at, _ := ordinal.OfPod(o.object.GetName(), pod.Name); w.Native && at-w.Start >= w.Kept || !has(pod, w.Stable) {
			w.Blocked = append(w.Blocked, pod.Name)
		}
	}
}

// daemons are the pods of a DaemonSet of Kubernetes.
func (o *observed) daemons(revision string, minReady time.Duration) []plan.Pod {
	var all []plan.Pod
	for _, pod := range o.pods {
		available, in := podstate.Availability(pod, minReady, o.snapshot.Now)
		o.again = workload.Earliest(o.again, in)
		cost, err := strconv.ParseInt(pod.Annotations[corev1.PodDeletionCost], 10, 32)
		if err != nil {
			cost = 0
		}
		all = append(all, plan.Pod{
			Name: pod.Name, Updated: has(pod, revision), Gone: pod.DeletionTimestamp != nil, Ready: available, Soon: in > 0,
			Pending: pod.Status.Phase == corev1.PodPending, Cost: cost, Created: pod.CreationTimestamp.Unix(),
		})
	}
	return all
}

// has says that a pod is of a revision, which is named by its hash, or ends with it.
func has(pod *corev1.Pod, revision string) bool {
	hash := pod.Labels[appsv1.ControllerRevisionHashLabelKey]
	return hash != "" && (hash == revision || strings.HasSuffix(revision, "-"+hash))
}

// controlOf says whether a workload is that of this release, and which other live release has it.
func (r *Reconciler) controlOf(ctx context.Context, object *unstructured.Unstructured, release *v1beta1.BatchRelease) (ours bool, other string) {
	var owner metav1.OwnerReference
	text, found := object.GetAnnotations()[shared.AnnotationControl]
	if !found || json.Unmarshal([]byte(text), &owner) != nil {
		return false, ""
	}
	if owner.UID == release.UID {
		return true, ""
	}
	holder := workload.Object(r.Kind)
	err := r.Cache.Get(ctx, types.NamespacedName{Namespace: release.Namespace, Name: owner.Name}, holder, client.UnsafeDisableDeepCopy)
	if err != nil || holder.GetUID() != owner.UID {
		return false, ""
	}
	return false, owner.Name
}
