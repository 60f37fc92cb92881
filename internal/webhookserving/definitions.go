// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package webhookserving

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// definitionPath is where the API server asks about updates of converted CRDs, where config/manifests has it ask.
const definitionPath = "/mutate-apiextensions-k8s-io-v1-customresourcedefinition"

// inFlight answers with a CRD as it should be stored: it corrects the conversion while the CRD is being written.
//
// The Operator Lifecycle Manager begins an upgrade by overwriting the CRDs with the next bundle's, without an
// authority in their conversion. Until Reconcile repaired it, conversion would fail for a watch event, two reads
// and a write. With this webhook the stored conversion never changes.
//
// Nothing depends on it: when it fails, or no replica answers, the CRD is admitted unchanged, and Reconcile repairs it.
func (s *Serving) inFlight(ctx context.Context, req admission.Request) admission.Response {
	passed := admission.Allowed("")
	authority := s.authority.Load()
	ours := slices.ContainsFunc(s.targets(), func(t target) bool { return t.kind == "CustomResourceDefinition" && t.name == req.Name })
	if authority == nil || !ours {
		return passed
	}
	crd := &unstructured.Unstructured{}
	if err := crd.UnmarshalJSON(req.Object.Raw); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Letting a CRD pass that cannot be decoded", "name", req.Name)
		return passed
	}
	changed, err := rightConversion(s, crd, *authority)
	if err == nil && !changed {
		return passed
	}
	content, encodeErr := crd.MarshalJSON()
	if err := errors.Join(err, encodeErr); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Letting a CRD pass whose conversion cannot be put right", "name", req.Name)
		return passed
	}
	ctrl.LoggerFrom(ctx).Info("Pointed the API server to the operator in flight", "in", "CustomResourceDefinition", "name", req.Name)
	return admission.PatchResponseFromRaw(req.Object.Raw, content)
}
