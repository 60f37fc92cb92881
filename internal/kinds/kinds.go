// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package kinds describes the operator's kinds as data: names, versions, scope, cache needs. Flags, users' roles
// and generated manifests follow from it.
//
// It knows no controller, webhook or client, so every layer may import it. Each folder below controllers
// describes its kind; main passes on the Table of all.
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
	// Scope tells namespaced kinds from cluster-wide ones.
	Scope Scope
	// Versions are the served ones, oldest first. The code works with Storage, the stored one.
	Versions []string
	Storage  string
	// Converted: the versions differ in shape, and a webhook converts them. It follows from the kind's Convert.
	Converted bool
	// Scale: it has the subresource scale.
	Scale bool
	// ClaimTemplates: it has spec.volumeClaimTemplates; the schema leaves its items open.
	ClaimTemplates bool
	// Controller tells if the operator reconciles its objects.
	Controller Controller
	// WorkersFlag sets how many objects are reconciled at once, such as cloneset-workers. Only Optional kinds have one.
	WorkersFlag string
	// Workers is the flag's default, for passes mostly waiting for the API server; 0: as all kinds.
	Workers int
	// Admission: webhooks default and validate requests. Otherwise the schema holds all rules. It follows from the
	// kind's Admission.
	Admission bool
	// Protected: the label policy.kruise.io/delete-protection is honored. Cascading protects an object with
	// spec.replicas or, lacking this field, status.desiredNumberScheduled above 0.
	Protected bool
	// NodeDaemon: objects need the node daemon until they have a status.completionTime.
	NodeDaemon bool
	// Users are the rights of the cluster's own roles.
	Users Access
	// Needs is the cache's content while the kind is on.
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

// Controller tells if the operator reconciles a kind.
type Controller string

const (
	// APIOnly kinds have no controller in the operator.
	APIOnly Controller = "APIOnly"
	// Optional controllers can be switched off by --kinds and the Kruise object.
	Optional Controller = "Optional"
	// Always cannot be switched off.
	Always Controller = "Always"
)

// Access is the rights of the cluster roles view, edit and admin on a kind.
type Access string

const (
	// AdminsOnly adds nothing to these roles: the kind is for administrators of the cluster.
	AdminsOnly Access = "AdminsOnly"
	// View lets all of them read.
	View Access = "View"
	// Edit lets view read, and edit and admin write, too.
	Edit Access = "Edit"
)

// Needs is the cache's content for a kind beside its own objects. Everything else is trimmed or not cached.
type Needs struct {
	// ControlsPods keeps pods controlled by the kind whole.
	ControlsPods bool
	// PodAnnotation keeps pods with this annotation whole, whoever controls them.
	PodAnnotation string
	// OwnsRevisions keeps ControllerRevisions controlled by the kind whole, in any namespace.
	OwnsRevisions bool
	// Controls are further kinds the objects control, such as Jobs. Controlled objects are kept whole, others are trimmed.
	Controls []schema.GroupVersionKind
	// PodFacts keeps every pod's address, conditions, container names, named ports, node selector and annotations.
	// Kinds that count or probe pods of others need them.
	PodFacts bool
	// ReadsNodes keeps the nodes.
	ReadsNodes bool
	// Distributed are kinds of copies in many namespaces. Only the metadata of labeled ones is kept.
	Distributed []schema.GroupVersionKind
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

// Where returns the kinds accepted by is.
func (t Table) Where(is func(Kind) bool) Table {
	return slices.DeleteFunc(slices.Clone(t), func(k Kind) bool { return !is(k) })
}

// Switchable are the kinds --kinds and the Kruise object can switch off.
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

// Stored is the kind in its stored version.
func (k Kind) Stored() schema.GroupVersionKind { return k.GroupKind().WithVersion(k.Storage) }

// Definition is the name of its CustomResourceDefinition, such as clonesets.apps.kruise.io.
func (k Kind) Definition() string { return k.Plural + "." + k.Group }

// Lower is its name in small letters, as folders, files and paths have it.
func (k Kind) Lower() string { return strings.ToLower(k.Name) }
