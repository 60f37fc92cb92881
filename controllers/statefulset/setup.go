// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package statefulset

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kruise-operator/kruise-operator/controllers/statefulset/plan"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
)

// Setup makes the manager run the reconciler of StatefulSets.
func Setup(ctx context.Context, mgr ctrl.Manager, d workload.Dependencies, c *config.Config) error {
	return New(d, optionsOf(c)).SetupWithManager(ctx, mgr)
}

// optionsOf are the gates as far as they concern StatefulSets.
func optionsOf(c *config.Config) plan.Options {
	gates := c.Features
	return plan.Options{
		StartOrdinal:      gates.Enabled(features.StatefulSetStartOrdinal),
		AutoDeletePVC:     gates.Enabled(features.StatefulSetAutoDeletePVC),
		AutoResizePVC:     gates.Enabled(features.StatefulSetAutoResizePVC),
		PodIndexLabel:     gates.Enabled(features.PodIndexLabel),
		PreDownloadImages: gates.Enabled(features.PreDownloadImageForInPlaceUpdate),
		InPlace:           workload.InPlace(c),
	}
}
