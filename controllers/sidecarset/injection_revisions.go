// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarset

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
)

// injectionLabel is on the revisions that say what is injected. Its value is the name of the set.
const injectionLabel = "operator.kruise.io/injection"

// writeAllRevisions makes the revisions of all sets that are to be registered, unless they are there. One set whose revisions the server refuses, or a
// webhook that it asks, does not keep others from being registered, or taken back.
//
// A pass over another set tries again what was refused only after a while: a webhook may take seconds to fail.
func (i *Injection) writeAllRevisions(ctx context.Context, of string, desired *injectionState, owner metav1.OwnerReference) error {
	restored := sets.New[string]()
	for _, set := range desired.sets {
		if set.held {
			set.refused = errPaused
		}
		if !set.wantEntry && !set.wantBinding || set.refused != nil {
			continue
		}
		known := i.proofsOf(set.name)
		if set.name != of && known.refusal.lasts(set.revision, i.options.Clock.Now()) {
			set.refused = known.refusal.err
			continue
		}
		again, err := i.writeRevision(ctx, set, set.revision, set.data, owner)
		switch {
		case answered(err):
			set.refused, known.refusal = err, refusal{of: set.revision, at: i.options.Clock.Now(), err: err}
		case err != nil:
			return err
		case again:
			restored.Insert(set.name)
		}
	}
	i.meet(desired) // A call names no revision that was refused.
	for _, set := range desired.sets {
		if !set.wantEntry || set.refused != nil || set.call == set.revision {
			continue
		}
		again, err := i.writeRevision(ctx, set, set.call, set.callData, owner)
		switch {
		case answered(err):
			i.proofsOf(set.name).callRefusal = refusal{of: set.call, at: i.options.Clock.Now(), err: err}
			ctrl.LoggerFrom(ctx).Info("Injecting a SidecarSet by a call of its own: the revision of a call for several was refused",
				"SidecarSet", klog.KRef("", set.name), "reason", err.Error())
			set.callAlone()
		case err != nil:
			return err
		case again:
			restored.Insert(set.name)
		}
	}
	for name := range restored {
		i.revisionRestored(desired.sets[name])
	}
	return nil
}

// errPaused is why the revisions of a set are not written whose user wants nothing to be done.
var errPaused = errors.New("the annotation " + shared.AnnotationPaused + " is true")

// refusal is the answer to a try to write a revision, and when it came.
type refusal struct {
	of  string
	at  time.Time
	err error
}

// lasts says that a revision was refused a short while ago.
func (r *refusal) lasts(revision string, now time.Time) bool {
	return r.of == revision && now.Sub(r.at) < lastTry
}

// answered says that an error is the answer to one request, by the server or by a webhook that it asked, also by one that is broken: another request may
// have a better one. A server that cannot be reached, or has no time, answers none.
func answered(err error) bool {
	var answer apierrors.APIStatus
	return errors.As(err, &answer) && !apierrors.IsTooManyRequests(err) && !apierrors.IsServiceUnavailable(err) && !apierrors.IsServerTimeout(err) &&
		!apierrors.IsTimeout(err)
}

// writeRevision makes a revision of a set, unless it is there, and says whether somebody had deleted it. What has its name says the same.
func (i *Injection) writeRevision(ctx context.Context, set *injectedSet, name string, data []byte, owner metav1.OwnerReference) (again bool, err error) {
	delete(i.unused, name)
	if i.written[name] && !i.verified.IsZero() {
		return false, nil
	}
	revision := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: i.options.Namespace, Name: name, Labels: map[string]string{injectionLabel: set.name},
		},
		Data: runtime.RawExtension{Raw: data},
	}
	if owner.UID != "" {
		revision.OwnerReferences = []metav1.OwnerReference{owner}
	}
	// Mostly it is there: asking is no write.
	have := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "ControllerRevision"}}
	err = i.options.Live.Get(ctx, client.ObjectKeyFromObject(revision), have)
	version := have.ResourceVersion
	switch {
	case apierrors.IsNotFound(err):
		again = i.written[name]
		err = i.options.Client.Create(ctx, revision, client.FieldOwner(shared.FieldManager))
		version = revision.ResourceVersion
	case err == nil && owner.UID != "" && !equality.Semantic.DeepEqual(have.OwnerReferences, revision.OwnerReferences):
		// It is of an earlier installation, and would go with that.
		before := have.DeepCopy()
		have.OwnerReferences = revision.OwnerReferences
		err = i.options.Client.Patch(ctx, have, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(shared.FieldManager))
		version = have.ResourceVersion
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		delete(i.written, name)
		return false, set.errorf(fmt.Errorf("writing revision %s: %w", name, err))
	}
	i.written[name] = true
	i.registry.note(watchedRevision, name, version)
	return again && err == nil, nil
}

// collect deletes revisions that nothing has registered for a while, and says when to look again. Nobody waits for them: one that cannot be deleted is logged,
// and tried again as late as one that has just become useless.
func (i *Injection) collect(ctx context.Context) time.Duration {
	used := map[string]bool{sidecar.AnchorName: true}
	for _, set := range i.registered.sets {
		if set.wantEntry || set.wantBinding {
			used[set.revision] = true
		}
		if set.wantEntry {
			used[set.call] = true
		}
		for _, name := range set.standing {
			used[name] = true
		}
	}
	now := i.options.Clock.Now()
	for name := range i.written {
		if !used[name] && i.unused[name].IsZero() {
			i.unused[name] = now
		}
	}
	var wait time.Duration
	if err := i.findLeftovers(ctx, used, now); err != nil {
		ctrl.LoggerFrom(ctx).Info("Cannot look yet for revisions that nothing injects any more", "reason", err.Error())
		wait = keepUnused
	}
	for name, since := range i.unused {
		if used[name] {
			delete(i.unused, name)
			continue
		}
		if left := keepUnused - now.Sub(since); left > 0 {
			wait = max(wait, left)
			continue
		}
		i.registry.forget(watchedRevision, name)
		revision := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: i.options.Namespace, Name: name}}
		if err := client.IgnoreNotFound(i.options.Client.Delete(ctx, revision)); err != nil {
			ctrl.LoggerFrom(ctx).Info("Cannot delete yet a revision that nothing injects any more", "revision", name, "reason", err.Error())
			i.unused[name], wait = now, keepUnused
			continue
		}
		delete(i.unused, name)
		delete(i.written, name)
	}
	return wait
}

// findLeftovers looks, once in the life of the process, for revisions that another process left behind.
func (i *Injection) findLeftovers(ctx context.Context, used map[string]bool, now time.Time) error {
	if i.searched {
		return nil
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("ControllerRevisionList"))
	if err := i.options.Live.List(ctx, list, client.InNamespace(i.options.Namespace), client.HasLabels{injectionLabel}); err != nil {
		return fmt.Errorf("looking for revisions that nothing injects any more: %w", err)
	}
	for at := range list.Items {
		if name := list.Items[at].Name; !used[name] && i.unused[name].IsZero() {
			i.unused[name] = now
		}
	}
	i.searched = true
	return nil
}
