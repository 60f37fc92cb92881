// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarset

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
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

// remembered is kept of a set beside the state of all kinds.
type remembered struct {
	known plan.Known
	// hashes and version are the last tries to write the set's hashes, and its revision's version, for other readers.
	hashes, version attempt
}

// attempt is the last try of a write, and its content.
type attempt struct {
	what string
	at   time.Time
}

// attemptAgain is the pause before repeating a refused or reverted write.
const attemptAgain = time.Minute

// left is how long the same is not tried again.
func (a *attempt) left(what string, now time.Time) time.Duration {
	if a.what != what {
		return 0
	}
	return max(a.at.Add(attemptAgain).Sub(now), 0)
}

// observation is the state read of a set.
type observation struct {
	spec     *plan.Spec
	snapshot plan.Snapshot
	known    *plan.Known
	// again is when to repeat a refused write for others; 0: none.
	again time.Duration
	// objects are the pods with the sidecars, still selected or not.
	objects []*corev1.Pod
	// stored are the earlier revisions.
	stored         []recorded
	collisionCount *int32
	// refused is why the server refuses to record the spec; nil: it is recorded.
	refused error
}

// observe reads the pods with the set's sidecars, and ensures its
// revision and hashes. It changes nothing of a set being deleted.
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
	recall(observed.spec, payload, observed.stored)
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

// ownerOfRevisions is a set as owner of its revisions: they carry its labels, annotations and hashes.
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

