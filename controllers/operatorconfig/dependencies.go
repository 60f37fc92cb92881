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

// Kind is the state of a workload kind.
type Kind struct {
	// Name is the kind.
	Name string
	// Controller is the name of its controller, as loggers have it.
	Controller string
	// Enabled: the running configuration names it.
	Enabled bool
	// Unconfirmed names the pending objects and how to confirm them; empty: nothing waits. Otherwise the kind is not enabled.
	Unconfirmed string
	// Served: the API server served it when the operator started.
	Served bool
	// Synced: its objects have been read. Nil when the kind is not enabled or not served.
	Synced func() bool
}

// Dependencies are for making the reconciler.
type Dependencies struct {
	// Client reads the cache and writes. Live reads past the cache.
	Client client.Client
	Live   client.Reader
	// Cache watches the object, if Watch: its CRD was installed when the operator started.
	Cache ctrlcache.Cache
	Watch bool
	// Appeared names a kind, perhaps this one, missing at the start and served now; empty: none. Nil when none was missing.
	Appeared func(ctx context.Context) (kind string, err error)
	// Recorder takes events.
	Recorder events.EventRecorder
	// Clock is the time.
	Clock clock.PassiveClock

	// Flags and Given are the command line's, Running hashes the manager's configuration.
	Flags   config.Config
	Given   sets.Set[string]
	Running string
	// Gates are on.
	Gates []string
	// Faults showed only at the start.
	Faults []string
	// Levels are changed when the object's are.
	Levels *logging.Levels
	// Kinds are all kinds, in the order of their names.
	Kinds []Kind
	// Versions are of the operator and its components.
	Versions []operatorv1alpha1.ComponentVersion

	// Self is this replica's name, Pods the namespace of its pod; empty outside of a cluster. Elected is closed when this replica leads.
	Self    string
	Pods    string
	Elected <-chan struct{}
	// Draining makes this replica not ready while it is true. End ends the process.
	Draining *atomic.Bool
	End      func()
	// OLM is the condition telling OLM if the operator may be upgraded; nil without OLM.
	OLM conditions.Condition
	// Operands are the operator's own deployments; nil outside of a cluster.
	Operands *Operands
	// Acts: no other manager acts on the objects. Until then nothing acting on them is deployed or registered.
	Acts func() bool
	// NodeDaemon deploys the node daemon; nil outside of a cluster.
	NodeDaemon *NodeDaemon
	// DaemonKinds are enabled, served kinds with objects needing the node daemon.
	DaemonKinds []schema.GroupVersionKind
	// DaemonNeeds are objects of other kinds needing the node daemon for now; nil: the operator deploys none.
	DaemonNeeds *workload.DaemonNeeds
	// KeepWebhooks keeps the webhooks of kinds that are on, and no others, from now on; nil: none are served.
	KeepWebhooks func(ctx context.Context) error
	// HookFaults are faults of hooks no other object reports.
	HookFaults func() []string
	// Work is anything an upgrade should not cut off.
	Work func() Work
	// Denied are the answers of the API server where it does not let the cache read something.
	Denied func() []string
	// WorkChanged receives when Work may have another answer.
	WorkChanged <-chan struct{}
}
