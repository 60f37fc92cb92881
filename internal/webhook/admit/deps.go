// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kruise-operator/kruise-operator/internal/hooks"
	"github.com/kruise-operator/kruise-operator/internal/kube/apiservers"
	"github.com/kruise-operator/kruise-operator/internal/kube/templatecheck"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
)

// Deps is what admission needs.
type Deps struct {
	// Client asks the API server directly; nothing it reads comes from a cache, and all it writes are dry runs.
	Client client.Client
	// Accepted are templates that the server would take, shared with the controllers. Nil remembers none.
	Accepted *templatecheck.Accepted
	// Namespace is the operator's own.
	Namespace string
	// ClientCA is the authority of the clients that may ask for admission, in PEM; empty: anybody may.
	ClientCA string
	// Gates are the feature gates; each kind takes its own.
	Gates features.Set
	// Enabled says whether a kind is managed; nil: all are. Requests for other kinds are let through unchanged. They still come where the Operator
	// Lifecycle Manager owns the webhook configurations, because it keeps the entries of these kinds.
	Enabled func(kind string) bool
	// Hooks and Servers register what has to be in force when a creation is answered, and show that it is. Nil: that is left to controllers.
	Hooks   *hooks.Registrar
	Servers *apiservers.Servers
	// KnownRevision says whether hooks refer to a revision, so that nothing is read for a path that somebody has made up. Nil: not known.
	KnownRevision func(ctx context.Context, name string) bool
	// Acts says whether this operator acts, and not another one on the same objects; nil: it does.
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
