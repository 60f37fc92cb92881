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
const historyLimit = 10

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

// AdoptAndRelease adopts the pods and revisions without a controller that are an object's, and releases pods. The selector matches both; fits says the rest of
// pods. It fails with ErrViewChanged when something changed hands. refused is what the server refused.
func (b *Base) AdoptAndRelease(
	ctx context.Context, object client.Object, selector labels.Selector, release []client.Object, fits func(*corev1.Pod) bool,
) (refused, err error) {
	var pods corev1.PodList
	if err := cache.Orphans(ctx, b.Client, &pods, object.GetNamespace()); err != nil {
		return nil, fmt.Errorf("listing pods without a controller: %w", err)
	}
	var revisions appsv1.ControllerRevisionList
	if err := cache.Orphans(ctx, b.Client, &revisions, object.GetNamespace()); err != nil {
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
		changed, failed := b.Adopter.Apply(ctx, freshness.OwnerOf(object), *metav1.NewControllerRef(object, b.Kind), changes)
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

// Revisions are the revisions of a workload.
type Revisions struct {
	// Stored are the earlier revisions, ByName also has the present template's.
	Stored []revision.Revision
	ByName map[string]revision.Revision
	// Update is the present template's.
	Update revision.Revision
	// CollisionCount is the status's new one.
	CollisionCount *int32
	// Refused is the server's refusal to record the present template. Update is then the
	// newest recorded revision, and Wanted the unrecorded one's name. Nil: it is recorded.
	Refused error
	Wanted  string
}

// whyRefused is why the server refuses to record the present template; empty when it is recorded.
func (r *Revisions) whyRefused() string {
	if r.Refused == nil {
		return ""
	}
	return r.Refused.Error()
}

// Snapshot is a workload at now with these revisions and pods, without its claims. current
// names the pods' last revision, from the status; a kind without such a field names the update revision.
func (r *Revisions) Snapshot(now time.Time, pods []podset.Pod, current string) podset.Snapshot {
	if _, stored := r.ByName[current]; !stored {
		current = podset.NewestOld(pods, r.Update, r.ByName).Name // the template may change before a status names it
	}
	return podset.Snapshot{
		Now:        now,
		Pods:       pods,
		Update:     r.Update,
		Unrecorded: r.whyRefused(),
		Wanted:     r.Wanted,
		Current:    revision.Current(current, r.Update, r.ByName),
		Revisions:  r.ByName,
	}
}

// Recorded is an object's content for a revision, and its place.
type Recorded struct {
	// Template is the payload.
	Template *corev1.PodTemplateSpec
	// Annotations are for a new revision.
	Annotations map[string]string
	// CollisionCount is the status's.
	CollisionCount *int32
	// Namespace is for the revisions of a cluster-scoped object. Those of a namespaced one
	// are in its own; leave it empty then.
	Namespace string
	// HashLabel is the key of the label with a revision's hash; see revision.Owner.
	HashLabel string
	// AsWritten makes pods from the template as written; see revision.Owner.
	AsWritten bool
}

// EnsureRevision reads the revisions and records the object's. For an object being deleted
// it only finds it. While the server refuses it, by a quota say, it returns the newest
// recorded one; without any, the refusal. The server is asked again every refusedRecheck,
// or when the object has changed.
func (b *Base) EnsureRevision(ctx context.Context, object client.Object, r Recorded) (Revisions, error) {
	ownerKey := freshness.OwnerOf(object)
	namespace := cmp.Or(object.GetNamespace(), r.Namespace)
	stored, err := history.List(ctx, b.History, revision.PodTemplates(), namespace, ownerKey.UID)
	if err != nil {
		return Revisions{}, err
	}
	owner := revision.Owner{
		Namespace: namespace, Name: ownerKey.Name, Annotations: r.Annotations, HashLabel: r.HashLabel, AsWritten: r.AsWritten,
		Reference: *metav1.NewControllerRef(object, b.Kind),
	}
	var decision revision.Decision
	if object.GetDeletionTimestamp() != nil {
		decision, err = revision.Decide(owner, r.Template, stored, r.CollisionCount)
	} else {
		var refused error
		refused, err = b.Record(object, len(stored) > 0, func() error {
			decision, err = history.Ensure(ctx, b.History, revision.TemplatesLike(owner, r.Template), ownerKey, owner, r.Template, stored, r.CollisionCount)
			return err
		})
		if refused != nil {
			return unrecorded(owner, r, stored, refused)
		}
	}
	if err != nil {
		return Revisions{}, err
	}
	revisions := Revisions{Stored: stored, ByName: byName(stored), Update: decision.Update, CollisionCount: decision.CollisionCount}
	revisions.ByName[decision.Update.Name] = decision.Update
	return revisions, nil
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

// unrecorded are the revisions while the server refuses to record the present template.
func unrecorded(owner revision.Owner, r Recorded, stored []revision.Revision, cause error) (Revisions, error) {
	wanted, err := revision.Decide(owner, r.Template, stored, r.CollisionCount)
	if err != nil {
		return Revisions{}, err
	}
	newest := slices.MaxFunc(stored, func(a, b revision.Revision) int { return cmp.Compare(a.Number, b.Number) })
	return Revisions{
		Stored: stored, ByName: byName(stored), Update: newest, CollisionCount: r.CollisionCount, Refused: cause, Wanted: wanted.Update.Name,
	}, nil
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
// Write the status before: revisions only the old one named may go. A workload being
// deleted keeps them all.
func (b *Base) TrimRevisions(ctx context.Context, object client.Object, limit *int32, stored []revision.Revision, pods []podset.Pod, inStatus ...string) error {
	most := historyLimit
	if limit != nil {
		most = int(*limit)
	}
	if object.GetDeletionTimestamp() != nil || len(stored) <= most {
		return nil
	}
	live := sets.New(inStatus...)
	for i := range pods {
		live.Insert(pods[i].Revision)
	}
	return history.Trim(ctx, b.History, freshness.OwnerOf(object), stored, live, most)
}
