// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package host joins the node daemon and its features. Package daemon imports the features,
// so it is separate.
package host

import (
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kruise-operator/kruise-operator/internal/daemon/cri"
)

// Host is given to a worker of the node daemon.
type Host struct {
	// Node is the name of the node.
	Node string
	// Namespace is the daemon's own; it may read no other's Secrets.
	Namespace string
	// Manager runs controllers, and has a client. Its cache is limited to objects of this node; Secrets are read past it.
	Manager ctrl.Manager
	// Runtime stands for all container runtimes of the node; RuntimeOf finds a pod's,
	// NodeRuntime the one for pulls.
	Runtime cri.Runtime
	// Events takes events.
	Events events.EventRecorder
	// Clock is the time.
	Clock clock.WithTicker
	// MaxPulls is how many images are pulled at the same time.
	MaxPulls int
	// CredentialProviders configures the kubelet's credential provider plugins, empty for
	// none; CredentialFolder has the programs.
	CredentialProviders, CredentialFolder string
	// Metrics are the features'.
	Metrics *Metrics
}

// Worker is one feature of the daemon: it adds its controllers to the manager.
type Worker func(Host) error
