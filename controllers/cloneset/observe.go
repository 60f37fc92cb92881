// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package cloneset

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/cloneset/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/claims"
	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
	"github.com/kruise-operator/kruise-operator/internal/engine/lazy"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
	"github.com/kruise-operator/kruise-operator/internal/kube/cache"
	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
	"github.com/kruise-operator/kruise-operator/internal/kube/ownership"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/kube/writer"
)

// claimsByName are volume claims of one namespace.
type claimsByName = map[string]*corev1.PersistentVolumeClaim

// prepare reads the pods, revisions and claims of a set. It releases pods outside of the selector
// and records the template, unless the set is being deleted: then it changes nothing.
func (r *Reconciler) prepare(ctx context.Context, pass *workload.Pass, spec *plan.Spec) (observed workload.Observed, err error) {
	set := spec.Set
	pods, toRelease, err := r.ControlledPods(ctx, freshness.OwnerOf(set), spec.Selector)
	if err != nil {
		return observed, err
	}
	found, err := r.readClaims(ctx, set, pods, toRelease)
	if err != nil {
		return observed, err
	}
	var refused error
	if len(toRelease) > 0 && !spec.Deleting {
		var changed bool
		if changed, refused = r.release(ctx, set, toRelease, found); changed {
			return observed, workload.ErrViewChanged
		}
	}
	recorded := workload.Recorded{
		Template: &set.Spec.Template, Annotations: revision.WithClaims(set.Annotations, set.Spec.VolumeClaimTemplates),
		CollisionCount: set.Status.CollisionCount, Current: set.Status.CurrentRevision,
	}
	observed, err = pass.Observe(ctx, set, recorded, func(now time.Time) []podset.Pod { return plan.Pods(spec, pods, &pass.Memory.Pods, now) })
	if err != nil {
		return observed, err
	}
	observed.Failed = errors.Join(refused, observed.Failed)
	s := &observed.Snapshot
	s.Claims, s.FreshSlots = found, remembered(pass.Memory).freshSlots(s.Pods)
	if s.NodeLabel, err = r.nodeLabels(ctx, set, pods); err != nil {
		return observed, err
	}
	if s.Taken, err = r.takenSlots(ctx, set, s.Pods, found); err != nil {
		return observed, err
	}
	s.Spread, err = pass.Spread(ctx)
	return observed, err
}

// release releases pods, each after its claims: a claim of the set without a pod of the set would
// be deleted. This pass decides nothing about those claims, so found loses them. It reports whether
// anything changed hands, or may have. A refused claim keeps its own pod alone.
func (r *Reconciler) release(ctx context.Context, set *appsv1beta1.CloneSet, toRelease []client.Object, found claimsByName) (bool, error) {
	owner, reference := freshness.OwnerOf(set), *metav1.NewControllerRef(set, plan.Kind())
	kindClaim, kindPod := corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"), corev1.SchemeGroupVersion.WithKind("Pod")
	bySlot := map[string][]client.Object{}
	for _, object := range toRelease {
		if pod, ok := object.(*corev1.Pod); ok {
			bySlot[string(plan.SlotOf(set.Name, pod))] = nil
		}
	}
	for name, claim := range found {
		slot := claim.Labels[shared.LabelInstanceID]
		if _, leaves := bySlot[slot]; !leaves {
			continue
		}
		if claims.OwnedBy(claim, set.UID) {
			bySlot[slot] = append(bySlot[slot], claim)
		}
		delete(found, name)
	}
	var failed error
	var ready []client.Object
	changed := 0
	for _, object := range toRelease {
		var own []client.Object
		if pod, ok := object.(*corev1.Pod); ok {
			own = bySlot[string(plan.SlotOf(set.Name, pod))]
		}
		n, err := r.Adopter.Apply(ctx, owner, reference, ownership.Changes{Kind: kindClaim, Release: own})
		changed, failed = changed+n, errors.Join(failed, err)
		if n == len(own) {
			ready = append(ready, object)
		}
	}
	conflict := failed == nil && len(ready) < len(toRelease)
	released, err := r.Adopter.Apply(ctx, owner, reference, ownership.Changes{Kind: kindPod, Release: ready})
	return changed+released > 0 || conflict, errors.Join(failed, err)
}

// readClaims reads the claims of the set or its pods. A set without any costs nothing: the claims
// of the cluster are watched only from the first set with some.
func (r *Reconciler) readClaims(ctx context.Context, set *appsv1beta1.CloneSet, pods []*corev1.Pod, toRelease []client.Object) (claimsByName, error) {
	if len(set.Spec.VolumeClaimTemplates) == 0 && !slices.ContainsFunc(pods, hasOwnClaim) {
		return nil, nil
	}
	if err := r.WatchLate(ctx, &corev1.PersistentVolumeClaim{}, r.ownersOfClaim, cache.IndexInstanceClaims); err != nil {
		return nil, err
	}
	own, err := cache.InstanceClaims(ctx, r.Client, set.Namespace, set.UID)
	if err != nil {
		return nil, err
	}
	leaving, err := cache.InstanceClaims(ctx, r.Client, set.Namespace, cache.OfPod)
	if err != nil {
		return nil, err
	}
	found := make(claimsByName, len(own))
	for i := range own {
		found[own[i].Name] = &own[i]
	}
	if len(leaving) == 0 {
		return found, nil
	}
	members := make(map[types.UID]bool, len(pods))
	for _, pod := range pods {
		members[pod.UID] = true
	}
	for _, pod := range toRelease {
		members[pod.GetUID()] = true
	}
	for i := range leaving {
		if slices.ContainsFunc(leaving[i].OwnerReferences, func(o metav1.OwnerReference) bool { return members[o.UID] }) {
			found[leaving[i].Name] = &leaving[i]
		}
	}
	return found, nil
}

