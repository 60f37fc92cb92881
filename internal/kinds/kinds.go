// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package kinds says what a kind is that the operator serves, as data: names, versions, scope, what the cache keeps. Flags, the roles of users and the
// generated manifests follow from it.
//
// It knows no controller, webhook or client, so every layer may import it. Each folder below controllers has the entry of its kind; main hands the Table
// of all of them down.
package kinds

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kind is one kind of object.
type Kind struct {
	// For example CloneSet, clonesets and apps.kruise.io.
	Name, Plural, Group string
	// Scope says whether its objects lie in namespaces.
	Scope Scope
	// Versions are the served ones, oldest first. Storage, one of them, is stored, and it is the one that the code works with.
	Versions []string
	Storage  string
	// Converted says that the versions differ in shape, so that a webhook converts between them. It follows from the kind's Convert.
	Converted bool
	// Scale says that it has the subresource scale.
	Scale bool
	// ClaimTemplates says that it has spec.volumeClaimTemplates, whose items the schema leaves open.
	ClaimTemplates bool
	// Controller says whether the operator reconciles its objects.
	Controller Controller
	// WorkersFlag is the flag that says how many objects are reconciled at the same time, such as cloneset-workers. Only kinds whose
	// controller is Optional have one.
	WorkersFlag string
	// Admission says that requests for its objects are defaulted and validated by webhooks. Without, its schema holds all its rules. It follows from the
	// kind's Admission.
	Admission bool
	// Protected says that the label policy.kruise.io/delete-protection is honored on its objects. Cascading protects one
	// that has spec.replicas or, without such a field, status.desiredNumberScheduled above 0.
	Protected bool
	// NodeDaemon says that an object of the kind needs the node daemon for as long as it has no status.completionTime.
	NodeDaemon bool
	// Users is what the cluster's own roles may do with its objects.
	Users Access
	// Needs is what the cache keeps while the kind is on.
	Needs Needs
}

// Scope says where objects lie.
type Scope string

const (
	// Namespaced objects lie in a namespace.
	Namespaced Scope = "Namespaced"
	// Cluster objects lie in no namespace.
	Cluster Scope = "Cluster"
)

// Controller says whether the operator reconciles a kind.
type Controller string

const (
	// APIOnly kinds have no controller in the operator.
	APIOnly Controller = "APIOnly"
	// Optional controllers can be switched off by --kinds and the Kruise object.
	Optional Controller = "Optional"
	// Always is a controller that cannot be switched off.
	Always Controller = "Always"
)

// Access is what the roles view, edit and admin of a cluster may do with a kind.
type Access string

const (
	// AdminsOnly adds nothing to these roles: the kind is for administrators of the cluster.
	AdminsOnly Access = "AdminsOnly"
	// View lets all of them read.
	View Access = "View"
	// Edit lets view read, and edit and admin write, too.
	Edit Access = "Edit"
)

// Needs is what the cache keeps for a kind beside its own objects. What no enabled kind needs is trimmed or not cached at all.
type Needs struct {
	// ControlsPods keeps pods whole that an object of the kind controls.
	ControlsPods bool
	// PodAnnotation keeps pods whole that carry this annotation, whoever controls them.
	PodAnnotation string
	// OwnsRevisions keeps ControllerRevisions whole that an object of the kind controls, in whatever namespace.
	OwnsRevisions bool
	// Controls are further kinds of objects that an object of the kind controls, such as Jobs. Those are kept whole, others of these kinds
	// are trimmed.
	Controls []schema.GroupVersionKind
	// ProbedPods keeps of every pod what decides about its probes and shows their results: its address and conditions, the names and named ports of its
	// containers, and its annotations.
	ProbedPods bool
	// ReadsNodes keeps the nodes.
	ReadsNodes bool
}

// Table is all kinds, sorted by name.
type Table []Kind

// Of is the kind of this name.
func (t Table) Of(name string) (Kind, bool) {
	i := slices.IndexFunc(t, func(k Kind) bool { return k.Name == name })
	if i < 0 {
		return Kind{}, false
	}
	return t[i], true
}

// Where is the kinds for which is holds.
func (t Table) Where(is func(Kind) bool) Table {
	return slices.DeleteFunc(slices.Clone(t), func(k Kind) bool { return !is(k) })
}

// Switchable are the kinds that --kinds and the Kruise object can switch off.
func (t Table) Switchable() Table {
	return t.Where(func(k Kind) bool { return k.Controller == Optional })
}

// Names are the names of the kinds.
func (t Table) Names() []string {
	names := make([]string, len(t))
	for i, kind := range t {
		names[i] = kind.Name
	}
	return names
}

// GroupKind is the kind whatever its version.
func (k Kind) GroupKind() schema.GroupKind { return schema.GroupKind{Group: k.Group, Kind: k.Name} }

// Stored is the kind in the version that is stored.
func (k Kind) Stored() schema.GroupVersionKind { return k.GroupKind().WithVersion(k.Storage) }

// Definition is the name of its CustomResourceDefinition, such as clonesets.apps.kruise.io.
func (k Kind) Definition() string { return k.Plural + "." + k.Group }

// Lower is its name in small letters, as folders, files and paths have it.
func (k Kind) Lower() string { return strings.ToLower(k.Name) }
