// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/brief"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
	"github.com/kruise-operator/kruise-operator/internal/kube/writer"
)

const (
	// longestNote limits an event's note, longestMessage a failure's message, in bytes.
	longestNote    = 1024
	longestMessage = 512
)

// carryOut carries out one action, and emits its event.
func (e *Executor) carryOut(ctx context.Context, owner client.Object, ownerKey freshness.Owner, a *planning.Action) error {
	var related runtime.Object = a.Object
	var err error
	quiet := false
	switch err = e.checkAbsent(ctx, ownerKey, a); {
	case err != nil:
	case a.Verb == planning.VerbCreate:
		related, quiet, err = e.create(ctx, owner, ownerKey, a)
	case a.Verb == planning.VerbPatch:
		err = e.change(ctx, ownerKey, a, a.Object)
	case a.Verb == planning.VerbApply:
		err = e.apply(ctx, ownerKey, a)
		if isNotServed(err) {
			err = fmt.Errorf("the API server does not serve %s: %w", a.Kind.GroupKind(), err)
		}
		if err != nil {
			err = fmt.Errorf("applying %s: %w", describe(a), err)
		}
	case a.Verb == planning.VerbDelete:
		err = e.Writer.Delete(ctx, ownerKey, freshness.RefOf(a.Kind, a.Object), writer.Delete{ExactVersion: a.ExactVersion, Propagation: a.Propagation})
		if err != nil {
			err = fmt.Errorf("deleting %s: %w", describe(a), err)
		}
	default:
		err = fmt.Errorf("unknown verb %q", a.Verb)
	}
	if log := ctrl.LoggerFrom(ctx).V(1); err != nil {
		log.Info("Not carried out", "verb", a.Step, "slot", a.Slot, "reason", a.Reason, "err", err.Error())
	} else if !quiet {
		log.Info("Carried out", "verb", a.Step, "slot", a.Slot, "reason", a.Reason)
	}
	if !quiet {
		e.report(ctx, owner, related, a, err)
	}
	return err
}

// absentVersion is a resourceVersion no object has. With it, an apply creates an object and changes none.
const absentVersion = "1"

// apply applies the object of an action. If it may only be new and there is one, it is applied to ours, and refused by any other.
func (e *Executor) apply(ctx context.Context, ownerKey freshness.Owner, a *planning.Action) error {
	how := writer.Apply{FieldManager: a.FieldManager, Force: a.Force}
	wanted, ok := a.Object.(*unstructured.Unstructured)
	if !a.OnlyNew || !ok {
		_, err := e.Writer.Apply(ctx, ownerKey, a.Kind, a.Object, how)
		return err
	}
	_, err := e.Writer.Apply(ctx, ownerKey, a.Kind, withMetadata(wanted, "resourceVersion", absentVersion), how)
	if !apierrors.IsConflict(err) {
		return err
	}
	found, err := e.existing(ctx, ownerKey, a)
	switch {
	case found == nil || errors.Is(err, errBusy):
		return err
	case err != nil:
		return takenError{err}
	}
	_, err = e.Writer.Apply(ctx, ownerKey, a.Kind, withMetadata(wanted, "uid", string(found.UID)), how)
	return err
}

// takenError is a refusal because of an object of somebody else.
type takenError struct{ error }

// Unwrap implements errors.Unwrap.
func (e takenError) Unwrap() error { return e.error }

// withMetadata is an object with one more field of its metadata. It shares the rest.
func withMetadata(object *unstructured.Unstructured, field, value string) *unstructured.Unstructured {
	content := maps.Clone(object.Object)
	metadata, _ := content["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	metadata[field] = value
	content["metadata"] = metadata
	return &unstructured.Unstructured{Object: content}
}

// checkAbsent fails if the object the action must not meet exists, or if this is unknown.
func (e *Executor) checkAbsent(ctx context.Context, ownerKey freshness.Owner, a *planning.Action) error {
	if a.IfAbsent == nil {
		return nil
	}
	found, err := e.Writer.Look(ctx, a.IfAbsent.Kind, client.ObjectKey{Namespace: a.IfAbsent.Namespace, Name: a.IfAbsent.Name})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("looking up %s %s, which must not exist: %w", nameOf(a.IfAbsent.Kind), a.IfAbsent.Name, err)
	}
	e.Writer.Saw(ownerKey, a.IfAbsent.Kind, found)
	return fmt.Errorf("%s %s exists: %w", nameOf(a.IfAbsent.Kind), a.IfAbsent.Name, errBusy)
}

