// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package operatorconfig

import (
	"context"
	"encoding/json"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	operatorv1alpha1 "github.com/kruise-operator/kruise-operator/api/operator/v1alpha1"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
)

// +kubebuilder:webhook:path=/validate-operator-kruise-io-v1alpha1-kruise,mutating=false,groups=operator.kruise.io,resources=kruises,verbs=create;update,versions=v1alpha1,name=warn.kruises.operator.kruise.io,failurePolicy=ignore,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=5,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system

// warningPath is where the API server asks.
const warningPath = "/validate-operator-kruise-io-v1alpha1-kruise"

// ignoredManager warns about spec.manager: it has no effect.
const ignoredManager = "spec.manager: deprecated, it has no effect: say where the operator runs by kustomize, the values of the chart, or config in the Subscription"

// Ignored names the fields of a spec without effect.
func Ignored(spec *operatorv1alpha1.KruiseSpec) []string {
	if spec.Manager == nil {
		return nil
	}
	return []string{ignoredManager}
}

// warn warns about fields without effect and refuses nothing: this object must stay writable whatever happens to the operator.
func warn(_ context.Context, request admission.Request) admission.Response {
	var object struct {
		Spec struct {
			Manager      json.RawMessage
			FeatureGates []operatorv1alpha1.FeatureGate
		}
	}
	if err := json.Unmarshal(request.Object.Raw, &object); err != nil {
		return admission.Allowed("")
	}
	var warnings []string
	if len(object.Spec.Manager) > 0 {
		warnings = append(warnings, ignoredManager)
	}
	for i, gate := range object.Spec.FeatureGates {
		info, _ := features.Of(features.Gate(gate.Name))
		if why := info.Ignored + info.Missing; gate.State == operatorv1alpha1.Enabled && why != "" {
			warnings = append(warnings, fmt.Sprintf("spec.featureGates[%d]: %s: %s", i, gate.Name, why))
		}
	}
	return admission.Allowed("").WithWarnings(warnings...)
}
