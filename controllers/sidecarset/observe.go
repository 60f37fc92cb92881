// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecarspec"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
	"github.com/kruise-operator/kruise-operator/internal/kube/cache"
	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
	"github.com/kruise-operator/kruise-operator/internal/kube/history"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/kube/writer"
)

// recorded is a revision of a SidecarSet.
type recorded = revision.Of[sidecarspec.Payload]

// remembered is what is remembered of a set beside what all kinds remember.
type remembered struct {
	known plan.Known
	// hashes and version are the last tries to write what only others read: the hashes to the set, and the version to its revision.
	hashes, version attempt
}

// attempt is when something was last tried to be written, and what.
type attempt struct {
	what string
	at   time.Time
}

// attemptAgain is when the same is written again that the server has refused, or that somebody has taken away.
const attemptAgain = time.Minute

// left is how long the same is not tried again.
func (a *attempt) left(what string, now time.Time) time.Duration {
	if a.what != what {
		return 0
	}
	return max(a.at.Add(attemptAgain).Sub(now), 0)
}

// observation is what was read of a set.
type observation struct {
	spec     *plan.Spec
	snapshot plan.Snapshot
	known    *plan.Known
	// again is when to write again what others read, after that was refused; 0: it was not.
	again time.Duration
	// objects are the pods that say that they have the sidecars, whether or not the set still selects them.
	objects []*corev1.Pod
	// stored are the revisions that there were before.
	stored         []recorded
	collisionCount *int32
	// refused is why the server refuses to record the spec; nil: it is recorded.
	refused error
}

// observe reads the pods that have the sidecars of a set, and makes sure that its spec has a revision and that the set carries its hashes,
// unless it is being deleted: then it changes nothing.
func (r *Reconciler) observe(ctx context.Context, pass *workload.Pass, set *appsv1beta1.SidecarSet) (observation, error) {
	raw, _, _ := unstructured.NestedMap(pass.Stored.Object, "spec")
	payload := sidecarspec.PayloadOf(&set.Spec, raw)
	hashes, err := sidecarspec.HashesOf(payload)
	if err != nil {
		return observation{}, err
	}
	own := workload.Own(pass.Memory, func() *remembered { return &remembered{} })
	var observed observation
	update, hashes, err := r.ensureRevision(ctx, set, payload, hashes, own, &observed)
	if err != nil {
		return observation{}, err
	}
	if err := r.keepHashes(ctx, set, hashes, own, &observed); err != nil {
		return observation{}, err
	}
	observed.spec = plan.Parse(set, hashes)
	observed.spec.Recorded = imagesOf(observed.stored)
	observed.objects, err = cache.Annotated(ctx, r.Cache, shared.AnnotationSidecarSetInjectedList, metav1.NamespaceAll, set.Name)
	if err != nil {
		return observation{}, err
	}
	inNamespace, err := r.namespaceFilter(ctx, observed.spec)
	if err != nil {
		return observation{}, err
	}
	now, known := r.Clock.Now(), &own.known
	observed.snapshot = plan.Snapshot{Now: now, Pods: known.Pods(observed.spec, observed.objects, inNamespace, now), Update: update, Refused: known.Refused(now)}
	if observed.refused != nil {
		observed.snapshot.Unrecorded = observed.refused.Error()
	}
	observed.known = known
	return observed, nil
}

// ownerOfRevisions is a set as the owner of its revisions, which carry its labels and annotations, and the hashes.
func ownerOfRevisions(set *appsv1beta1.SidecarSet, namespace string, hashes sidecarspec.Hashes) revision.Owner {
	annotations := map[string]string{}
	maps.Copy(annotations, set.Annotations)
	annotations[shared.AnnotationSidecarSetHash], annotations[shared.AnnotationSidecarSetHashWithoutImage] = hashes.Hash, hashes.WithoutImage
	labels := map[string]string{}
	maps.Copy(labels, set.Labels)
	labels[shared.LabelSidecarSetName] = set.Name
	if set.Spec.CustomVersion != "" {
		labels[shared.LabelSidecarSetCustomVersion] = set.Spec.CustomVersion
	}
	return revision.Owner{Namespace: namespace, Name: set.Name, Labels: labels, Annotations: annotations, Reference: *metav1.NewControllerRef(set, Kind())}
}

