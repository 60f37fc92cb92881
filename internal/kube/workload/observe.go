// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
	"github.com/kruise-operator/kruise-operator/internal/kube/cache"
	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
	"github.com/kruise-operator/kruise-operator/internal/kube/history"
	"github.com/kruise-operator/kruise-operator/internal/kube/ownership"
)

// ErrViewChanged means objects were adopted or released, so look at the workload again before
// planning.
var ErrViewChanged = errors.New("objects were adopted or released")

// ErrNotSynced means the cache does not yet hold the objects the workload needs.
var ErrNotSynced = errors.New("the cache is being filled")

// ErrDenied means the server does not let the cache read objects the workload needs.
var ErrDenied = errors.New("the operator may not read what it needs")

// historyLimit is revisionHistoryLimit when it is omitted.
const historyLimit int32 = 10

// ControlledPods returns the pods the workload controls. Pods its selector no longer
// matches, to be released, are in toRelease and not in pods. Without a selector there are
// none. All belong to the cache and are read-only.
func (b *Base) ControlledPods(ctx context.Context, owner freshness.Owner, selector labels.Selector) (pods []*corev1.Pod, toRelease []client.Object, err error) {
	controlled, err := cache.ControlledPods(ctx, b.Cache, owner.Namespace, owner.UID)
	if err != nil || selector == nil {
		return controlled, nil, err
	}
	pods = make([]*corev1.Pod, 0, len(controlled))
	for _, pod := range controlled {
		if selector.Matches(labels.Set(pod.Labels)) {
			pods = append(pods, pod)
		} else {
			toRelease = append(toRelease, pod)
		}
	}
	return pods, toRelease, nil
}

// OwnPods returns the pods that a set controls. Unless the set is being deleted, it also adopts the pods and revisions without a controller that are
// the set's, and releases the pods that its selector no longer matches. The selector matches pods and revisions; fits says the rest of pods. It fails
// with ErrViewChanged when something changed hands. refused is what the server refused.
func (b *Base) OwnPods(ctx context.Context, set client.Object, spec *podset.Spec, fits func(*corev1.Pod) bool) (pods []*corev1.Pod, refused, err error) {
	pods, toRelease, err := b.ControlledPods(ctx, freshness.OwnerOf(set), spec.Selector)
	if err != nil || spec.Deleting || spec.Selector == nil {
		return pods, nil, err
	}
	refused, err = b.adoptAndRelease(ctx, set, spec.Selector, toRelease, fits)
	return pods, refused, err
}

func (b *Base) adoptAndRelease(
	ctx context.Context, set client.Object, selector labels.Selector, release []client.Object, fits func(*corev1.Pod) bool,
) (refused, err error) {
	var pods corev1.PodList
	if err := cache.Orphans(ctx, b.Client, &pods, set.GetNamespace()); err != nil {
		return nil, fmt.Errorf("listing pods without a controller: %w", err)
	}
	var revisions appsv1.ControllerRevisionList
	if err := cache.Orphans(ctx, b.Client, &revisions, set.GetNamespace()); err != nil {
		return nil, fmt.Errorf("listing revisions without a controller: %w", err)
	}
	ofPods, ofRevisions := ownership.Changes{Kind: podset.KindPod(), Release: release}, ownership.Changes{Kind: history.Kind()}
	for i := range pods.Items {
		if pod := &pods.Items[i]; pod.DeletionTimestamp == nil && selector.Matches(labels.Set(pod.Labels)) && fits(pod) {
			ofPods.Adopt = append(ofPods.Adopt, pod)
		}
	}
	for i := range revisions.Items {
		if rev := &revisions.Items[i]; rev.DeletionTimestamp == nil && selector.Matches(labels.Set(rev.Labels)) {
			ofRevisions.Adopt = append(ofRevisions.Adopt, rev)
		}
	}
	for _, changes := range []ownership.Changes{ofPods, ofRevisions} {
		if changes.IsZero() {
			continue
		}
		changed, failed := b.Adopter.Apply(ctx, freshness.OwnerOf(set), *metav1.NewControllerRef(set, b.Kind), changes)
		refused = errors.Join(refused, failed)
		if changed > 0 {
			err = ErrViewChanged
		}
	}
	return refused, err
}

// MarkDeleted marks our deleted pods that look whole in the view as terminating: nothing
// may count on them.
func (b *Base) MarkDeleted(owner freshness.Owner, pods []podset.Pod) {
	deleted := b.Tracker.Deleted(owner, podset.KindPod(), func(yield func(metav1.Object) bool) {
		for i := range pods {
			if !yield(pods[i].Object) {
				return
			}
		}
	})
	if len(deleted) == 0 {
		return
	}
	for i := range pods {
		if pod := &pods[i]; deleted.Has(pod.Object.UID) {
			pod.Terminating, pod.Available, pod.AvailableIn = true, false, 0
		}
	}
}

// Recorded is what of a set is recorded in its revisions.
type Recorded struct {
	Template *corev1.PodTemplateSpec
	// Annotations are for a new revision.
	Annotations map[string]string
	// CollisionCount is the status's, and so is Current, the revision that all pods had last; empty for a kind without such a field.
	CollisionCount *int32
	Current        string
	// HashLabel is the key of the label with a revision's hash; see revision.Owner.
	HashLabel string
	// AsWritten makes pods from the template as written; see revision.PodTemplates.
	AsWritten bool
}

// Observed is the observed state of a set.
type Observed struct {
	Snapshot podset.Snapshot
	// Failed is a fault with a still useful observation.
	Failed error
	// stored are the earlier revisions.
	stored []revision.Revision
}

