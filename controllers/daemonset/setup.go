// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kruise-operator/kruise-operator/controllers/daemonset/plan"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
)

// Setup makes the manager run the reconciler of DaemonSets.
func Setup(ctx context.Context, mgr ctrl.Manager, d workload.Dependencies, c *config.Config) error {
	return New(d, optionsOf(c)).SetupWithManager(ctx, mgr)
}

// optionsOf are the gates and flags as far as they concern DaemonSets.
func optionsOf(c *config.Config) plan.Options {
	return plan.Options{
		AssignNodes:          !c.AssignPodsByScheduler,
		PruneIneligibleNodes: c.Features.Enabled(features.DaemonSetPruneIneligibleNodes),
		PreDownloadImages:    c.Features.Enabled(features.PreDownloadImageForDaemonSetUpdate),
		InPlace:              workload.InPlace(c),
	}
}