// ensureRevision makes sure that the payload has a revision. The hashes are those that the revision carries, where it does: pods that
// another manager injected carry them, too. While the server refuses the revision, by a quota for example, or a webhook that it asks is broken, there is none:
// that stops updates, and neither what is under way on pods nor injection, which do without.
func (r *Reconciler) ensureRevision(
	ctx context.Context, set *appsv1beta1.SidecarSet, payload *sidecarspec.Payload, hashes sidecarspec.Hashes, own *remembered, observed *observation,
) (recorded, sidecarspec.Hashes, error) {
	ownerKey, codec, namespace := freshness.OwnerOf(set), sidecarspec.Codec(), r.Options.Namespace
	var err error
	if observed.stored, err = history.ListOf(ctx, r.History, codec, metav1.NamespaceAll, ownerKey.UID); err != nil {
		return recorded{}, hashes, err
	}
	observed.stored = slices.DeleteFunc(observed.stored, func(r recorded) bool { return !sidecarspec.HasRevisions(r.Object.Namespace, namespace) })
	owner := ownerOfRevisions(set, namespace, hashes)
	var decision revision.DecisionOf[sidecarspec.Payload]
	if set.DeletionTimestamp != nil {
		decision, err = revision.DecideOf(codec, owner, payload, observed.stored, set.Status.CollisionCount)
	} else {
		observed.refused, err = r.Record(set, true, func() error {
			decision, err = history.EnsureOf(ctx, r.History, codec, ownerKey, owner, payload, observed.stored, set.Status.CollisionCount)
			return err
		})
		if apierrors.IsInternalError(err) {
			observed.refused, err = err, nil
		}
	}
	if err != nil {
		return recorded{}, hashes, err
	}
	if observed.refused != nil {
		observed.collisionCount = set.Status.CollisionCount
		return recorded{}, hashes, nil
	}
	observed.collisionCount = decision.CollisionCount
	if object := decision.Update.Object; object != nil {
		if hashes, err = sidecarspec.HashesRecorded(object); err != nil {
			return recorded{}, hashes, err
		}
		if err := r.keepVersion(ctx, set, object, own, observed); err != nil {
			return recorded{}, hashes, err
		}
	}
	return decision.Update, hashes, nil
}

// imagesOf are the images of revisions, by revision and container.
func imagesOf(stored []recorded) map[string]map[string]string {
	all := map[string]map[string]string{}
	for _, revision := range stored {
		if revision.Template == nil {
			continue
		}
		images := map[string]string{}
		for i := range revision.Template.Containers {
			images[revision.Template.Containers[i].Name] = revision.Template.Containers[i].Image
		}
		all[revision.Name] = images
	}
	return all
}

// keepVersion names the revision as spec.customVersion does.
func (r *Reconciler) keepVersion(
	ctx context.Context, set *appsv1beta1.SidecarSet, object *appsv1.ControllerRevision, own *remembered, observed *observation,
) error {
	version := set.Spec.CustomVersion
	if version == "" || object.Labels[shared.LabelSidecarSetCustomVersion] == version || set.DeletionTimestamp != nil {
		return nil
	}
	what := object.Name + " " + version
	return r.forOthers(set, &own.version, what, observed, func() error {
		labels := map[string]*string{shared.LabelSidecarSetCustomVersion: &version}
		err := r.History.Label(ctx, freshness.OwnerOf(set), object, labels)
		if err == nil {
			own.version = attempt{what, r.Clock.Now()}
		}
		return err
	})
}

// keepHashes writes the hashes to the set, where OpenKruise looks for them.
func (r *Reconciler) keepHashes(
	ctx context.Context, set *appsv1beta1.SidecarSet, hashes sidecarspec.Hashes, own *remembered, observed *observation,
) error {
	wanted := map[string]string{
		shared.AnnotationSidecarSetHash: hashes.Hash, shared.AnnotationSidecarSetHashWithoutImage: hashes.WithoutImage,
	}
	same := true
	for key, value := range wanted {
		same = same && set.Annotations[key] == value
	}
	if same || set.DeletionTimestamp != nil {
		return nil
	}
	return r.forOthers(set, &own.hashes, hashes.Hash, observed, func() error {
		body, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"uid": set.UID, "resourceVersion": set.ResourceVersion, "annotations": wanted,
		}})
		if err != nil {
			return fmt.Errorf("writing the hashes of the sidecars: %w", err)
		}
		_, err = r.Writer.Patch(ctx, freshness.OwnerOf(set), freshness.RefOf(Kind(), set), writer.Patch{Type: types.MergePatchType, Body: body})
		switch {
		case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
			return workload.ErrViewChanged
		case err != nil:
			return fmt.Errorf("writing the hashes of the sidecars: %w", err)
		}
		own.hashes = attempt{hashes.Hash, r.Clock.Now()} // Somebody may take them away each time.
		return workload.ErrViewChanged
	})
}

