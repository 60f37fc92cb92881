// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package statefulset

import (
	"context"
	"errors"
	"fmt"
	"iter"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/claims"
	"github.com/kruise-operator/kruise-operator/internal/engine/ordinal"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
	"github.com/kruise-operator/kruise-operator/internal/kube/history"
	"github.com/kruise-operator/kruise-operator/internal/kube/index"
	"github.com/kruise-operator/kruise-operator/internal/kube/ownership"
)

// errViewChanged says that objects changed hands: the set has to be looked at again before it is planned.
var errViewChanged = errors.New("objects were adopted or released")

// errNotSynced says that the cache does not hold yet what the set needs.
var errNotSynced = errors.New("the cache is being filled")

// observation is what was read of a set.
type observation struct {
	snapshot podset.Snapshot
	// revisions are all stored revisions, for deleting surplus ones.
	revisions []revision.Revision
	// collisionCount is what the status should say.
	collisionCount *int32
	// failed is what went wrong without making the observation useless.
	failed error
}

// observe reads the pods, revisions and claims of a set. It makes sure that the set controls those that are its own and that its
// template has a revision, unless the set is being deleted: then it changes nothing.
func (r *Reconciler) observe(ctx context.Context, set *appsv1beta1.StatefulSet) (observation, error) {
	// Without a selector nothing changes hands. What cannot be read of the spec is the planner's to report.
	selector, unreadable := podset.Selector(set.Spec.Selector)
	owner := freshness.OwnerOf(set)
	var seen observation

	pods, podChanges, err := r.listPods(ctx, set, selector)
	if err != nil {
		return observation{}, err
	}
	revisionChanges, err := r.orphanRevisions(ctx, set, selector)
	if err != nil {
		return observation{}, err
	}
	if set.DeletionTimestamp == nil && unreadable == nil {
		changed := 0
		for _, changes := range []ownership.Changes{podChanges, revisionChanges} {
			if changes.IsZero() {
				continue
			}
			n, err := r.claimer.Apply(ctx, owner, controllerReference(set), changes)
			changed += n
			seen.failed = errors.Join(seen.failed, err)
		}
		if changed > 0 {
			return observation{}, errViewChanged
		}
	}

	seen.revisions, err = r.history.List(ctx, owner)
	if err != nil {
		return observation{}, err
	}
	decision, err := r.revise(ctx, set, seen.revisions)
	if err != nil {
		return observation{}, err
	}
	seen.collisionCount = decision.CollisionCount
	stored := make(map[string]revision.Revision, len(seen.revisions)+1)
	for _, known := range seen.revisions {
		stored[known.Name] = known
	}
	stored[decision.Update.Name] = decision.Update

	now := r.Clock.Now()
	seen.snapshot = podset.Snapshot{
		Now:       now,
		Pods:      Pods(set, pods, now, r.Options),
		Update:    decision.Update,
		Current:   revision.Current(set.Status.CurrentRevision, decision.Update, stored),
		Revisions: stored,
	}
	going := r.tracker.Going(owner, pods)
	for i := range seen.snapshot.Pods {
		pod := &seen.snapshot.Pods[i]
		if going.Has(pod.Object.UID) {
			pod.Terminating, pod.Available, pod.AvailableIn = true, false, 0
		}
	}
	// Of a spec that cannot be read, the claims of the pods there are are found all the same.
	w, _ := read(set, r.Options)
	if seen.snapshot.Claims, err = r.readClaims(ctx, set, w, pods); err != nil {
		return observation{}, err
	}
	if w.resize {
		if seen.snapshot.Expandable, err = r.readStorageClasses(ctx); err != nil {
			return observation{}, err
		}
	}
	return seen, nil
}

// listPods returns the pods that the set controls, without those to be released, and what should change hands. Without a selector
// nothing should.
func (r *Reconciler) listPods(ctx context.Context, set *appsv1beta1.StatefulSet, selector labels.Selector) ([]*corev1.Pod, ownership.Changes, error) {
	changes := ownership.Changes{Kind: corev1.SchemeGroupVersion.WithKind("Pod")}
	var owned, orphans corev1.PodList
	if err := index.Controlled(ctx, r.Client, &owned, set.Namespace, set.UID); err != nil {
		return nil, changes, fmt.Errorf("listing pods: %w", err)
	}
	pods := make([]*corev1.Pod, 0, len(owned.Items))
	for i := range owned.Items {
		pod := &owned.Items[i]
		if selector != nil && !selector.Matches(labels.Set(pod.Labels)) {
			changes.Release = append(changes.Release, pod)
			continue
		}
		pods = append(pods, pod)
	}
	if selector == nil {
		return pods, changes, nil
	}
	if err := index.Orphans(ctx, r.Client, &orphans, set.Namespace); err != nil {
		return nil, changes, fmt.Errorf("listing pods without a controller: %w", err)
	}
	for i := range orphans.Items {
		pod := &orphans.Items[i]
		_, ours := ordinal.OfPod(set.Name, pod.Name)
		if ours && pod.DeletionTimestamp == nil && selector.Matches(labels.Set(pod.Labels)) {
			changes.Adopt = append(changes.Adopt, pod)
		}
	}
	return pods, changes, nil
}

