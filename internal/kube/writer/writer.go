// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package writer sends every write of the reconcilers: creations, patches, server-side applies and deletions of objects of any kind, in
// any namespace, on behalf of an owner in any scope.
//
// Its promises:
//
//   - Every request has a deadline.
//   - Every write is reported to the freshness tracker: its resourceVersion, its unknown
//     outcome, or, for a deletion, its sending in advance. So its owner is not planned on a
//     view without it.
//   - Patches carry their basis in the body, deletions as preconditions: the UID, and if it
//     matters the resourceVersion.
//   - Responses are requested as metadata if this is enough; it is cheaper for both sides.
//
// Senders of many writes at a time take a place in the Pool for each, so namespaces do not
// wait for each other. A pass with a few writes in sequence needs none: it occupies a
// worker, also limited by the Pool.
package writer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
)

// DefaultTimeout is the deadline of one request.
const DefaultTimeout = 15 * time.Second

// ErrNotUnstructured means a typed object cannot be applied, it would claim every field of its
// type that is never omitted.
var ErrNotUnstructured = errors.New("only unstructured objects can be applied")

// Writer sends the writes of reconcilers of one kind of owner. It is safe for concurrent use.
type Writer struct {
	// Client writes.
	Client client.Client
	// Live reads past the cache.
	Live client.Reader
	// Tracker hears of every write. Nil: nobody waits for these writes.
	Tracker *freshness.Tracker
	// Timeout is the deadline of one request. Zero is DefaultTimeout.
	Timeout time.Duration
}

// Patch is one patch of an object.
type Patch struct {
	// Subresource is where it goes; "" for the object itself.
	Subresource string
	// Type is the media type of Content, which is encoded as JSON. A []byte has the encoding already.
	Type    types.PatchType
	Content any
	// FieldManager owns the written fields. Empty: the operator's.
	FieldManager string
}

func (p Patch) body() ([]byte, error) {
	if body, encoded := p.Content.([]byte); encoded {
		return body, nil
	}
	return json.Marshal(p.Content)
}

// Apply is how an object is applied.
type Apply struct {
	// FieldManager owns the written fields. Empty: the operator's.
	FieldManager string
	// Force takes fields from other managers.
	Force bool
}

// Delete deletes an object, only the one with the observed UID.
type Delete struct {
	// ExactVersion ties the deletion to the observed resourceVersion as well.
	ExactVersion bool
	// Propagation is the propagation policy of the deletion. Empty: the default of its kind.
	Propagation metav1.DeletionPropagation
}

// Create creates an object and replaces it by the server's answer.
func (w *Writer) Create(ctx context.Context, owner freshness.Owner, kind schema.GroupVersionKind, object client.Object, fieldManager string) error {
	ctx, cancel := w.limit(ctx)
	defer cancel()
	err := plain(w.Client.Create(ctx, object, by(fieldManager)))
	ref := freshness.Ref{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName()}
	w.answered(owner, ref, freshness.Create, object.GetResourceVersion(), err)
	return err
}

// Patch patches an object as observed and returns its new metadata. A JSON patch with a
// failed test is a conflict.
func (w *Writer) Patch(ctx context.Context, owner freshness.Owner, ref freshness.Ref, patch Patch) (*metav1.PartialObjectMetadata, error) {
	answer := bare(ref)
	return answer, w.PatchInto(ctx, owner, ref, patch, answer)
}

// PatchInto is Patch for who needs the whole answer. The answer is an object of the kind with namespace and name.
func (w *Writer) PatchInto(ctx context.Context, owner freshness.Owner, ref freshness.Ref, patch Patch, answer client.Object) error {
	body, err := patch.body()
	if err != nil {
		return fmt.Errorf("encoding a patch of %s %s: %w", ref.Kind.Kind, ref.Name, err)
	}
	ctx, cancel := w.limit(ctx)
	defer cancel()
	raw, owned := client.RawPatch(patch.Type, body), by(patch.FieldManager)
	if patch.Subresource == "" {
		err = w.Client.Patch(ctx, answer, raw, owned)
	} else {
		err = w.Client.SubResource(patch.Subresource).Patch(ctx, answer, raw, owned)
	}
	err = plain(err)
	if patch.Type == types.JSONPatchType && testFailed(err) {
		err = apierrors.NewConflict(schema.GroupResource{Group: ref.Kind.Group, Resource: strings.ToLower(ref.Kind.Kind)}, ref.Name, err)
	}
	w.answered(owner, ref, freshness.Patch, answer.GetResourceVersion(), err)
	return err
}

// testFailed is true if a JSON patch does not fit the current object. The server answers
// with the code of an invalid object, but names no field.
func testFailed(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && apierrors.IsInvalid(err) && (status.Status().Details == nil || len(status.Status().Details.Causes) == 0)
}

