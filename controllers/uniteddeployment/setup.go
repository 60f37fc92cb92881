// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package uniteddeployment

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
)

// Setup makes the manager run the reconciler of UnitedDeployments.
func Setup(ctx context.Context, mgr ctrl.Manager, d workload.Dependencies, c *config.Config) error {
	return New(d, disabled(c)).SetupWithManager(ctx, mgr)
}

// disabled are the kinds that the operator could reconcile and that are switched off.
func disabled(c *config.Config) map[schema.GroupKind]bool {
	off := map[schema.GroupKind]bool{}
	for _, kind := range kinds.Switchable() {
		if !c.Enabled(kind.Name) {
			off[kind.GroupKind()] = true
		}
	}
	return off
}
