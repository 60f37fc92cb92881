// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package hooks registers what the operator wants to see, or do, of requests for objects of others.
//
// A kind says by Hooks what it wants. One Registrar, on the leader, turns all of them into one mutating and one validating webhook configuration,
// policies of the API server, and their bindings. Read hook.go, then entry.go, which is pure, and registrar.go and pass.go, which write.
package hooks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Order is the place of a hook among those on one request; hooks of one place go by their names. Policies of the API server run before all of them, in an
// order that it draws.
type Order int

// The places.
const (
	// Inject adds containers.
	Inject Order = iota
	// Arrange sees the containers that were added.
	Arrange
	// Guard changes nothing.
	Guard
)

// Hook is one thing that a kind wants to see, or do, of requests for objects of others. It is data: nobody changes a hook that is wanted.
type Hook struct {
	// Name is unique among all hooks: a domain name of at least three labels.
	Name string
	// UID is of the object for which it is wanted, if there is one.
	UID types.UID
	// Version is what State repeats, such as the revision that the hook names.
	Version string
	Order   Order
	// Mutates says that it may change the object; without, it only refuses.
	Mutates bool

	// Resource, Subresource and Verbs say which requests. Cluster: the resource lies in no namespace.
	Resource    schema.GroupVersionResource
	Subresource string
	Verbs       []admissionv1.OperationType
	Cluster     bool
	// The selectors and Conditions narrow that down; nil is no limit. Evictions carry no labels of the pod.
	NamespaceSelector, ObjectSelector *metav1.LabelSelector
	Conditions                        []admissionv1.MatchCondition
	// Unexempted says that it is in force for kube-system, the operator's namespace and objects with the break-glass label, too.
	Unexempted bool

	// Path is where the API server calls; empty: the policy does everything. What is served there is in every replica.
	Path string
	// OnFailure is what becomes of a request that nobody answers within Seconds, which is 10 unless it is set.
	OnFailure admissionv1.FailurePolicyType
	Seconds   int32
	// SideEffects is None unless it is set. A dry run is answered without any.
	SideEffects admissionv1.SideEffectClass
	// Again calls a mutating hook a second time when something changed the object after it.
	Again bool
	// Also are further requests that it is called for.
	Also []admissionv1.RuleWithOperations
	// Hold leaves what is registered under the names of the hook and its bindings as it is, and what that refers to.
	Hold bool

	// Params are what path and bindings refer to: ControllerRevisions in the operator's namespace, with OwnLabel. They are there before the hook, and go
	// after it.
	Params []*unstructured.Unstructured
	// Policy names the Policy that does the same inside the API server; empty: none. Bindings are those of this hook. Once the policy is proven, the
	// operator is only called for requests that fulfill Beyond; without Beyond, for none. Beside: it is called for all of them all the same.
	Policy   string
	Bindings []*unstructured.Unstructured
	Beyond   []admissionv1.MatchCondition
	Beside   bool
}

// Policy is a static policy of the API server, and what goes with it. Every policy that a kind may ever want is declared, so that it is found and removed when
// the kind is off.
type Policy struct {
	// Name is how hooks name it. One that changes objects is called so, too: by that its bindings are found.
	Name string
	// Objects are the policy and its own bindings, in the order in which they are written. The registrar adds the namespaces and objects that are exempt,
	// unless Unexempted is set.
	Objects    []*unstructured.Unstructured
	Unexempted bool
	// Stays says that it is left in place when no hook wants it any more and its kind is on.
	Stays bool
	// Prove says by dry runs why the policy is not known to be in force: it can be served without effect. Nil: it is when it is written.
	Prove func(ctx context.Context, dryRun client.Client) error
}

// Decode returns the objects of a manifest, in its order.
func Decode(manifest string) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifest), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, fmt.Errorf("decoding the manifest of a policy: %w", err)
		}
		objects = append(objects, object)
	}
}

// mutates says whether it is one that changes objects, which not every API server serves.
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
	// Refused hooks are not registered, since the API server does not take them. What was registered before stays.
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
	// Version is that of the hook which the state is about.
	Version string
	// ByPolicy says that the API server does it, ByCall that it calls the operator.
	ByPolicy, ByCall bool
}
