// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package cloneset

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kruise-operator/kruise-operator/controllers/cloneset/plan"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
)

// Setup makes the manager run the reconciler of CloneSets.
func Setup(ctx context.Context, mgr ctrl.Manager, d workload.Dependencies, c *config.Config) error {
	return New(d, optionsOf(c)).SetupWithManager(ctx, mgr)
}

// optionsOf are the gates and flags as far as they concern CloneSets.
func optionsOf(c *config.Config) plan.Options {
	gates := c.Features
	options := plan.Options{
		PartitionRollback:       gates.Enabled(features.CloneSetPartitionRollback),
		PreparingUpdateAsUpdate: gates.Enabled(features.PreparingUpdateAsUpdate),
		ExcludePreparingDelete:  c.CloneSetExcludePreparingDelete,
		PreDownloadImages:       gates.Enabled(features.PreDownloadImageForInPlaceUpdate),
		InPlace:                 workload.InPlace(c),
	}
	options.InPlace.ShortHash = gates.Enabled(features.CloneSetShortHash)
	options.InPlace.ClaimTemplates = gates.Enabled(features.RecreatePodWhenChangeVCTInCloneSet)
	return options
}