// forOthers writes what only others read, unless the same was tried a short while ago. That the server refuses it, or a webhook that it asks is broken, stops
// nothing: an event has the answer.
func (r *Reconciler) forOthers(set *appsv1beta1.SidecarSet, last *attempt, what string, observed *observation, write func() error) error {
	now := r.Clock.Now()
	left := last.left(what, now)
	if left == 0 {
		err := write()
		if errors.Is(err, workload.ErrViewChanged) || !answered(err) {
			return err
		}
		*last, left = attempt{what, now}, attemptAgain
		r.Recorder.Eventf(set, nil, corev1.EventTypeWarning, "FailedUpdate", "Update", "%s", err.Error())
	}
	if observed.again == 0 || left < observed.again {
		observed.again = left
	}
	return nil
}

// namespaceFilter says of namespaces whether the set selects their pods. Namespaces are watched only from the first set that needs
// more of one than its name.
func (r *Reconciler) namespaceFilter(ctx context.Context, spec *plan.Spec) (func(string) bool, error) {
	selects := func(name string) bool { return spec.SelectsNamespace(name, nil) }
	if spec.NeedsNamespaces() {
		if err := r.WatchLate(ctx, namespaces(), r.selectingNamespaces); err != nil {
			return nil, err
		}
		selects = func(name string) bool {
			namespace := namespaces()
			err := r.Client.Get(ctx, types.NamespacedName{Name: name}, namespace, client.UnsafeDisableDeepCopy)
			return err == nil && spec.SelectsNamespace(name, namespace.Labels)
		}
	}
	known := map[string]bool{} // asked for each pod
	return func(name string) bool {
		answer, ok := known[name]
		if !ok {
			answer = selects(name)
			known[name] = answer
		}
		return answer
	}, nil
}

// trim deletes revisions that neither a pod nor the spec needs, beyond the limit. The present one is always kept.
func (r *Reconciler) trim(ctx context.Context, set *appsv1beta1.SidecarSet, observed observation) error {
	limit := max(int(ptr.Deref(set.Spec.RevisionHistoryLimit, sidecarspec.HistoryLimit)), 1)
	if set.DeletionTimestamp != nil || len(observed.stored) <= limit {
		return nil
	}
	return history.TrimOf(ctx, r.History, freshness.OwnerOf(set), observed.stored, liveRevisions(set, &observed), limit)
}

// liveRevisions are the names of the revisions that a pod or the spec needs.
func liveRevisions(set *appsv1beta1.SidecarSet, observed *observation) sets.Set[string] {
	live := sets.New(observed.snapshot.Update.Name)
	for _, stored := range observed.stored {
		if slices.ContainsFunc(observed.objects, func(pod *corev1.Pod) bool { return plan.MayHaveRevision(pod, stored.Name) }) {
			live.Insert(stored.Name)
		}
	}
	if pinned := set.Spec.InjectionStrategy.Revision; pinned != nil {
		live.Insert(ptr.Deref(pinned.RevisionName, ""))
		if version := ptr.Deref(pinned.CustomVersion, ""); version != "" {
			for _, stored := range observed.stored {
				if stored.Object.Labels[shared.LabelSidecarSetCustomVersion] == version {
					live.Insert(stored.Name)
				}
			}
		}
	}
	return live
}

// answered says that an error is the answer to one request, by the server or by a webhook that it asked, also by one that is broken: another request may
// have a better one. A server that cannot be reached, or has no time, answers none.
func answered(err error) bool {
	var answer apierrors.APIStatus
	return errors.As(err, &answer) && !apierrors.IsTooManyRequests(err) && !apierrors.IsServiceUnavailable(err) && !apierrors.IsServerTimeout(err) &&
		!apierrors.IsTimeout(err)
}
