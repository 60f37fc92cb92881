// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"errors"
	"net/http"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/metadata"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kruise-operator/kruise-operator/controllers/rollout/admission"
	"github.com/kruise-operator/kruise-operator/controllers/rollout/braking"
	"github.com/kruise-operator/kruise-operator/controllers/rollout/convert"
	"github.com/kruise-operator/kruise-operator/internal/controller"
	"github.com/kruise-operator/kruise-operator/internal/engine/rollable"
	"github.com/kruise-operator/kruise-operator/internal/hooks"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/kube/routes"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// Value is the kind Rollout for the operator.
func Value() controller.Kind {
	return controller.Kind{
		Entry: kinds.Kind{
			Name: "Rollout", Plural: "rollouts", Group: "rollouts.kruise.io",
			Scope: kinds.Namespaced, Versions: []string{"v1alpha1", "v1beta1"}, Storage: "v1beta1",
			Controller: kinds.Optional, WorkersFlag: "rollout-workers", Workers: 10, Users: kinds.Edit,
		},
		Name:  Name,
		Setup: Setup,
		Admission: func(d admit.Deps) admit.Rules {
			return admission.Kind(admission.Others{Judge: routes.Judge{Reader: d.Client, Namespace: d.Namespace}}, announcing(announcer{client: d.Client, hooks: d.Hooks, servers: d.Servers, acts: d.Acts}))
		},
		Convert:  convert.Converter,
		Policies: Policies,
		Serve: func(d admit.Deps) map[string]http.Handler {
			return map[string]http.Handler{braking.Path: &ctrladmission.Webhook{Handler: ctrladmission.HandlerFunc(braking.Handle)}}
		},
	}
}

// Setup makes the manager run the reconciler of Rollouts.
func Setup(ctx context.Context, mgr ctrl.Manager, d workload.Dependencies, c *config.Config) error {
	r := New(d)
	r.routes.Namespace, r.appends = c.Namespace, c.Features.Enabled(features.AppendPodSelector)
	var err error
	if r.hooked, err = r.FollowHooks(mgr, d, Name, wanted); err != nil {
		return err
	}
	watches, err := metadata.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return err
	}
	if r.labeled, err = newLabeled(watches, mgr.GetRESTMapper(), d.Denied); err != nil {
		return err
	}
	if err := r.Setup(ctx, mgr, r, workload.Watches{OthersWriteStatus: true, Further: r.labeled.follow}); err != nil {
		return err
	}
	r.Metrics.Rollouts.Add(r.countStates)
	r.Metrics.RolloutsSince.Add(r.countSince)
	managed := workload.Managed(mgr.GetRESTMapper(), c)
	r.shares = managed(sharedKind())
	for _, row := range rollable.All() {
		if !row.Native && !managed(row.Kind) {
			continue
		}
		if r.rows = append(r.rows, row); row.Native {
			continue
		}
		if err := r.WatchLate(ctx, workload.Object(row.Kind), r.rolloutsOf); err != nil && !errors.Is(err, workload.ErrNotSynced) {
			return err
		}
	}
	return nil
}

// wanted is the one hook, while there is a Rollout that is not disabled.
func wanted(context.Context) func(*unstructured.Unstructured) (*hooks.Hook, error) {
	return func(stored *unstructured.Unstructured) (*hooks.Hook, error) {
		if disabled, _, _ := unstructured.NestedBool(stored.Object, "spec", "disabled"); disabled {
			return nil, nil
		}
		return Hook(), nil
	}
}
