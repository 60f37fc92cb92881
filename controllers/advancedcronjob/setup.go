// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package advancedcronjob

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kruise-operator/kruise-operator/controllers/advancedcronjob/plan"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
)

// Setup makes the manager run the reconciler of AdvancedCronJobs.
func Setup(ctx context.Context, mgr ctrl.Manager, d workload.Dependencies, c *config.Config) error {
	return New(d, plan.Options{Managed: workload.Managed(mgr.GetRESTMapper(), c.Enabled)}).SetupWithManager(ctx, mgr)
}
