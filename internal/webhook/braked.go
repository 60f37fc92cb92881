// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"context"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kruise-operator/kruise-operator/internal/engine/brake"
	"github.com/kruise-operator/kruise-operator/internal/engine/rollable"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// braked holds updates of workloads of ours that have a Rollout, before they get defaults.
func braked(deps admit.Deps, kind kinds.Kind, defaulter ctrladmission.Handler) ctrladmission.Handler {
	row, known := rollable.Of(kind.Stored().GroupVersion().String(), kind.Name)
	if !known || deps.Enabled != nil && !deps.Enabled("Rollout") {
		return defaulter
	}
	return ctrladmission.HandlerFunc(func(ctx context.Context, req ctrladmission.Request) ctrladmission.Response {
		if req.Operation != admissionv1.Update || req.SubResource != "" {
			return defaulter.Handle(ctx, req)
		}
		held, err := brake.Update(brake.Resource(row.Kind.GroupKind()), req.OldObject.Raw, req.Object.Raw)
		if err != nil {
			return ctrladmission.Errored(http.StatusBadRequest, err)
		}
		if bytes.Equal(held, req.Object.Raw) {
			return defaulter.Handle(ctx, req)
		}
		hold := ctrladmission.PatchResponseFromRaw(req.Object.Raw, held)
		req.Object.Raw = held
		response := defaulter.Handle(ctx, req)
		if response.Allowed {
			response.Patches = append(hold.Patches, response.Patches...)
		}
		return response
	})
}
