// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package hooks registers webhooks and policies on requests for others' objects.
//
// Kinds want Hooks. One Registrar, on the leader, turns them into one mutating and one validating webhook configuration,
// and policies with bindings. Read hook.go, then entry.go, which is pure, and registrar.go and pass.go, which write.
package hooks

import (
	"context"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Order is a hook's place on one request, then by name. Policies of the API server run earlier, in random order.
type Order int

// The places.
const (
	// Inject adds containers.
	Inject Order = iota
	// Arrange sees the added containers.
	Arrange
	// Guard changes nothing.
	Guard
)

// Hook is one interest of a kind in requests for others' objects. It is immutable once wanted.
type Hook struct {
	// Name is unique among all hooks: a domain name of at least three labels.
	Name string
	// UID of its object, if any.
	UID types.UID
	// Version is repeated in State, such as the hook's revision.
	Version string
	Order   Order
	// Mutates: it may change the object; else it only refuses.
	Mutates bool

	// Resource, Subresource and Verbs select requests. Cluster: the resource is
	// cluster-scoped. Others exempt kube-system, the operator's namespace and objects with the break-glass label.
	Resource    schema.GroupVersionResource
	Subresource string
	Verbs       []admissionv1.OperationType
	Cluster     bool
	// The selectors and Conditions narrow this; nil: no limit. Evictions carry no pod labels.
	NamespaceSelector, ObjectSelector *metav1.LabelSelector
	Conditions                        []admissionv1.MatchCondition

	// Path is the webhook's path, served by every replica; empty: the policy does everything.
	Path string
	// OnFailure decides a request unanswered for Seconds, 10 by default.
	OnFailure admissionv1.FailurePolicyType
	Seconds   int32
	// SideEffects is None unless it is set. A dry run is answered without any.
	SideEffects admissionv1.SideEffectClass
	// Again calls a mutating hook a second time when something changed the object after it.
	Again bool
	// Also are further requests to call it for.
	Also []admissionv1.RuleWithOperations
	// Hold leaves the hook's registration, bindings and references as they are.
	Hold bool

	// Params are ControllerRevisions in the operator's namespace, with OwnLabel,
	// for path and bindings. They come before the hook and go after it.
	Params []*unstructured.Unstructured
	// Policy names an equivalent Policy in the API server; empty: none. Bindings are this hook's. Once the policy
	// is proven, the operator gets only requests matching Beyond, none without it. Beside: it still gets all.
	Policy   string
	Bindings []*unstructured.Unstructured
	Beyond   []admissionv1.MatchCondition
	Beside   bool
}

// Policy is a static policy of the API server with its objects.
// Kinds declare all of theirs, to remove them when the kind is off.
type Policy struct {
	// Name for hooks to refer to. A mutating policy has this name too, to find its bindings.
	Name string
	// Objects are the policy and its own bindings, in writing order. The
	// registrar adds exempt namespaces and objects, except with Unexempted.
	Objects    []*unstructured.Unstructured
	Unexempted bool
	// Stays: while its kind is on, it stays without hooks.
	Stays bool
	// Prove explains, by dry runs, doubts about the policy: it can be served without
	// effect. live reads past the cache. Nil: a written policy is in force.
	Prove func(ctx context.Context, live client.Reader, dryRun client.Client) error
}

// mutates reports whether it changes objects. Not every API server serves these.
func (p *Policy) mutates() bool {
	return len(p.Objects) > 0 && p.Objects[len(p.Objects)-1].GetKind()[:1] == "M"
}

// Reason says how it is with a hook.
type Reason string

// The reasons.
const (
	// InForce hooks are registered as they should be.
	InForce Reason = "InForce"
	// Pending hooks are not registered yet; there is no fault so far.
	Pending Reason = "Pending"
	// Refused means the API server refuses the hook. Its former registration stays.
	Refused Reason = "Refused"
	// NoRoom hooks are not registered, since the webhook configuration is full.
	NoRoom Reason = "NoRoom"
	// Unserved hooks are not registered, since neither policies nor calls of the operator are possible.
	Unserved Reason = "Unserved"
	// Ownerless hooks are not registered, since nothing would remove them together with the installation.
	Ownerless Reason = "Ownerless"
)

// State is how it is with a hook.
type State struct {
	Reason Reason
	// Message says more where it is not in force, or is in another way than wanted.
	Message string
	// Version of the hook described.
	Version string
	// ByPolicy: the API server does it. ByCall: it calls the operator.
	ByPolicy, ByCall bool
}
