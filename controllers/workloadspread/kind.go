// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workloadspread

import (
	"context"
	"net/http"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kruise-operator/kruise-operator/controllers/workloadspread/admission"
	"github.com/kruise-operator/kruise-operator/controllers/workloadspread/convert"
	"github.com/kruise-operator/kruise-operator/controllers/workloadspread/podspread"
	"github.com/kruise-operator/kruise-operator/internal/controller"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/kube/listed"
	"github.com/kruise-operator/kruise-operator/internal/kube/templatecheck"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
	"github.com/kruise-operator/kruise-operator/internal/webhook/newpods"
)

// Value is the kind WorkloadSpread for the operator.
func Value() controller.Kind {
	return controller.Kind{
		// Its pods are those of others, found by the annotation with their subset.
		Entry: kinds.Kind{
			Name: "WorkloadSpread", Plural: "workloadspreads", Group: "apps.kruise.io",
			Scope: kinds.Namespaced, Versions: []string{"v1alpha1", "v1beta1"}, Storage: "v1beta1",
			Controller: kinds.Optional, WorkersFlag: "workloadspread-workers", Users: kinds.Edit,
			Needs: kinds.Needs{PodFacts: true, ReadsNodes: true},
		},
		Name:  Name,
		On:    func(c *config.Config) bool { return c.Features.Enabled(features.WorkloadSpread) },
		Setup: Setup,
		Admission: func(d admit.Deps) admit.Rules {
			return admission.Kind(d.Gates, admission.Others{Reader: d.Client, Namespace: d.Namespace, Checker: templatecheck.Checker{Client: d.Client}}, announcing(d))
		},
		Convert: convert.Converter,
		Serve: func(d admit.Deps) map[string]http.Handler {
			spreads := &podspread.Handler{Client: d.Client, Namespace: d.Namespace}
			return map[string]http.Handler{podspread.Path: newpods.Handler{Path: podspread.Path, Change: spreads.Change}}
		},
	}
}

// announcing registers the hook of a new WorkloadSpread before it is stored, on every replica. It returns warnings.
func announcing(d admit.Deps) func(context.Context, *unstructured.Unstructured) []string {
	if d.Hooks == nil {
		return nil
	}
	return func(ctx context.Context, object *unstructured.Unstructured) []string {
		if d.Acts != nil && !d.Acts() {
			return nil
		}
		hook, err := hookOf(object, listed.Spreads(ctx, d.Client, d.Namespace))
		if hook != nil {
			err = d.Hooks.Announce(ctx, hook)
		}
		if err != nil {
			return []string{"spec: pods that are created within the next seconds may get no subset: " + err.Error()}
		}
		return nil
	}
}

// Setup makes the manager run the reconciler of WorkloadSpreads.
func Setup(ctx context.Context, mgr ctrl.Manager, d workload.Dependencies, c *config.Config) error {
	r := New(d)
	r.namespace = c.Namespace
	r.off = !c.Features.Enabled(features.WorkloadSpread)
	var err error
	if r.hooked, err = r.FollowHooks(mgr, d, Name, r.wanted); err != nil {
		return err
	}
	return r.Setup(ctx, mgr, r, workload.Watches{OthersWriteStatus: true, Pods: r.spreadsOf, PodChanged: changed})
}
