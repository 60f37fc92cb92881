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
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

// observation is what was read of a set.
type observation struct {
	snapshot  podset.Snapshot
	revisions workload.Revisions
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

	pods, strangers, err := r.ControlledPods(ctx, owner, selector)
	if err != nil {
		return observation{}, err
	}
	orphans, err := r.orphanPods(ctx, set, selector)
	if err != nil {
		return observation{}, err
	}
	podChanges := ownership.Changes{Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Adopt: orphans, Release: strangers}
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
			n, err := r.Claimer.Apply(ctx, owner, *metav1.NewControllerRef(set, Kind()), changes)
			changed += n
			seen.failed = errors.Join(seen.failed, err)
		}
		if changed > 0 {
			return observation{}, workload.ErrViewChanged
		}
	}

	if seen.revisions, err = r.Revise(ctx, set, set.Annotations, &set.Spec.Template, set.Status.CollisionCount); err != nil {
		return observation{}, err
	}
	now := r.Clock.Now()
	seen.snapshot = podset.Snapshot{
		Now:       now,
		Pods:      Pods(set, pods, now, r.Options),
		Update:    seen.revisions.Update,
		Current:   revision.Current(set.Status.CurrentRevision, seen.revisions.Update, seen.revisions.ByName),
		Revisions: seen.revisions.ByName,
	}
	r.Departed(owner, seen.snapshot.Pods)
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

// orphanPods returns the pods that nothing controls, that the selector matches, and whose names are those of slots. Without a selector
// there are none.
func (r *Reconciler) orphanPods(ctx context.Context, set *appsv1beta1.StatefulSet, selector labels.Selector) ([]client.Object, error) {
	if selector == nil {
		return nil, nil
	}
	var orphans corev1.PodList
	if err := index.Orphans(ctx, r.Client, &orphans, set.Namespace); err != nil {
		return nil, fmt.Errorf("listing pods without a controller: %w", err)
	}
	var own []client.Object
	for i := range orphans.Items {
		pod := &orphans.Items[i]
		_, ours := ordinal.OfPod(set.Name, pod.Name)
		if ours && pod.DeletionTimestamp == nil && selector.Matches(labels.Set(pod.Labels)) {
			own = append(own, pod)
		}
	}
	return own, nil
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

// readClaims reads the claims of the pods there are and of those there should be. A set without claim templates has none, and
// costs nothing: the claims of the cluster are watched only from the first set that has some.
func (r *Reconciler) readClaims(ctx context.Context, set *appsv1beta1.StatefulSet, w wanted, pods []*corev1.Pod) (map[string]*corev1.PersistentVolumeClaim, error) {
	if len(w.claims.Claims) == 0 {
		return nil, nil
	}
	if err := r.WatchLate(ctx, &corev1.PersistentVolumeClaim{}, r.setOfClaim); err != nil {
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
	if err := r.WatchLate(ctx, &storagev1.StorageClass{}, nil); err != nil {
		return nil, err
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