// takenSlots are the slots of claims without a pod of the set although there is a pod of that name:
// somebody removed its owner reference or changed its instance ID by hand. The claims still belong
// to that pod.
func (r *Reconciler) takenSlots(ctx context.Context, set *appsv1beta1.CloneSet, pods []podset.Pod, found claimsByName) (map[planning.Slot]bool, error) {
	if len(found) == 0 {
		return nil, nil
	}
	own := make(map[planning.Slot]bool, len(pods))
	for i := range pods {
		own[pods[i].Slot] = true
	}
	var taken map[planning.Slot]bool
	for _, claim := range found {
		slot := planning.Slot(claim.Labels[shared.LabelInstanceID])
		if slot == "" || own[slot] || taken[slot] {
			continue
		}
		err := r.Client.Get(ctx, types.NamespacedName{Namespace: set.Namespace, Name: set.Name + "-" + string(slot)}, &corev1.Pod{}, client.UnsafeDisableDeepCopy)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, fmt.Errorf("reading the pod of claim %s: %w", claim.Name, err)
		default:
			lazy.Put(&taken, slot, true)
		}
	}
	return taken, nil
}

// hasOwnClaim: the pod mounts a claim of its own.
func hasOwnClaim(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && strings.HasSuffix(v.PersistentVolumeClaim.ClaimName, "-"+pod.Name)
	})
}

// nodeLabels reads the labels of the pods' nodes, as far as the topology spread constraints of the
// template name them. Nodes are watched only from the first set with such constraints.
func (r *Reconciler) nodeLabels(ctx context.Context, set *appsv1beta1.CloneSet, pods []*corev1.Pod) (func(node, key string) string, error) {
	if len(set.Spec.Template.Spec.TopologySpreadConstraints) == 0 {
		return nil, nil
	}
	if err := r.WatchLate(ctx, &corev1.Node{}, nil); err != nil {
		return nil, err
	}
	labels := map[string]map[string]string{}
	for _, pod := range pods {
		name := pod.Spec.NodeName
		if _, known := labels[name]; known || name == "" {
			continue
		}
		node := &corev1.Node{}
		err := r.Client.Get(ctx, types.NamespacedName{Name: name}, node, client.UnsafeDisableDeepCopy)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading node %s: %w", name, err)
		}
		labels[name] = node.Labels
	}
	return func(node, key string) string { return labels[node][key] }, nil
}

// freshSlots are instance IDs for new pods. An unused one is offered again, for a retry under the
// same name. A used one is never offered again: podsToDelete, for example, could still name its
// pod.
func (m *memory) freshSlots(pods []podset.Pod) iter.Seq[planning.Slot] {
	used := make(map[planning.Slot]bool, len(pods))
	for i := range pods {
		used[pods[i].Slot] = true
	}
	m.candidates = slices.DeleteFunc(m.candidates, func(slot planning.Slot) bool { return used[slot] })
	return func(yield func(planning.Slot) bool) {
		for i := 0; ; i++ {
			if i == len(m.candidates) {
				m.candidates = append(m.candidates, planning.Slot(rand.String(lengthOfID)))
			}
			if !yield(m.candidates[i]) {
				return
			}
		}
	}
}

// lengthOfID is how many characters an instance ID has.
const lengthOfID = 5

// prune removes the names of lost pods from scaleStrategy.podsToDelete. A list changed meanwhile is
// left alone.
func (r *Reconciler) prune(ctx context.Context, spec *plan.Spec, pods []podset.Pod) error {
	set := spec.Set
	remaining, changed := plan.RemainingPodsToDelete(spec, pods)
	if !changed || set.DeletionTimestamp != nil {
		return nil
	}
	const path = "/spec/scaleStrategy/podsToDelete"
	patch := []edit.Operation{
		{Op: "test", Path: "/metadata/uid", Value: set.UID}, {Op: "test", Path: path, Value: set.Spec.ScaleStrategy.PodsToDelete},
		{Op: "replace", Path: path, Value: remaining},
	}
	if len(remaining) == 0 {
		patch[2] = edit.Operation{Op: "remove", Path: path}
	}
	_, err := r.Writer.Patch(ctx, freshness.OwnerOf(set), freshness.RefOf(plan.Kind(), set), writer.Patch{Type: types.JSONPatchType, Content: patch})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("shortening podsToDelete: %w", err)
	}
	return nil
}
