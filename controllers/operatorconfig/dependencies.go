// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package operatorconfig

import (
	"context"
	"sync/atomic"

	"github.com/operator-framework/operator-lib/conditions"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/kruise-operator/kruise-operator/api/operator/v1alpha1"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/internal/platform/logging"
)

// Kind is what is known of a kind of workload that the operator can manage.
type Kind struct {
	// Name is the kind.
	Name string
	// Controller is the name of its controller, as loggers have it.
	Controller string
	// Enabled says whether the running configuration names it.
	Enabled bool
	// Unconfirmed says what waits for the administrator, and how to confirm it; empty when nothing does. The kind is then not enabled.
	Unconfirmed string
	// Served says whether the API server served it when the operator started.
	Served bool
	// Synced says whether its objects have been read. It may be nil when the kind is not enabled or not served.
	Synced func() bool
}

// Dependencies are what the reconciler is made from.
type Dependencies struct {
	// Client reads the cache and writes. Live reads past the cache.
	Client client.Client
	Live   client.Reader
	// Cache is where the object is watched, if Watch says that its CRD was installed when the operator started.
	Cache ctrlcache.Cache
	Watch bool
	// Appeared names a kind, this one among them, whose CRD was missing when the manager was built and is served now; empty while there
	// is none. It is nil when none was missing.
	Appeared func(ctx context.Context) (kind string, err error)
	// Recorder takes events.
	Recorder events.EventRecorder
	// Clock is the time.
	Clock clock.PassiveClock

	// Flags and Given are what the command line says, Running the hash of what the manager runs with.
	Flags   config.Config
	Given   sets.Set[string]
	Running string
	// Gates are those that are on.
	Gates []string
	// Faults are what showed only at the start.
	Faults []string
	// Levels are changed when the object's are.
	Levels *logging.Levels
	// Kinds are all kinds, in the order of their names.
	Kinds []Kind
	// Versions are those of the operator and of what it works with.
	Versions []operatorv1alpha1.ComponentVersion

	// Self is this replica's name, Pods the namespace of its pod; empty outside of a cluster. Elected is closed when this replica leads.
	Self    string
	Pods    string
	Elected <-chan struct{}
	// Draining makes this replica not ready while it is true. End ends the process.
	Draining *atomic.Bool
	End      func()
	// OLM is the condition that says to it whether the operator may be upgraded; nil where there is none.
	OLM conditions.Condition
	// Operands are what the operator deploys for itself; nil outside of a cluster.
	Operands *Operands
	// Acts says that no other manager acts on the objects. Until then nothing is deployed or registered that acts on objects beside the other
	// one. Nil: nobody else does.
	Acts func() bool
	// NodeDaemon deploys what runs on nodes; nil outside of a cluster.
	NodeDaemon *NodeDaemon
	// DaemonKinds are the kinds whose objects need the node daemon, those alone that are enabled and served.
	DaemonKinds []schema.GroupVersionKind
	// DaemonNeeds are objects of other kinds that need the node daemon for now; nil where the operator deploys none.
	DaemonNeeds *workload.DaemonNeeds
	// HookFaults are why hooks are not registered whose faults no other object tells; nil: there are none.
	HookFaults func() []string
	// Work says what an upgrade should not cut off. It may be nil.
	Work func() Work
	// Denied are the answers of the API server where it does not let the cache read something. It may be nil.
	Denied func() []string
	// WorkChanged receives when Work may have another answer.
	WorkChanged <-chan struct{}
}
