// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Names of OpenKruise, as in its chart.
const (
	// Namespace is where its manager runs and keeps its Lease.
	Namespace = "kruise-system"
	// LeaseName is the Lease of its leader.
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

// Kind is a kind of OpenKruise's manager.
type Kind struct {
	schema.GroupKind
	// Resource is the plural name.
	Resource string
	// Without is the loss when no controller acts. Empty: OpenKruise made the objects itself, and users need none.
	Without string
}

// Kinds are the kinds of OpenKruise 1.9, sorted by name.
func Kinds() (all []Kind) {
	for _, kind := range [][2]string{
		{"AdvancedCronJob", "no schedule starts a job"},
		{"BroadcastJob", "no pod is started on a node, and none is cleaned up"},
		{"CloneSet", "no pod is created, replaced or updated"},
		{"ContainerRecreateRequest", "no container is restarted; open requests stay open"},
		{"DaemonSet", "no pod is created on a new node, replaced or updated"},
		{"EphemeralJob", "no ephemeral container is added; deleting one waits for its finalizer"},
		{"ImageListPullJob", "no image is pulled ahead"},
		{"ImagePullJob", "no image is pulled ahead; deleting one waits for its finalizer"},
		{"NodeImage", ""},
		{"NodePodProbe", ""},
		{"PersistentPodState", "recreated pods may come up in another place"},
		{"PodProbeMarker", "probes set no condition or label; deleting one waits for its finalizer"},
		{"PodUnavailableBudget", "evictions and deletions are not held back"},
		{"ResourceDistribution", "copies are not made and not kept current"},
		{"SidecarSet", "new pods come up without their sidecars, and sidecars are not updated"},
		{"StatefulSet", "no pod is created, replaced or updated"},
		{"UnitedDeployment", "subsets are not scaled or updated"},
		{"WorkloadSpread", "new pods are not spread over the subsets"},
	} {
		group := Groups()[0]
		if kind[0] == "PodUnavailableBudget" {
			group = Groups()[1]
		}
		all = append(all, Kind{GroupKind: schema.GroupKind{Group: group, Kind: kind[0]}, Resource: strings.ToLower(kind[0]) + "s", Without: kind[1]})
	}
	return all
}

// Unserved are the kinds without a controller when only some are managed.
func Unserved(served []string) []Kind {
	return slices.DeleteFunc(Kinds(), func(k Kind) bool { return k.Without == "" || slices.Contains(served, k.Kind) })
}

// Groups are the API groups of Kinds.
func Groups() []string { return []string{"apps.kruise.io", "policy.kruise.io"} }
