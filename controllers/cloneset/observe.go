// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package cloneset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
	"github.com/kruise-operator/kruise-operator/internal/kube/index"
	"github.com/kruise-operator/kruise-operator/internal/kube/ownership"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

// observation is what was read of a set.
type observation struct {
	snapshot  podset.Snapshot
	revisions workload.Revisions
	// options are those of the reconciler, with the nodes as they are now.
	options Options
	// failed is what went wrong without making the observation useless.
	failed error
}

// observe reads the pods, revisions and claims of a set. It lets go of pods that the selector no longer matches and makes sure that the
// template has a revision, unless the set is being deleted: then it changes nothing.
func (r *Reconciler) observe(ctx context.Context, set *appsv1beta1.CloneSet, remembered *memory) (observation, error) {
	// Without a selector nothing changes hands. What cannot be read of the spec is the planner's to report.
	selector, unreadable := podset.Selector(set.Spec.Selector)
	owner := freshness.OwnerOf(set)
	seen := observation{options: r.Options}

	pods, strangers, err := r.ControlledPods(ctx, owner, selector)
	if err != nil {
		return observation{}, err
	}
	claims, err := r.readClaims(ctx, set, pods, strangers)
	if err != nil {
		return observation{}, err
	}
	if len(strangers) > 0 && set.DeletionTimestamp == nil && unreadable == nil {
		changed, err := r.release(ctx, set, strangers, claims)
		if changed {
			return observation{}, workload.ErrViewChanged
		}
		seen.failed = err
	}
	annotations, err := revision.WithClaims(set.Annotations, set.Spec.VolumeClaimTemplates)
	if err != nil {
		return observation{}, err
	}
	if seen.revisions, err = r.Revise(ctx, set, annotations, &set.Spec.Template, set.Status.CollisionCount); err != nil {
		return observation{}, err
	}
	if seen.options.NodeLabel, err = r.nodeLabels(ctx, set, pods); err != nil {
		return observation{}, err
	}

	now := r.Clock.Now()
	seen.snapshot = podset.Snapshot{
		Now:       now,
		Pods:      Pods(set, pods, now, r.Options),
		Claims:    claims,
		Update:    seen.revisions.Update,
		Current:   revision.Current(set.Status.CurrentRevision, seen.revisions.Update, seen.revisions.ByName),
		Revisions: seen.revisions.ByName,
	}
	r.Departed(owner, seen.snapshot.Pods)
	seen.snapshot.FreshSlots = remembered.freshSlots(seen.snapshot.Pods)
	return seen, nil
}

// release lets go of pods, their claims first: a claim of the set without a pod of the set would be deleted. What becomes of those claims
// is not for this pass to decide, so they are taken out of claims. It reports whether anything changed hands, or may have.
func (r *Reconciler) release(ctx context.Context, set *appsv1beta1.CloneSet, strangers []client.Object, claims map[string]*corev1.PersistentVolumeClaim) (bool, error) {
	owner, reference := freshness.OwnerOf(set), *metav1.NewControllerRef(set, Kind())
	slots := map[string]bool{}
	for _, stranger := range strangers {
		if pod, ok := stranger.(*corev1.Pod); ok {
			slots[string(slotOf(set, pod))] = true
		}
	}
	theirs := ownership.Changes{Kind: corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim")}
	for name, claim := range claims {
		if !slots[claim.Labels[shared.LabelInstanceID]] {
			continue
		}
		if ownedBy(claim, set.UID) {
			theirs.Release = append(theirs.Release, claim)
		}
		delete(claims, name)
	}
	changed, err := r.Claimer.Apply(ctx, owner, reference, theirs)
	if changed < len(theirs.Release) {
		return changed > 0 || err == nil, err // Without an error it was a conflict.
	}
	released, err := r.Claimer.Apply(ctx, owner, reference, ownership.Changes{Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Release: strangers})
	return changed+released > 0, err
}

// readClaims reads the claims that the set or its pods own. A set without claim templates, whose pods have no such claims either, costs
// nothing: the claims of the cluster are watched only from the first set that has some.
func (r *Reconciler) readClaims(ctx context.Context, set *appsv1beta1.CloneSet, pods []*corev1.Pod, strangers []client.Object) (map[string]*corev1.PersistentVolumeClaim, error) {
	if len(set.Spec.VolumeClaimTemplates) == 0 && !slices.ContainsFunc(pods, hasOwnClaim) {
		return nil, nil
	}
	if err := r.WatchLate(ctx, &corev1.PersistentVolumeClaim{}, r.ofClaim, index.AddInstanceClaims); err != nil {
		return nil, err
	}
	own, err := index.InstanceClaims(ctx, r.Client, set.Namespace, set.UID)
	if err != nil {
		return nil, err
	}
	leaving, err := index.ClaimsOfPods(ctx, r.Client, set.Namespace)
	if err != nil {
		return nil, err
	}
	claims := make(map[string]*corev1.PersistentVolumeClaim, len(own))
	for i := range own {
		claims[own[i].Name] = &own[i]
	}
	if len(leaving) == 0 {
		return claims, nil
	}
	members := make(map[types.UID]bool, len(pods))
	for _, pod := range pods {
		members[pod.UID] = true
	}
	for _, pod := range strangers {
		members[pod.GetUID()] = true
	}
	for i := range leaving {
		if slices.ContainsFunc(leaving[i].OwnerReferences, func(o metav1.OwnerReference) bool { return members[o.UID] }) {
			claims[leaving[i].Name] = &leaving[i]
		}
	}
	return claims, nil
}

// hasOwnClaim says that the pod mounts a claim that was made for it.
func hasOwnClaim(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && strings.HasSuffix(v.PersistentVolumeClaim.ClaimName, "-"+pod.Name)
	})
}

