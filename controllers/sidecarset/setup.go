// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarset

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
)

// Options are the flags as far as they concern SidecarSets.
type Options struct {
	// Namespace is the operator's own, where new revisions are stored.
	Namespace string
}

// Setup makes the manager run the reconciler of SidecarSets.
func Setup(ctx context.Context, mgr ctrl.Manager, d workload.Dependencies, c *config.Config) error {
	return New(d, Options{Namespace: c.Namespace}).SetupWithManager(ctx, mgr)
}
