// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"bytes"
	"context"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kruise-operator/kruise-operator/internal/engine/brake"
)

// Braked holds updates of workloads that have a Rollout, before another handler sees them.
func Braked(next ctrladmission.Handler) ctrladmission.HandlerFunc {
	return func(ctx context.Context, req ctrladmission.Request) ctrladmission.Response {
		if req.Operation != admissionv1.Update || req.SubResource != "" {
			return next.Handle(ctx, req)
		}
		held, err := brake.Update(req.OldObject.Raw, req.Object.Raw)
		if err != nil {
			return ctrladmission.Errored(http.StatusBadRequest, err)
		}
		if bytes.Equal(held, req.Object.Raw) {
			return next.Handle(ctx, req)
		}
		hold := ctrladmission.PatchResponseFromRaw(req.Object.Raw, held)
		req.Object.Raw = held
		response := next.Handle(ctx, req)
		if response.Allowed {
			response.Patches = append(hold.Patches, response.Patches...)
		}
		return response
	}
}
