// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package kinds is the table of the kinds that the operator serves. Whatever differs between kinds only by data is read from here:
// flags, what the cache keeps, which kinds are converted, the roles of users, the generated manifests.
//
// A new kind is one entry in All, beside its own folders. The table holds data alone: it knows no controller, webhook or client, so
// every layer may import it.
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
	// Converted says that the versions differ in shape, so that a webhook converts between them.
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
	// Admission says that requests for its objects are defaulted and validated by webhooks. Without, its schema holds all its rules.
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
	// EphemeralContainers keeps of every pod its node, phase and creation time, its ephemeral containers and what is reported of them.
	EphemeralContainers bool
	// OwnsRevisions keeps ControllerRevisions whole that an object of the kind controls, in whatever namespace.
	OwnsRevisions bool
	// Controls are further kinds of objects that an object of the kind controls, such as Jobs. Those are kept whole, others of these kinds
	// are trimmed.
	Controls []schema.GroupVersionKind
	// PodPlaces keeps of all pods on which node they are, and whether they have ended.
	PodPlaces bool
	// ProbedPods keeps of every pod what decides about its probes and shows their results: its node, phase, address and conditions, the names
	// and named ports of its containers, and its annotations.
	ProbedPods bool
	// ReadsNodes keeps the nodes.
	ReadsNodes bool
}