// Observe records the template of a set and takes the snapshot of the set, without its claims. facts are the facts about its pods at a time.
func (p *Pass) Observe(ctx context.Context, set client.Object, r Recorded, facts func(now time.Time) []podset.Pod) (Observed, error) {
	observed, err := p.ensureRevision(ctx, set, r)
	if err != nil {
		return Observed{}, err
	}
	s := &observed.Snapshot
	s.Now = p.Clock.Now()
	s.Pods = facts(s.Now)
	s.Current = currentOf(s, r.Current)
	p.MarkDeleted(freshness.OwnerOf(set), s.Pods)
	return observed, nil
}

// currentOf is the pods' last revision, which a status names. Before it names one the template may change.
func currentOf(s *podset.Snapshot, name string) revision.Revision {
	if named, stored := s.Revisions[name]; stored {
		return named
	}
	return podset.NewestOld(s.Pods, s.Update, s.Revisions)
}

// ensureRevision reads the revisions of a set and records its template. For a set being deleted
// it only finds it. While the server refuses it, by a quota say, it returns the newest
// recorded one; without any, the refusal. The server is asked again every refusedRecheck,
// or when the set has changed.
func (b *Base) ensureRevision(ctx context.Context, set client.Object, r Recorded) (Observed, error) {
	ownerKey, codec := freshness.OwnerOf(set), revision.PodTemplates(r.AsWritten)
	stored, err := history.List(ctx, b.History, codec, set.GetNamespace(), ownerKey.UID)
	if err != nil {
		return Observed{}, err
	}
	owner := revision.Owner{
		Namespace: set.GetNamespace(), Name: ownerKey.Name, Annotations: r.Annotations, HashLabel: r.HashLabel,
		Reference: *metav1.NewControllerRef(set, b.Kind),
	}
	var decision revision.DecisionOf[corev1.PodTemplateSpec]
	var refused error
	if set.GetDeletionTimestamp() == nil {
		refused, err = b.Record(set, len(stored) > 0, func() error {
			decision, err = history.Ensure(ctx, b.History, codec, ownerKey, owner, r.Template, stored, r.CollisionCount)
			return err
		})
	}
	if refused != nil || set.GetDeletionTimestamp() != nil {
		decision, err = revision.DecideOf(codec, owner, r.Template, stored, r.CollisionCount)
	}
	if err != nil {
		return Observed{}, err
	}
	observed := Observed{stored: stored, Failed: refused, Snapshot: podset.Snapshot{
		Revisions: byName(stored), Update: decision.Update, CollisionCount: decision.CollisionCount,
	}}
	if refused != nil {
		unrecorded(&observed, r.CollisionCount)
		return observed, nil
	}
	observed.Snapshot.Revisions[decision.Update.Name] = decision.Update
	return observed, nil
}

// unrecorded makes the newest recorded revision that of the update, while the server refuses to record the present template.
func unrecorded(observed *Observed, collisionCount *int32) {
	s := &observed.Snapshot
	s.Unrecorded, s.Wanted, s.CollisionCount = observed.Failed.Error(), s.Update.Name, collisionCount
	s.Update = slices.MaxFunc(observed.stored, func(a, b revision.Revision) int { return cmp.Compare(a.Number, b.Number) })
}

// Record calls record to record an object's template, unless the server refused this less
// than five seconds ago. optional: the object can be planned without it. Then refused is a
// lasting refusal, reported by an event. err is any other error.
func (b *Base) Record(object client.Object, optional bool, record func() error) (refused, err error) {
	last := &b.memories.of(freshness.OwnerOf(object)).refusal
	if err = last.stands(object, b.Clock.Now()); err == nil {
		if err = record(); err == nil {
			*last = refusal{}
		}
	}
	if !optional || !lasts(err) || apierrors.IsTooManyRequests(err) {
		return nil, err
	}
	if last.note(object, b.Clock.Now(), err) {
		b.Recorder.Eventf(object, nil, corev1.EventTypeWarning, "FailedCreate", "Create", "%s", err.Error())
	}
	return err, nil
}

func byName(stored []revision.Revision) map[string]revision.Revision {
	all := make(map[string]revision.Revision, len(stored)+1)
	for _, known := range stored {
		all[known.Name] = known
	}
	return all
}

// refusedRecheck is how long the server is not asked again after a refusal to record a
// template.
const refusedRecheck = 5 * time.Second

// refusal is the server's refusal to record an object's template.
type refusal struct {
	generation int64
	at         time.Time
	err        error
	// emitted is the last answer with an event.
	emitted string
}

// stands is the refusal of less than refusedRecheck ago, if the spec of the object is still the same. An older one is forgotten.
func (r *refusal) stands(object client.Object, now time.Time) error {
	if r.err != nil && r.generation == object.GetGeneration() && now.Sub(r.at) < refusedRecheck {
		return r.err
	}
	r.err = nil
	return nil
}

// note remembers an answer, and is true if it is new.
func (r *refusal) note(object client.Object, now time.Time, err error) (isNew bool) {
	if r.err == nil {
		r.generation, r.at, r.err = object.GetGeneration(), now, err
	}
	isNew = r.emitted != err.Error()
	r.emitted = err.Error()
	return isNew
}

// TrimRevisions deletes revisions neither a pod nor the status needs, beyond the limit.
// Write the status before: revisions only the old one named may go. A set being
// deleted keeps them all.
func (b *Base) TrimRevisions(ctx context.Context, set client.Object, observed Observed, limit *int32, inStatus ...string) error {
	most := int(ptr.Deref(limit, historyLimit))
	if set.GetDeletionTimestamp() != nil || len(observed.stored) <= most {
		return nil
	}
	live := sets.New(inStatus...)
	for i := range observed.Snapshot.Pods {
		live.Insert(observed.Snapshot.Pods[i].Revision)
	}
	return history.Trim(ctx, b.History, freshness.OwnerOf(set), observed.stored, live, most)
}