// nodeLabels reads the labels of the nodes that the pods are on, as far as the topology spread constraints of the template name them.
// Nodes are watched only from the first set that has such constraints.
func (r *Reconciler) nodeLabels(ctx context.Context, set *appsv1beta1.CloneSet, pods []*corev1.Pod) (func(node, key string) string, error) {
	if len(set.Spec.Template.Spec.TopologySpreadConstraints) == 0 {
		return nil, nil
	}
	node := func() *metav1.PartialObjectMetadata {
		meta := &metav1.PartialObjectMetadata{}
		meta.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
		return meta
	}
	if err := r.WatchLate(ctx, node(), nil); err != nil {
		return nil, err
	}
	labels := map[string]map[string]string{}
	for _, pod := range pods {
		name := pod.Spec.NodeName
		if _, known := labels[name]; known || name == "" {
			continue
		}
		found := node()
		err := r.Client.Get(ctx, types.NamespacedName{Name: name}, found, client.UnsafeDisableDeepCopy)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading node %s: %w", name, err)
		}
		labels[name] = found.Labels
	}
	return func(node, key string) string { return labels[node][key] }, nil
}

// freshSlots are instance IDs for new pods. One that was offered and not used is offered again, so that a creation that was refused is
// tried again under its name. One that a pod was seen with is never offered again: it could be meant by what was said about that pod.
func (m *memory) freshSlots(pods []podset.Pod) iter.Seq[podset.Slot] {
	used := make(map[podset.Slot]bool, len(pods))
	for i := range pods {
		used[pods[i].Slot] = true
	}
	m.candidates = slices.DeleteFunc(m.candidates, func(slot podset.Slot) bool { return used[slot] })
	return func(yield func(podset.Slot) bool) {
		for i := 0; ; i++ {
			if i == len(m.candidates) {
				m.candidates = append(m.candidates, podset.Slot(rand.String(lengthOfID)))
			}
			if !yield(m.candidates[i]) {
				return
			}
		}
	}
}

// lengthOfID is how many characters an instance ID has.
const lengthOfID = 5

// prune takes the names of pods that are gone off scaleStrategy.podsToDelete. A list that has changed meanwhile is left alone.
func (r *Reconciler) prune(ctx context.Context, set *appsv1beta1.CloneSet, pods []podset.Pod) error {
	remaining, changed := RemainingPodsToDelete(set, pods)
	if !changed || set.DeletionTimestamp != nil {
		return nil
	}
	const path = "/spec/scaleStrategy/podsToDelete"
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value,omitempty"`
	}
	patch := []operation{{"test", "/metadata/uid", set.UID}, {"test", path, set.Spec.ScaleStrategy.PodsToDelete}, {"replace", path, remaining}}
	if len(remaining) == 0 {
		patch[2] = operation{Op: "remove", Path: path}
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("shortening podsToDelete: %w", err)
	}
	answer := &metav1.PartialObjectMetadata{}
	answer.SetGroupVersionKind(Kind())
	answer.Namespace, answer.Name = set.Namespace, set.Name
	ctx, cancel := context.WithTimeout(ctx, r.WriteTimeout)
	defer cancel()
	err = r.Client.Patch(ctx, answer, client.RawPatch(types.JSONPatchType, body), client.FieldOwner(shared.FieldManager))
	r.Tracker.Answered(freshness.OwnerOf(set), freshness.RefOf(Kind(), set), freshness.Patch, answer.ResourceVersion, err)
	if refused := testFailed(err); refused || apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("shortening podsToDelete: %w", err)
	}
	return nil
}

// testFailed says that the server did not find what the patch expects.
func testFailed(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && apierrors.IsInvalid(err) && status.Status().Details != nil && len(status.Status().Details.Causes) == 0
}