func (r *Reconciler) orphanRevisions(ctx context.Context, set *appsv1beta1.StatefulSet, selector labels.Selector) (ownership.Changes, error) {
	changes := ownership.Changes{Kind: history.Kind()}
	if selector == nil {
		return changes, nil
	}
	var orphans appsv1.ControllerRevisionList
	if err := index.Orphans(ctx, r.Client, &orphans, set.Namespace); err != nil {
		return changes, fmt.Errorf("listing revisions without a controller: %w", err)
	}
	for i := range orphans.Items {
		orphan := &orphans.Items[i]
		if orphan.DeletionTimestamp == nil && selector.Matches(labels.Set(orphan.Labels)) {
			changes.Adopt = append(changes.Adopt, orphan)
		}
	}
	return changes, nil
}

// revise finds or makes the revision of the present template. For a set that is being deleted it only finds it.
func (r *Reconciler) revise(ctx context.Context, set *appsv1beta1.StatefulSet, stored []revision.Revision) (revision.Decision, error) {
	owner := revision.Owner{
		Namespace: set.Namespace, Name: set.Name, Annotations: set.Annotations, Reference: controllerReference(set),
	}
	if set.DeletionTimestamp != nil {
		return revision.Decide(owner, &set.Spec.Template, stored, set.Status.CollisionCount)
	}
	return r.history.Ensure(ctx, owner, &set.Spec.Template, stored, set.Status.CollisionCount)
}

// readClaims reads the claims of the pods there are and of those there should be. A set without claim templates has none, and
// costs nothing: the claims of the cluster are watched only from the first set that has some.
func (r *Reconciler) readClaims(ctx context.Context, set *appsv1beta1.StatefulSet, w wanted, pods []*corev1.Pod) (map[string]*corev1.PersistentVolumeClaim, error) {
	if len(w.claims.Claims) == 0 {
		return nil, nil
	}
	if err := r.watchClaims(ctx); err != nil {
		return nil, err
	}
	found := map[string]*corev1.PersistentVolumeClaim{}
	read := func(pod string) error {
		for i := range w.claims.Claims {
			name := claims.Name(w.claims.Claims[i].Name, pod)
			if _, ok := found[name]; ok {
				continue
			}
			claim := &corev1.PersistentVolumeClaim{}
			err := r.Client.Get(ctx, types.NamespacedName{Namespace: set.Namespace, Name: name}, claim, client.UnsafeDisableDeepCopy)
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				return fmt.Errorf("reading claim %s: %w", name, err)
			}
			found[name] = claim
		}
		return nil
	}
	for _, pod := range pods {
		if err := read(pod.Name); err != nil {
			return nil, err
		}
	}
	for name := range missingPods(set.Name, w, pods) {
		if err := read(name); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// missingPods yields the names of the pods that a plan may create: those of the lowest ordinals that lack one.
func missingPods(set string, w wanted, pods []*corev1.Pod) iter.Seq[string] {
	return func(yield func(string) bool) {
		exist := make(map[string]bool, len(pods))
		for _, pod := range pods {
			exist[pod.Name] = true
		}
		yielded := 0
		for o := range w.ordinals.Iterate() {
			name := ordinal.PodName(set, o)
			if exist[name] {
				continue
			}
			if yielded == creationsAtOnce || !yield(name) {
				return
			}
			yielded++
		}
	}
}

// readStorageClasses says which storage classes let claims grow. They are watched only from the first set whose claims grow.
func (r *Reconciler) readStorageClasses(ctx context.Context) (map[string]bool, error) {
	informer, err := r.Cache.GetInformer(ctx, &storagev1.StorageClass{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watching storage classes: %w", err)
	}
	if !informer.HasSynced() {
		return nil, errNotSynced
	}
	var classes storagev1.StorageClassList
	if err := r.Client.List(ctx, &classes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing storage classes: %w", err)
	}
	expandable := make(map[string]bool, len(classes.Items))
	for i := range classes.Items {
		expandable[classes.Items[i].Name] = ptr.Deref(classes.Items[i].AllowVolumeExpansion, false)
	}
	return expandable, nil
}

// controllerReference is what objects of the set carry.
func controllerReference(set *appsv1beta1.StatefulSet) metav1.OwnerReference {
	return *metav1.NewControllerRef(set, Kind())
}
