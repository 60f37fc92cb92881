// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podunavailablebudget

import (
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/controllers/podunavailablebudget/admission"
	"github.com/kruise-operator/kruise-operator/controllers/podunavailablebudget/convert"
	"github.com/kruise-operator/kruise-operator/controllers/podunavailablebudget/plan"
	"github.com/kruise-operator/kruise-operator/controllers/podunavailablebudget/podguard"
	"github.com/kruise-operator/kruise-operator/internal/controller"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/kube/budgets"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// Value is the kind PodUnavailableBudget for the operator.
func Value() controller.Kind {
	return controller.Kind{
		// Its pods are those of others, found by its selector or by its target.
		Entry: kinds.Kind{
			Name: plan.Kind().Kind, Plural: "podunavailablebudgets", Group: plan.Kind().Group,
			Scope: kinds.Namespaced, Versions: []string{"v1alpha1", "v1beta1"}, Storage: "v1beta1",
			Controller: kinds.Optional, WorkersFlag: "podunavailablebudget-workers", Users: kinds.Edit,
			Needs: kinds.Needs{PodFacts: true},
		},
		Name:      Name,
		Setup:     Setup,
		Keeps:     NeedsWholePod,
		Admission: func(d admit.Deps) admit.Rules { return admission.Kind(d.Gates, d.Client) },
		Convert:   convert.Converter,
		Serve:     serve,
	}
}

// NeedsWholePod is true for pods updated in place: only images say how far that has come.
func NeedsWholePod(pod *corev1.Pod) bool {
	states := []string{shared.AnnotationInPlaceState, shared.AnnotationInPlaceStateLegacy, shared.AnnotationSidecarSetInPlaceState}
	return slices.ContainsFunc(states, func(key string) bool { return pod.Annotations[key] != "" })
}

// serve answers about pods, on every replica.
func serve(d admit.Deps) map[string]http.Handler {
	ledger := &budgets.Ledger{Live: d.Client, Client: d.Client, Clock: clock.RealClock{}}
	handler := func(ignores bool) http.Handler {
		h := &podguard.Handler{
			Reader: d.Client, Ledger: ledger, Gates: GatesOf(d.Gates), Ignores: ignores, Recorder: d.Recorder,
			On: func() bool { return d.Enabled == nil || d.Enabled(plan.Kind().Kind) },
		}
		if d.Metrics != nil {
			h.Denied = func(operation string) { d.Metrics.BudgetDenials.WithLabelValues(operation).Inc() }
		}
		return &ctrladmission.Webhook{Handler: h}
	}
	return map[string]http.Handler{podguard.FailPath: handler(false), podguard.IgnorePath: handler(true)}
}
