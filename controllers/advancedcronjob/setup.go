// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package advancedcronjob

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/advancedcronjob/plan"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
)

// Setup makes the manager run the reconciler of AdvancedCronJobs.
func Setup(ctx context.Context, mgr ctrl.Manager, d workload.Dependencies, c *config.Config) error {
	return New(d, plan.Options{Managed: managed(mgr.GetRESTMapper(), c.Enabled)}).SetupWithManager(ctx, mgr)
}

// managed says whether somebody carries out objects of a kind: one of ours if it is enabled and the API server serves it, and any other one,
// such as a Job, in any case. A definition that is installed later restarts the operator.
func managed(mapper meta.RESTMapper, enabled func(string) bool) func(schema.GroupVersionKind) bool {
	return func(kind schema.GroupVersionKind) bool {
		if kind.Group != appsv1beta1.GroupVersion().Group {
			return true
		}
		if !enabled(kind.Kind) {
			return false
		}
		_, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		return !meta.IsNoMatchError(err)
	}
}