// create does the preparations, creates the object, and writes its first change. Quiet
// suppresses the action's event: the object existed, or a preparation failed, with its own
// event.
func (e *Executor) create(ctx context.Context, owner client.Object, ownerKey freshness.Owner, a *planning.Action) (related runtime.Object, quiet bool, err error) {
	for i := range a.Before {
		if err := e.carryOut(ctx, owner, ownerKey, &a.Before[i]); err != nil {
			return a.Before[i].Object, true, err
		}
	}
	object, ok := a.Object.DeepCopyObject().(client.Object)
	if !ok {
		return a.Object, false, fmt.Errorf("creating %s: the copy of a %T is no object", describe(a), a.Object)
	}
	if e.Prepare != nil {
		if err := e.Prepare(ctx, ownerKey, object); err != nil {
			return a.Object, false, fmt.Errorf("creating %s: %w", describe(a), err)
		}
	}
	err = e.Writer.Create(ctx, ownerKey, a.Kind, object, a.FieldManager)
	if apierrors.IsAlreadyExists(err) {
		found, err := e.existing(ctx, ownerKey, a)
		if found != nil {
			e.Writer.Saw(ownerKey, a.Kind, found)
		}
		return a.Object, err == nil, err
	}
	if err != nil {
		return a.Object, false, fmt.Errorf("creating %s: %w", describe(a), err)
	}
	if err := e.checkSelected(ctx, ownerKey, a, object); err != nil {
		return object, false, err
	}
	if a.Change == nil {
		return object, false, nil
	}
	// The object exists: the action succeeded, with or without its first change. A later
	// pass writes the rest.
	if err := e.change(ctx, ownerKey, a, object); err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info("First change not written", a.Kind.Kind, klog.KObj(object), "err", err.Error())
	}
	return object, false, nil
}

// checkSelected deletes a new object and fails if the server stored it with labels its
// owner does not select. The owner would release it and create another, for ever.
func (e *Executor) checkSelected(ctx context.Context, ownerKey freshness.Owner, a *planning.Action, stored client.Object) error {
	if a.Selector == nil || maps.Equal(a.Object.GetLabels(), stored.GetLabels()) {
		return nil
	}
	selector, err := metav1.LabelSelectorAsSelector(a.Selector)
	if err != nil || selector.Matches(labels.Set(stored.GetLabels())) || !selector.Matches(labels.Set(a.Object.GetLabels())) {
		return nil
	}
	err = e.Writer.Delete(ctx, ownerKey, freshness.RefOf(a.Kind, stored), writer.Delete{})
	becomes := "so it was deleted again"
	if err != nil {
		becomes = "and it could not be deleted again: " + err.Error()
	}
	name := nameOf(a.Kind)
	return apierrors.NewForbidden(schema.GroupResource{Group: a.Kind.Group, Resource: name + "s"}, stored.GetName(),
		fmt.Errorf("a webhook changed the labels of the %s, and the selector %s does not match them any more, %s", name, selector, becomes))
}

// existing interprets an existing object of a name that should be new; it is nil if it could not be read. The first rule to hold:
//
//  1. It is being deleted, whoever's it is: the action is tried again soon.
//  2. Any object of the name will do, or it is from an earlier try of ours the cache lacks:
//     a success.
//  3. It belongs to an earlier owner of the same kind and name. The garbage collector
//     deletes it; try again soon. Pods of a native StatefulSet of the name stay: its API
//     group is another one.
//  4. Otherwise it is somebody else's and in the way: the action is refused.
func (e *Executor) existing(ctx context.Context, ownerKey freshness.Owner, a *planning.Action) (*metav1.PartialObjectMetadata, error) {
	found, err := e.Writer.Look(ctx, a.Kind, client.ObjectKeyFromObject(a.Object))
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("%s existed a moment ago: %w", describe(a), errBusy)
	}
	if err != nil {
		return nil, fmt.Errorf("looking up %s: %w", describe(a), err)
	}
	switch owner := metav1.GetControllerOf(found); {
	case found.DeletionTimestamp != nil:
		return found, fmt.Errorf("%s is still being deleted: %w", describe(a), errBusy)
	case a.KeepExisting, owner != nil && owner.UID == ownerKey.UID:
		return found, nil
	case owner != nil && groupKind(owner) == e.Kind && owner.Name == ownerKey.Name:
		return found, fmt.Errorf("%s belongs to an earlier %s %s and goes with it: %w", describe(a), owner.Kind, owner.Name, errBusy)
	default:
		return found, e.taken(a, found)
	}
}