// ensureRevision ensures a revision of the payload. It prefers the hashes stored on the
// revision: pods injected by another manager carry them. A refusal, say by a quota or a
// broken webhook, leaves no revision: updates stop; injection and pods in progress go on.
func (r *Reconciler) ensureRevision(
	ctx context.Context, set *appsv1beta1.SidecarSet, payload *sidecarspec.Payload, hashes sidecarspec.Hashes, own *remembered, observed *observation,
) (recorded, sidecarspec.Hashes, error) {
	ownerKey, codec, namespace := freshness.OwnerOf(set), sidecarspec.Codec(), r.namespace
	var err error
	if observed.stored, err = history.List(ctx, r.History, codec, metav1.NamespaceAll, ownerKey.UID); err != nil {
		return recorded{}, hashes, err
	}
	trusted := sidecarspec.RevisionNamespaces(namespace)
	observed.stored = slices.DeleteFunc(observed.stored, func(r recorded) bool { return !slices.Contains(trusted, r.Object.Namespace) })
	owner := ownerOfRevisions(set, namespace, hashes)
	var decision revision.DecisionOf[sidecarspec.Payload]
	if set.DeletionTimestamp != nil {
		decision, err = revision.DecideOf(codec, owner, payload, observed.stored, set.Status.CollisionCount)
	} else {
		observed.refused, err = r.Record(set, true, func() error {
			decision, err = history.Ensure(ctx, r.History, codec, ownerKey, owner, payload, observed.stored, set.Status.CollisionCount)
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

// recall tells a spec which images its recorded revisions have, by container, and which fields running pods keep of them.
func recall(spec *plan.Spec, payload *sidecarspec.Payload, stored []recorded) {
	spec.Recorded, spec.Kept = map[string]map[string]string{}, map[string]string{}
	for _, revision := range stored {
		if revision.Template == nil {
			continue
		}
		images := map[string]string{}
		for i := range revision.Template.Containers {
			images[revision.Template.Containers[i].Name] = revision.Template.Containers[i].Image
		}
		spec.Recorded[revision.Name] = images
		spec.Kept[revision.Name] = strings.Join(sidecarspec.Kept(payload, revision.Template), ", ")
	}
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
	_, err := r.forOthers(set, &own.version, what, observed, func() error {
		return r.History.Label(ctx, freshness.OwnerOf(set), object, map[string]*string{shared.LabelSidecarSetCustomVersion: &version})
	})
	return err
}

// keepHashes writes the hashes to the set, where OpenKruise looks for them.
func (r *Reconciler) keepHashes(
	ctx context.Context, set *appsv1beta1.SidecarSet, hashes sidecarspec.Hashes, own *remembered, observed *observation,
) error {
	if sidecarspec.HashesIn(set.Annotations) == hashes || set.DeletionTimestamp != nil {
		return nil
	}
	wanted := map[string]string{
		shared.AnnotationSidecarSetHash: hashes.Hash, shared.AnnotationSidecarSetHashWithoutImage: hashes.WithoutImage,
	}
	written, err := r.forOthers(set, &own.hashes, hashes.Hash, observed, func() error {
		change := map[string]any{"metadata": map[string]any{
			"uid": set.UID, "resourceVersion": set.ResourceVersion, "annotations": wanted,
		}}
		_, err := r.Writer.Patch(ctx, freshness.OwnerOf(set), freshness.RefOf(Kind(), set), writer.Patch{Type: types.MergePatchType, Content: change})
		switch {
		case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
			return workload.ErrViewChanged
		case err != nil:
			return fmt.Errorf("writing the hashes of the sidecars: %w", err)
		}
		return nil
	})
	if written {
		return workload.ErrViewChanged
	}
	return err
}

// forOthers writes facts only others read, unless it tried the same lately: somebody may take
// them away each time. A refusal stops nothing: an event reports it.
func (r *Reconciler) forOthers(
	set *appsv1beta1.SidecarSet, last *attempt, what string, observed *observation, write func() error,
) (written bool, err error) {
	now := r.Clock.Now()
	left := last.left(what, now)
	if left == 0 {
		err := write()
		if err != nil && (errors.Is(err, workload.ErrViewChanged) || !answered(err)) {
			return false, err
		}
		*last, left = attempt{what, now}, attemptAgain
		if err == nil {
			return true, nil
		}
		r.Recorder.Eventf(set, nil, corev1.EventTypeWarning, "FailedUpdate", "Update", "%s", err.Error())
	}
	if observed.again == 0 || left < observed.again {
		observed.again = left
	}
	return false, nil
}

// namespaceFilter tells whether the set selects a namespace.
// Namespaces are watched from the first set to need their labels.
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

// trim deletes unused revisions beyond the limit, never the present one.
func (r *Reconciler) trim(ctx context.Context, set *appsv1beta1.SidecarSet, observed observation) error {
	limit := max(int(ptr.Deref(set.Spec.RevisionHistoryLimit, sidecarspec.HistoryLimit)), 1)
	if set.DeletionTimestamp != nil || len(observed.stored) <= limit {
		return nil
	}
	return history.Trim(ctx, r.History, freshness.OwnerOf(set), observed.stored, liveRevisions(set, &observed), limit)
}

// liveRevisions are the revisions pods or the spec need.
func liveRevisions(set *appsv1beta1.SidecarSet, observed *observation) sets.Set[string] {
	pinned := ptr.Deref(set.Spec.InjectionStrategy.Revision, appsv1beta1.SidecarSetInjectRevision{})
	live, version := sets.New(observed.snapshot.Update.Name, ptr.Deref(pinned.RevisionName, "")), ptr.Deref(pinned.CustomVersion, "")
	for _, stored := range observed.stored {
		is := version != "" && stored.Object.Labels[shared.LabelSidecarSetCustomVersion] == version
		if is || slices.ContainsFunc(observed.objects, func(pod *corev1.Pod) bool { return plan.MayHaveRevision(pod, stored.Name) }) {
			live.Insert(stored.Name)
		}
	}
	return live.Delete("")
}

// answered reports whether the server or its webhook refused this one request;
// another may pass. An unreachable or overloaded server refuses none.
func answered(err error) bool {
	var answer apierrors.APIStatus
	return errors.As(err, &answer) && !apierrors.IsTooManyRequests(err) && !apierrors.IsServiceUnavailable(err) && !apierrors.IsServerTimeout(err) &&
		!apierrors.IsTimeout(err)
}
