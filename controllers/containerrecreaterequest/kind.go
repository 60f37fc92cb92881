// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package containerrecreaterequest

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kruise-operator/kruise-operator/controllers/containerrecreaterequest/admission"
	"github.com/kruise-operator/kruise-operator/controllers/containerrecreaterequest/convert"
	"github.com/kruise-operator/kruise-operator/controllers/containerrecreaterequest/plan"
	"github.com/kruise-operator/kruise-operator/internal/controller"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// Value is the kind ContainerRecreateRequest for the operator.
func Value() controller.Kind {
	return controller.Kind{
		// Its pods belong to any controller; the cached identity is enough for most.
		Entry: kinds.Kind{
			Name: "ContainerRecreateRequest", Plural: "containerrecreaterequests", Group: "apps.kruise.io",
			Scope: kinds.Namespaced, Versions: []string{"v1alpha1", "v1beta1"}, Storage: "v1beta1",
			Controller: kinds.Optional, WorkersFlag: "crr-workers", Users: kinds.Edit, NodeDaemon: true,
		},
		Name:  Name,
		Setup: Setup,
		Admission: func(d admit.Deps) admit.Rules {
			return admission.Kind(d.Gates.Enabled(features.KruiseDaemon), admission.Cluster{Reader: d.Client})
		},
		Convert: convert.Converter,
	}
}

// Setup makes the manager run the reconciler of ContainerRecreateRequests.
func Setup(ctx context.Context, mgr ctrl.Manager, d workload.Dependencies, _ *config.Config) error {
	r := &Reconciler{Base: workload.New(Name, plan.Kind(), d)}
	if err := r.index(ctx); err != nil {
		return err
	}
	return r.Setup(ctx, mgr, r, workload.Watches{OthersWriteStatus: true, Pods: r.requestsFor})
}