// taken refuses an action because of an object of somebody else.
func (e *Executor) taken(a *planning.Action, found *metav1.PartialObjectMetadata) error {
	holder := "nobody"
	if owner := metav1.GetControllerOf(found); owner != nil {
		holder = owner.Kind + " " + owner.Name
		if owner.Kind == e.Kind.Kind && groupKind(owner) != e.Kind {
			holder += " of " + owner.APIVersion // the user's other one, which may have the same name
		}
	}
	name := nameOf(a.Kind)
	return apierrors.NewForbidden(schema.GroupResource{Group: a.Kind.Group, Resource: name + "s"}, found.Name,
		fmt.Errorf("a %s with this name exists and is controlled by %s", name, holder))
}

// groupKind is the owner's kind with its API group. The version does not matter: an owner may have been written by an earlier one.
func groupKind(owner *metav1.OwnerReference) schema.GroupKind {
	return schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind()
}

// change sends the requests of an action's change in order, each for the version returned
// by the last.
func (e *Executor) change(ctx context.Context, ownerKey freshness.Owner, a *planning.Action, object client.Object) error {
	ref := freshness.RefOf(a.Kind, object)
	version := planning.Version{ResourceVersion: ref.ResourceVersion}
	for _, request := range a.Change.Requests(object) {
		body, err := request.Body(version)
		if err != nil {
			return err
		}
		patch := writer.Patch{Subresource: request.Subresource, Type: request.Type, Content: body, FieldManager: a.FieldManager}
		answer, err := e.Writer.Patch(ctx, ownerKey, ref, patch)
		if err != nil {
			what := request.Subresource
			if what == "" {
				what = "metadata and spec"
			}
			return fmt.Errorf("patching %s of %s: %w", what, describe(a), err)
		}
		ref.ResourceVersion = answer.ResourceVersion
		version.ResourceVersion = answer.ResourceVersion
	}
	return nil
}

// describe names an action's object in messages: "pod web-0".
func describe(a *planning.Action) string { return nameOf(a.Kind) + " " + a.Object.GetName() }

// nameOf is how a kind is called in messages.
func nameOf(kind schema.GroupVersionKind) string {
	if kind.Kind == "PersistentVolumeClaim" {
		return "claim"
	}
	return strings.ToLower(kind.Kind)
}

// verdict is an action's error for the run. The values are the metric's label.
type verdict string

const (
	verdictOK       verdict = "ok"
	verdictConflict verdict = "conflict"
	verdictGone     verdict = "gone"
	verdictRefused  verdict = "refused"
	verdictDoubt    verdict = "doubt"
)

// errBusy: the object is on its way out or in, against expectation; ordinary, and over
// soon.
var errBusy = errors.New("not settled yet")

// isNotServed is true if the API server does not know the kind. It answers "not found" as
// for an object, but in other words.
func isNotServed(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

func judge(err error) verdict {
	switch {
	case err == nil:
		return verdictOK
	case apierrors.IsConflict(err), errors.Is(err, errBusy):
		return verdictConflict
	case isNotServed(err):
		return verdictDoubt // It may be served again at any time, and nobody tells.
	case apierrors.IsNotFound(err):
		return verdictGone
	case freshness.Judge(err) == freshness.Refused:
		return verdictRefused
	default:
		return verdictDoubt
	}
}

// report emits the event of a finished action. Ordinary outcomes have none.
func (e *Executor) report(ctx context.Context, owner client.Object, related runtime.Object, a *planning.Action, err error) {
	event := a.Success
	switch judge(err) {
	case verdictOK:
	case verdictConflict, verdictGone:
		return
	default:
		if ctx.Err() != nil {
			return // The process is stopping, or the run was out of time; the next one will say more.
		}
		event = a.Failure
		event.Message = strings.TrimRight(event.Message, " ") + ": " + err.Error()
		event.Message = strings.Replace(event.Message, ":: ", ": ", 1)
	}
	if event.Reason == "" {
		return
	}
	kind := corev1.EventTypeNormal
	if event.Warning {
		kind = corev1.EventTypeWarning
	}
	e.Recorder.Eventf(owner, related, kind, event.Reason, string(a.Step), "%s", oneLine(event.Message, longestNote))
}

// oneLine returns text without line breaks and with at most limit bytes.
func oneLine(text string, limit int) string {
	return brief.Text(strings.Join(strings.Fields(text), " "), limit)
}
