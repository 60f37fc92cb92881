// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package planning

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Object is anything that an action can write.
type Object interface {
	metav1.Object
	runtime.Object
}

// Verb says which request an action is.
type Verb string

const (
	// VerbCreate creates Object, after the actions in Before, and then writes Change to it.
	VerbCreate Verb = "Create"
	// VerbPatch sends Change to Object.
	VerbPatch Verb = "Patch"
	// VerbApply is a server-side apply of Object.
	VerbApply Verb = "Apply"
	// VerbDelete deletes exactly Object: the one with its UID.
	VerbDelete Verb = "Delete"
)

// Step is the name of what an action does, in logs, metrics, events and conditions: Create, EditClaim, CreateJob. It comes from a small
// fixed set. Actions of one step are alike: when the server refuses several of them in a row, the others of that step wait.
type Step string

// Slot is the place of an object among those of its owner. It outlives the object: the ordinal of a StatefulSet's pod, the instance ID
// of a CloneSet's, the node of a DaemonSet's, the subset of a UnitedDeployment's child.
type Slot string

// Action is one write. The actions of a plan do not depend on each other.
type Action struct {
	// Verb says which request it is, Step what it is called.
	Verb Verb
	Step Step
	// Kind is the object's kind in the version that is written: typed objects do not know theirs.
	Kind schema.GroupVersionKind
	// Object is the object as it shall be (VerbCreate, VerbApply) or as it was observed (VerbPatch, VerbDelete). Read-only.
	Object Object
	// Slot is whose action it is, for messages. Empty for objects without one.
	Slot Slot
	// Key identifies the action when its refusals are remembered and its object has another name in each plan. Empty: the name identifies it.
	Key string

	// Change is what VerbPatch sends. After VerbCreate it is written to the new object, and what fails then is left for a later plan.
	Change Change
	// Before are actions that are carried out first, in order. If one fails, the action is not begun. Only for VerbCreate.
	Before []Action
	// KeepExisting says that an object that exists already will do, whoever made it, unless it is terminating. Otherwise it has to be
	// controlled by the owner of the plan. Only for VerbCreate.
	KeepExisting bool
	// Selector is what has to match the labels of the new object as the server stores them, which a webhook may have changed. An object that it does not
	// match is deleted again, and the creation counts as refused. Nil: any labels will do. Only for VerbCreate.
	Selector *metav1.LabelSelector
	// ExactVersion ties VerbDelete to the observed resourceVersion, not only to the UID: a newer state could have changed the decision.
	ExactVersion bool
	// IfAbsent is an object that must not exist: it is looked up past the cache right before the request, which is not sent when it does.
	// The owner is then planned again when the cache shows the object.
	IfAbsent *Reference
	// Propagation is the propagation policy of VerbDelete. Empty: the default of its kind.
	Propagation metav1.DeletionPropagation
	// FieldManager is whose fields are written. Empty: the operator's.
	FieldManager string
	// Force lets VerbApply take fields from other managers.
	Force bool
	// ReplacesFailed says that VerbDelete removes an object that has failed, so that another one gets its slot. Where a slot's objects
	// fail again and again, such deletions wait longer and longer.
	ReplacesFailed bool
	// MadeFrom names what the replacement is made from, such as a revision. Failures of objects that were made from something else do not count for
	// it. Empty: always the same.
	MadeFrom string

	// Reason is a short CamelCase word for logs and golden files: ScaleOut, ScaleIn, Outdated, SpecifiedDelete, ...
	Reason string
	// Success and Failure are the events to emit on the owner; an empty reason emits none.
	Success, Failure Event
}

// Reference names an object.
type Reference struct {
	Kind            schema.GroupVersionKind
	Namespace, Name string
}

// Event is an event to emit when an action is over. On failure the error is appended to the message.
type Event struct {
	Warning bool
	Reason  string
	Message string
}

// Change is something to be written to an object that exists.
type Change interface {
	// Requests are the patches to send to the object, in this order, each after the one before succeeded. None: nothing to do.
	Requests(object Object) []Request
}

// Request is one patch.
type Request struct {
	// Subresource is where it goes; "" for the object itself.
	Subresource string
	// Type is the media type of the patch.
	Type types.PatchType
	// Body renders the patch for the version that the object should still have: the observed one for the first request, that of the last
	// answer for each later one. A body is tied to what it contains of it.
	Body func(Version) ([]byte, error)
}

// Version is the state of an object that a request was decided for.
type Version struct {
	// ResourceVersion changes with every write to the object.
	ResourceVersion string
	// Generation changes with every write to its spec. Objects without generation have 0.
	Generation int64
}

// MergePatch changes fields of an object as it was observed. The fields are texts, numbers and API types, so they can always be rendered.
func MergePatch(of metav1.Object, fields map[string]any) RawPatch {
	metadata, _ := fields["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		fields["metadata"] = metadata
	}
	metadata["uid"], metadata["resourceVersion"] = of.GetUID(), of.GetResourceVersion()
	body, _ := json.Marshal(fields)
	return RawPatch{Type: types.MergePatchType, Body: body}
}

// MetadataPatch is MergePatch for fields of the metadata.
func MetadataPatch(of metav1.Object, fields map[string]any) RawPatch {
	return MergePatch(of, map[string]any{"metadata": fields})
}

// RawPatch is a Change of one patch, as it is sent. What it is tied to, a UID or a resourceVersion, it says itself.
type RawPatch struct {
	Subresource string
	Type        types.PatchType
	Body        []byte
}

// Requests implements Change.
func (p RawPatch) Requests(Object) []Request {
	return []Request{{Subresource: p.Subresource, Type: p.Type, Body: func(Version) ([]byte, error) { return p.Body, nil }}}
}

// RetryKey is what refusals of an action are remembered by. Equal keys are tries of the same thing.
type RetryKey struct {
	Step            Step
	Namespace, Name string
}

// RetryKey of the action.
func (a *Action) RetryKey() RetryKey {
	key := RetryKey{Step: a.Step, Namespace: a.Object.GetNamespace(), Name: a.Key}
	if key.Name == "" {
		key.Name = a.Object.GetName()
	}
	return key
}