// plain makes an admission webhook's refusal a plain one. The webhook chooses the code, and
// some codes mean something else from the API server: the object has changed, exists, is
// gone, or does not fit a JSON patch. Nobody is told of these, and the request is repeated.
func plain(err error) error {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return err
	}
	status := answer.Status()
	switch status.Code {
	case http.StatusNotFound, http.StatusConflict, http.StatusGone, http.StatusUnprocessableEntity:
	default:
		return err
	}
	// This is how the API server begins such an answer.
	if !strings.HasPrefix(status.Message, "admission webhook ") || !strings.Contains(status.Message, " denied the request") {
		return err
	}
	status.Code, status.Reason = http.StatusForbidden, metav1.StatusReasonForbidden
	return &apierrors.StatusError{ErrStatus: status}
}

// Apply makes the object's fields those of the field manager, and creates it if missing.
// The object has to be unstructured and stays as it is.
func (w *Writer) Apply(ctx context.Context, owner freshness.Owner, kind schema.GroupVersionKind, object client.Object, apply Apply) (resourceVersion string, err error) {
	wanted, ok := object.(*unstructured.Unstructured)
	if !ok {
		return "", fmt.Errorf("applying a %T: %w", object, ErrNotUnstructured)
	}
	content := maps.Clone(wanted.Object)
	content["apiVersion"], content["kind"] = kind.GroupVersion().String(), kind.Kind
	body, err := json.Marshal(content)
	if err != nil {
		return "", fmt.Errorf("encoding %s %s: %w", kind.Kind, object.GetName(), err)
	}
	options := []client.PatchOption{by(apply.FieldManager)}
	if apply.Force {
		options = append(options, client.ForceOwnership)
	}
	ctx, cancel := w.limit(ctx)
	defer cancel()
	ref := freshness.Ref{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName()}
	answer := bare(ref) // client.Apply would read the whole object.
	err = plain(w.Client.Patch(ctx, answer, client.RawPatch(types.ApplyPatchType, body), options...))
	w.answered(owner, ref, freshness.Apply, answer.GetResourceVersion(), err)
	return answer.GetResourceVersion(), err
}

// Delete deletes an object as observed. A missing one is no error.
func (w *Writer) Delete(ctx context.Context, owner freshness.Owner, ref freshness.Ref, how Delete) error {
	preconditions := client.Preconditions{UID: &ref.UID}
	if how.ExactVersion {
		preconditions.ResourceVersion = &ref.ResourceVersion
	}
	options := []client.DeleteOption{preconditions}
	if how.Propagation != "" {
		options = append(options, client.PropagationPolicy(how.Propagation))
	}
	ctx, cancel := w.limit(ctx)
	defer cancel()
	if w.Tracker != nil {
		w.Tracker.Deleting(owner, ref)
	}
	err := plain(w.Client.Delete(ctx, bare(ref), options...))
	if apierrors.IsNotFound(err) {
		return nil
	}
	w.answered(owner, ref, freshness.Delete, "", err)
	return err
}

// Look reads the metadata of an object past the cache.
func (w *Writer) Look(ctx context.Context, kind schema.GroupVersionKind, key types.NamespacedName) (*metav1.PartialObjectMetadata, error) {
	ctx, cancel := w.limit(ctx)
	defer cancel()
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(kind)
	if err := w.Live.Get(ctx, key, found); err != nil {
		return nil, err
	}
	return found, nil
}

// Read reads a whole object past the cache.
func (w *Writer) Read(ctx context.Context, key types.NamespacedName, object client.Object) error {
	ctx, cancel := w.limit(ctx)
	defer cancel()
	return w.Live.Get(ctx, key, object)
}

// Saw notes an object read past the cache: its owner waits until the cache shows this
// version.
func (w *Writer) Saw(owner freshness.Owner, kind schema.GroupVersionKind, found metav1.Object) {
	if w.Tracker != nil {
		w.Tracker.Wrote(owner, kind, found.GetResourceVersion())
	}
}

func (w *Writer) answered(owner freshness.Owner, ref freshness.Ref, op freshness.Op, resourceVersion string, err error) {
	if w.Tracker != nil {
		w.Tracker.Answered(owner, ref, op, resourceVersion, err)
	}
}

func (w *Writer) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, cmp.Or(w.Timeout, DefaultTimeout))
}

// by names who writes: the operator, if nobody else is said.
func by(manager string) client.FieldOwner {
	return client.FieldOwner(cmp.Or(manager, shared.FieldManager))
}

// bare is ref's object with identity alone.
func bare(ref freshness.Ref) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(ref.Kind)
	object.Namespace, object.Name = ref.Namespace, ref.Name
	return object
}
