// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"context"

	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kruise-operator/kruise-operator/internal/hooks"
	"github.com/kruise-operator/kruise-operator/internal/kube/apiservers"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
	"github.com/kruise-operator/kruise-operator/internal/platform/metrics"
)

// Deps are admission's dependencies.
type Deps struct {
	// Client asks the API server directly; nothing it reads comes from a cache. All it writes are dry runs, but for the pods that
	// PodUnavailableBudgets record.
	Client client.Client
	// Namespace is the operator's own.
	Namespace string
	// ClientCA is the authority of clients allowed to ask for admission, in PEM; empty:
	// anybody may.
	ClientCA string
	// Gates are the feature gates; each kind takes its own.
	Gates features.Set
	// Enabled is true for managed kinds; nil: all. Requests for others pass unchanged. They
	// still come under the Operator Lifecycle Manager, which keeps their webhook entries.
	Enabled func(kind string) bool
	// Hooks and Servers register the parts a creation's answer depends on, and show them in
	// force. Nil: left to controllers.
	Hooks   *hooks.Registrar
	Servers *apiservers.Servers
	// KnownRevision is true if hooks refer to a revision: made-up paths then read nothing.
	// Nil: not known.
	KnownRevision func(ctx context.Context, name string) bool
	// Recorder takes events about requests for others' objects, Metrics count them. Nil: nobody does.
	Recorder events.EventRecorder
	Metrics  *metrics.Metrics
	// Acts is true if this operator acts on the objects, not another; nil: it does.
	Acts func() bool
}

// Rules are a Kind of whatever type.
type Rules interface {
	// MutatePath is where the API server calls the Defaulter, ValidatePath the Validator.
	MutatePath() string
	ValidatePath() string
	Defaulter() ctrladmission.Handler
	Validator(Cluster) ctrladmission.Handler
}
