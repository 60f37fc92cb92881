// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// What OpenKruise calls its own things, as its chart installs them.
const (
	// Namespace is where its manager runs and keeps its Lease.
	Namespace = "kruise-system"
	// LeaseName is the Lease that its leading manager renews.
	LeaseName = "kruise-manager"
	// DaemonName is the DaemonSet of its node daemon.
	DaemonName = "kruise-daemon"
)

// Lease names the Lease of OpenKruise's manager.
func Lease() types.NamespacedName { return types.NamespacedName{Namespace: Namespace, Name: LeaseName} }

// NodeDaemon names the DaemonSet of OpenKruise's node daemon.
func NodeDaemon() types.NamespacedName {
	return types.NamespacedName{Namespace: Namespace, Name: DaemonName}
}

// Kind is a kind that OpenKruise's manager reconciles.
type Kind struct {
	schema.GroupKind
	// Resource is the plural name.
	Resource string
	// Derived says that OpenKruise made the objects itself, one for each node. They mean nothing to users and hold nothing up.
	Derived bool
	// Without says what no longer happens when no controller reconciles the objects.
	Without string
}

// Kinds are the kinds of OpenKruise 1.9, sorted by name.
func Kinds() []Kind {
	apps := func(kind, resource, without string) Kind {
		return Kind{GroupKind: schema.GroupKind{Group: "apps.kruise.io", Kind: kind}, Resource: resource, Without: without}
	}
	derived := func(kind, resource string) Kind {
		return Kind{GroupKind: schema.GroupKind{Group: "apps.kruise.io", Kind: kind}, Resource: resource, Derived: true}
	}
	return []Kind{
		apps("AdvancedCronJob", "advancedcronjobs", "no schedule starts a job"),
		apps("BroadcastJob", "broadcastjobs", "no pod is started on a node, and none is cleaned up"),
		apps("CloneSet", "clonesets", "no pod is created, replaced or updated"),
		apps("ContainerRecreateRequest", "containerrecreaterequests", "no container is restarted; open requests stay open"),
		apps("DaemonSet", "daemonsets", "no pod is created on a new node, replaced or updated"),
		apps("EphemeralJob", "ephemeraljobs", "no ephemeral container is added; deleting one waits for its finalizer"),
		apps("ImageListPullJob", "imagelistpulljobs", "no image is pulled ahead"),
		apps("ImagePullJob", "imagepulljobs", "no image is pulled ahead; deleting one waits for its finalizer"),
		derived("NodeImage", "nodeimages"),
		derived("NodePodProbe", "nodepodprobes"),
		apps("PersistentPodState", "persistentpodstates", "recreated pods may come up in another place"),
		apps("PodProbeMarker", "podprobemarkers", "probes set no condition or label; deleting one waits for its finalizer"),
		{
			GroupKind: schema.GroupKind{Group: "policy.kruise.io", Kind: "PodUnavailableBudget"}, Resource: "podunavailablebudgets",
			Without: "evictions and deletions are not held back",
		},
		apps("ResourceDistribution", "resourcedistributions", "copies are not made and not kept current"),
		apps("SidecarSet", "sidecarsets", "new pods come up without their sidecars, and sidecars are not updated"),
		apps("StatefulSet", "statefulsets", "no pod is created, replaced or updated"),
		apps("UnitedDeployment", "uniteddeployments", "subsets are not scaled or updated"),
		apps("WorkloadSpread", "workloadspreads", "new pods are not spread over the subsets"),
	}
}

// Unserved are the kinds whose objects would have no controller when only the given kinds are managed.
func Unserved(served []string) []Kind {
	return slices.DeleteFunc(Kinds(), func(k Kind) bool { return k.Derived || slices.Contains(served, k.Kind) })
}

// Groups are the API groups of Kinds.
func Groups() []string { return []string{"apps.kruise.io", "policy.kruise.io"} }
