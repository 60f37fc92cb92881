// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package planning

import (
	"cmp"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Object is anything for an action to write.
type Object interface {
	metav1.Object
	runtime.Object
}

// Verb is the request of an action.
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

// Step is the name of an action's work, in logs, metrics, events and conditions: Create, EditClaim,
// CreateJob. It comes from a small fixed set. Actions of one step are alike: after several refusals
// in a row, the others of that step wait.
type Step string

// Slot is the place of an object among its owner's. It outlives the object: the ordinal of a
// StatefulSet's pod, the instance ID of a CloneSet's, the node of a DaemonSet's, the subset of a
// UnitedDeployment's child.
type Slot string

// Action is one write. The actions of a plan do not depend on each other.
type Action struct {
	// Verb is the request, Step its name.
	Verb Verb
	Step Step
	// Kind is the object's kind in the written version: typed objects do not know theirs.
	Kind schema.GroupVersionKind
	// Object is the object as it shall be (VerbCreate, VerbApply) or as it was observed (VerbPatch, VerbDelete). Read-only.
	Object Object
	// Slot is the action's place, for messages. Empty for objects without one.
	Slot Slot
	// Key identifies the action when its refusals are remembered and its object has another name in each plan. Empty: the name identifies it.
	Key string

	// Change is the patch of VerbPatch. After VerbCreate it is written to the new object, and a
	// failure is left for a later plan.
	Change Change
	// Before are earlier actions, in order. If one fails, the action is not begun. Only for
	// VerbCreate.
	Before []Action
	// KeepExisting accepts an existing object, by whomever, unless it is terminating. Otherwise the
	// owner of the plan has to control it. Only for VerbCreate.
	KeepExisting bool
	// Selector has to match the labels of the stored new object: a webhook may have changed them.
	// Otherwise the object is deleted again, and the creation counts as refused. Nil: any labels
	// will do. Only for VerbCreate.
	Selector *metav1.LabelSelector
	// ExactVersion ties VerbDelete to the observed resourceVersion, not only to the UID: a newer state could have changed the decision.
	ExactVersion bool
	// IfAbsent is an object that must not exist. It is looked up past the cache right before the
	// request, and stops it. The owner is then planned again when the cache shows the object.
	IfAbsent *Reference
	// Propagation is the propagation policy of VerbDelete. Empty: the default of its kind.
	Propagation metav1.DeletionPropagation
	// FieldManager is the owner of written fields. Empty: the operator.
	FieldManager string
	// Force lets VerbApply take fields from other managers.
	Force bool
	// OnlyNew: VerbApply creates Object, or applies it to one that the owner of the plan controls. It never touches another one.
	OnlyNew bool
	// ReplacesFailed: VerbDelete removes a failed object for another one in its slot. After many
	// failures in a slot, such deletions wait longer and longer.
	ReplacesFailed bool
	// MadeFrom names the source of the replacement, such as a revision. Failures of objects from
	// other sources do not count. Empty: always the same.
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

// Change is something to write to an existing object.
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
	// Body renders the patch for the expected version of the object: the observed one for the first
	// request, the last answer's for each later one. A body is tied to the parts of it in the body.
	Body func(Version) ([]byte, error)
}

// Version is the state of an object behind a request.
type Version struct {
	// ResourceVersion changes with every write to the object.
	ResourceVersion string
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

// RawPatch is a Change of one patch, as it is sent. It names its own UID or resourceVersion.
type RawPatch struct {
	Subresource string
	Type        types.PatchType
	Body        []byte
}

// Requests implements Change.
func (p RawPatch) Requests(Object) []Request {
	return []Request{{Subresource: p.Subresource, Type: p.Type, Body: func(Version) ([]byte, error) { return p.Body, nil }}}
}

// RetryKey identifies an action for its refusals. Equal keys are tries of the same thing.
type RetryKey struct {
	Step            Step
	Namespace, Name string
}

// RetryKey of the action.
func (a *Action) RetryKey() RetryKey {
	return RetryKey{Step: a.Step, Namespace: a.Object.GetNamespace(), Name: cmp.Or(a.Key, a.Object.GetName())}
}
