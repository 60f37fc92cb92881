// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package imagelistpulljob

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kruise-operator/kruise-operator/controllers/imagelistpulljob/plan"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
)

// Setup makes the manager run the reconciler of ImageListPullJobs.
func Setup(ctx context.Context, mgr ctrl.Manager, d workload.Dependencies, c *config.Config) error {
	managed := workload.Managed(mgr.GetRESTMapper(), c.Enabled)
	return New(d, plan.Options{Managed: managed(plan.KindImagePullJob())}).SetupWithManager(ctx, mgr)
}
