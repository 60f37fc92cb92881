// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package history reads and writes the ControllerRevisions of a workload as engine/revision decides.
package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
	"github.com/kruise-operator/kruise-operator/internal/kube/cache"
	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
	"github.com/kruise-operator/kruise-operator/internal/kube/writer"
)

// attempts bounds how many names are tried for one new revision.
const attempts = 5

// maxDecoded limits the bytes of a workload's revisions decoded in each pass. No history
// within the default revisionHistoryLimit exceeds it, however large its templates.
const maxDecoded = 24 << 20

// Kind is the kind of a revision.
func Kind() schema.GroupVersionKind { return appsv1.SchemeGroupVersion.WithKind("ControllerRevision") }

// Store reads and writes revisions of workloads of one kind.
type Store struct {
	// Client reads the cache.
	Client client.Reader
	// Writer writes.
	Writer *writer.Writer
}

// List returns, decoded, the revisions in namespace, or in all if empty, the workload with this UID controls. A
// cluster-scoped workload's lie in the operator's namespace. Undecodable ones are left out
// and left alone; a new revision avoids their names. The oldest beyond maxDecoded are left
// out, too.
func List[T any](ctx context.Context, s *Store, codec revision.Codec[T], namespace string, owner types.UID) ([]revision.Of[T], error) {
	var list appsv1.ControllerRevisionList
	if err := cache.Controlled(ctx, s.Client, &list, namespace, owner); err != nil {
		return nil, fmt.Errorf("listing revisions: %w", err)
	}
	slices.SortStableFunc(list.Items, func(a, b appsv1.ControllerRevision) int { return cmp.Compare(b.Revision, a.Revision) })
	var revisions []revision.Of[T]
	size := 0
	for i := range list.Items {
		if size += len(list.Items[i].Data.Raw); size > maxDecoded {
			ctrl.LoggerFrom(ctx).V(1).Info("Older revisions left out", "revisions", len(list.Items)-i)
			break
		}
		decoded, err := revision.DecodeOf(codec, &list.Items[i])
		if err != nil {
			ctrl.LoggerFrom(ctx).V(1).Info("Revision left out", "err", err.Error())
			continue
		}
		revisions = append(revisions, decoded)
	}
	return revisions, nil
}

// Ensure makes sure that the payload has a revision, the newest. ownerKey is the workload in
// tracking; owner has its revisions' namespace and metadata. While a new revision's name is
// taken it decides again with another collision count. It returns the executed decision: the
// stored revision, and the collision count for the status.
func Ensure[T any](ctx context.Context, s *Store, codec revision.Codec[T], ownerKey freshness.Owner, owner revision.Owner, payload *T, stored []revision.Of[T],
	collisionCount *int32,
) (revision.DecisionOf[T], error) {
	for range attempts {
		decision, err := revision.DecideOf(codec, owner, payload, stored, collisionCount)
		if err != nil {
			return revision.DecisionOf[T]{}, fmt.Errorf("deciding about the revision: %w", err)
		}
		switch {
		case decision.Create != nil:
			created, err := create(ctx, s, codec, ownerKey, decision.Create)
			if errors.Is(err, errTaken) {
				collisionCount = ptr.To(ptr.Deref(decision.CollisionCount, 0) + 1)
				continue
			}
			if err != nil {
				return revision.DecisionOf[T]{}, err
			}
			decision.Update.Object = created
			decision.Update.Number = created.Revision
		case decision.Bump != nil:
			bumped, err := s.bump(ctx, ownerKey, decision.Bump)
			if err != nil {
				return revision.DecisionOf[T]{}, err
			}
			decision.Update.Object = bumped
		}
		return decision, nil
	}
	return revision.DecisionOf[T]{}, fmt.Errorf("creating a revision: %d names in a row are taken", attempts)
}

// errTaken: the revision's name belongs to another object.
var errTaken = errors.New("the name is taken")

// create stores a revision. An existing one of ours with the same data, from a lost answer,
// is as good.
func create[T any](
	ctx context.Context, s *Store, codec revision.Codec[T], owner freshness.Owner, wanted *appsv1.ControllerRevision,
) (*appsv1.ControllerRevision, error) {
	created := wanted.DeepCopy()
	err := s.Writer.Create(ctx, owner, Kind(), created, "")
	if apierrors.IsAlreadyExists(err) {
		found := &appsv1.ControllerRevision{}
		if err := s.Writer.Read(ctx, client.ObjectKeyFromObject(wanted), found); err != nil {
			return nil, fmt.Errorf("looking up revision %s: %w", wanted.Name, err)
		}
		if !metav1.IsControlledBy(found, &metav1.ObjectMeta{UID: owner.UID}) || !sameData(codec, wanted, found) {
			return nil, fmt.Errorf("creating revision %s: %w", wanted.Name, errTaken)
		}
		s.Writer.Saw(owner, Kind(), found)
		return found, nil
	}
	if err != nil {
		return nil, fmt.Errorf("creating revision %s: %w", wanted.Name, err)
	}
	return created, nil
}

// sameData is true if two revisions record the same payload.
func sameData[T any](codec revision.Codec[T], a, b *appsv1.ControllerRevision) bool {
	left, err := codec.Decode(a.Data.Raw)
	if err != nil {
		return false
	}
	right, err := codec.Decode(b.Data.Raw)
	return err == nil && codec.Same(left, right)
}

// bump gives a stored revision its new number and the claim templates to record.
func (s *Store) bump(ctx context.Context, owner freshness.Owner, wanted *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	metadata := map[string]any{"uid": wanted.UID, "resourceVersion": wanted.ResourceVersion}
	if claims, ok := wanted.Annotations[shared.AnnotationRecordedClaims]; ok {
		metadata["annotations"] = map[string]string{shared.AnnotationRecordedClaims: claims}
	}
	patch := writer.Patch{Type: types.MergePatchType, Content: map[string]any{"metadata": metadata, "revision": wanted.Revision}}
	bumped := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: wanted.Namespace, Name: wanted.Name}}
	if err := s.Writer.PatchInto(ctx, owner, freshness.RefOf(Kind(), wanted), patch, bumped); err != nil {
		return nil, fmt.Errorf("renumbering revision %s: %w", wanted.Name, err)
	}
	return bumped, nil
}

// Label sets labels of a stored revision; a null value removes one. A missing revision is
// no error.
func (s *Store) Label(ctx context.Context, owner freshness.Owner, object *appsv1.ControllerRevision, labels map[string]*string) error {
	change := map[string]any{"metadata": map[string]any{"uid": object.UID, "labels": labels}}
	_, err := s.Writer.Patch(ctx, owner, freshness.RefOf(Kind(), object), writer.Patch{Type: types.MergePatchType, Content: change})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("labeling revision %s: %w", object.Name, err)
	}
	return nil
}

// Trim deletes the oldest revisions not in live, down to limit of them. Others' deletions
// and changes meanwhile are no error.
func Trim[T any](ctx context.Context, s *Store, owner freshness.Owner, stored []revision.Of[T], live sets.Set[string], limit int) error {
	var failed []error
	for _, surplus := range revision.Surplus(stored, live, limit) {
		err := s.Writer.Delete(ctx, owner, freshness.RefOf(Kind(), surplus.Object), writer.Delete{ExactVersion: true})
		if err != nil && !apierrors.IsConflict(err) {
			failed = append(failed, fmt.Errorf("deleting revision %s: %w", surplus.Name, err))
		}
	}
	return errors.Join(failed...)
}