// All is the table, sorted by name.
func All() []Kind {
	return []Kind{
		{
			Name: "AdvancedCronJob", Plural: "advancedcronjobs", Group: "apps.kruise.io",
			Scope: Namespaced, Versions: []string{"v1alpha1", "v1beta1"}, Storage: "v1beta1",
			Controller: Optional, WorkersFlag: "advancedcronjob-workers", Admission: true, Users: Edit,
			// Its BroadcastJobs are cached for their own kind.
			Needs: Needs{Controls: []schema.GroupVersionKind{{Group: "batch", Version: "v1", Kind: "Job"}}},
		},
		{
			Name: "BroadcastJob", Plural: "broadcastjobs", Group: "apps.kruise.io",
			Scope: Namespaced, Versions: []string{"v1alpha1", "v1beta1"}, Storage: "v1beta1",
			Controller: Optional, WorkersFlag: "broadcastjob-workers", Admission: true, Users: Edit,
			Needs: Needs{ControlsPods: true, ReadsNodes: true},
		},
		{
			Name: "CloneSet", Plural: "clonesets", Group: "apps.kruise.io",
			Scope: Namespaced, Versions: []string{"v1alpha1", "v1beta1"}, Storage: "v1beta1", Converted: true, Scale: true, ClaimTemplates: true,
			Controller: Optional, WorkersFlag: "cloneset-workers", Admission: true, Protected: true, Users: Edit,
			Needs: Needs{ControlsPods: true, OwnsRevisions: true},
		},
		{
			// Its pods may belong to any controller; the cache keeps only the identity of most of them, which is enough.
			Name: "ContainerRecreateRequest", Plural: "containerrecreaterequests", Group: "apps.kruise.io",
			Scope: Namespaced, Versions: []string{"v1alpha1", "v1beta1"}, Storage: "v1beta1", Converted: true,
			Controller: Optional, WorkersFlag: "crr-workers", Admission: true, Users: Edit, NodeDaemon: true,
		},
		{
			Name: "DaemonSet", Plural: "daemonsets", Group: "apps.kruise.io",
			Scope: Namespaced, Versions: []string{"v1alpha1", "v1beta1"}, Storage: "v1beta1", Converted: true,
			Controller: Optional, WorkersFlag: "daemonset-workers", Admission: true, Protected: true, Users: Edit,
			Needs: Needs{ControlsPods: true, OwnsRevisions: true, ReadsNodes: true},
		},
		{
			// Its pods are those of others: any that its selector matches.
			Name: "EphemeralJob", Plural: "ephemeraljobs", Group: "apps.kruise.io",
			Scope: Namespaced, Versions: []string{"v1alpha1", "v1beta1"}, Storage: "v1beta1",
			Controller: Optional, WorkersFlag: "ephemeraljob-workers", Admission: true, Users: Edit,
			Needs: Needs{EphemeralContainers: true},
		},
		{
			// Its ImagePullJobs are cached for their own kind.
			Name: "ImageListPullJob", Plural: "imagelistpulljobs", Group: "apps.kruise.io",
			Scope: Namespaced, Versions: []string{"v1alpha1", "v1beta1"}, Storage: "v1beta1",
			Controller: Optional, WorkersFlag: "imagelistpulljob-workers", Admission: true, Users: Edit,
		},
		{
			// Which pods run where is all that it needs of pods.
			Name: "ImagePullJob", Plural: "imagepulljobs", Group: "apps.kruise.io",
			Scope: Namespaced, Versions: []string{"v1alpha1", "v1beta1"}, Storage: "v1beta1",
			Controller: Optional, WorkersFlag: "imagepulljob-workers", Admission: true, NodeDaemon: true, Users: Edit,
			Needs: Needs{ReadsNodes: true, PodPlaces: true},
		},
		{
			// Kruise configures the operator itself.
			Name: "Kruise", Plural: "kruises", Group: "operator.kruise.io",
			Scope: Cluster, Versions: []string{"v1alpha1"}, Storage: "v1alpha1",
			Controller: Always, Users: AdminsOnly,
		},
		{
			// Jobs write it, and the node daemon of the node with its name. Users who could write it would pull anything anywhere. It needs the
			// daemon for tags that were written by hand only, so its controller says when.
			Name: "NodeImage", Plural: "nodeimages", Group: "apps.kruise.io",
			Scope: Cluster, Versions: []string{"v1alpha1", "v1beta1"}, Storage: "v1beta1",
			Controller: Optional, WorkersFlag: "nodeimage-workers", Admission: true, Users: View,
			Needs: Needs{ReadsNodes: true},
		},
		{
			// PodProbeMarkers make it, and the node daemon of the node with its name answers in it. Users who could write it would run anything
			// anywhere. Its schema holds all its rules.
			Name: "NodePodProbe", Plural: "nodepodprobes", Group: "apps.kruise.io",
			Scope: Cluster, Versions: []string{"v1alpha1"}, Storage: "v1alpha1",
			Controller: Optional, WorkersFlag: "nodepodprobe-workers", Users: View,
			Needs: Needs{ReadsNodes: true, ProbedPods: true},
		},
		{
			// Its pods are those of others: any that its selector matches. It never ends, so the node daemon is there as long as it is.
			Name: "PodProbeMarker", Plural: "podprobemarkers", Group: "apps.kruise.io",
			Scope: Namespaced, Versions: []string{"v1alpha1"}, Storage: "v1alpha1",
			Controller: Optional, WorkersFlag: "podprobemarker-workers", Admission: true, NodeDaemon: true, Users: Edit,
			Needs: Needs{ReadsNodes: true, ProbedPods: true},
		},
		{
			// Its pods are those of others: they carry the annotation that names the sets which were injected.
			Name: "SidecarSet", Plural: "sidecarsets", Group: "apps.kruise.io",
			Scope: Cluster, Versions: []string{"v1alpha1", "v1beta1"}, Storage: "v1beta1", Converted: true,
			Controller: Optional, WorkersFlag: "sidecarset-workers", Admission: true, Users: View,
			Needs: Needs{PodAnnotation: "kruise.io/sidecarset-injected-list", OwnsRevisions: true},
		},
		{
			Name: "StatefulSet", Plural: "statefulsets", Group: "apps.kruise.io",
			Scope: Namespaced, Versions: []string{"v1alpha1", "v1beta1"}, Storage: "v1beta1", Scale: true, ClaimTemplates: true,
			Controller: Optional, WorkersFlag: "statefulset-workers", Admission: true, Protected: true, Users: Edit,
			Needs: Needs{ControlsPods: true, OwnsRevisions: true},
		},
		{
			Name: "UnitedDeployment", Plural: "uniteddeployments", Group: "apps.kruise.io",
			Scope: Namespaced, Versions: []string{"v1alpha1", "v1beta1"}, Storage: "v1beta1", Scale: true,
			Controller: Optional, WorkersFlag: "uniteddeployment-workers", Admission: true, Protected: true, Users: Edit,
			Needs: Needs{OwnsRevisions: true, Controls: []schema.GroupVersionKind{
				{Group: "apps", Version: "v1", Kind: "Deployment"},
				{Group: "apps", Version: "v1", Kind: "StatefulSet"},
				{Group: "apps.kruise.io", Version: "v1beta1", Kind: "CloneSet"},
				{Group: "apps.kruise.io", Version: "v1beta1", Kind: "StatefulSet"},
			}},
		},
	}
}

// Of is the kind of this name.
func Of(name string) (Kind, bool) {
	all := All()
	i := slices.IndexFunc(all, func(k Kind) bool { return k.Name == name })
	if i < 0 {
		return Kind{}, false
	}
	return all[i], true
}

// Where is the kinds for which is holds, in the order of the table.
func Where(is func(Kind) bool) []Kind {
	return slices.DeleteFunc(All(), func(k Kind) bool { return !is(k) })
}

// Switchable are the kinds that --kinds and the Kruise object can switch off.
func Switchable() []Kind { return Where(func(k Kind) bool { return k.Controller == Optional }) }

// Names are the names of some kinds.
func Names(some []Kind) []string {
	names := make([]string, len(some))
	for i, kind := range some {
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
