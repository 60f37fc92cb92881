// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package braking answers the API server about updates of workloads that have a Rollout, where no policy does.
package braking

import (
	"bytes"
	"context"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kruise-operator/kruise-operator/internal/conversion/wire"
	"github.com/kruise-operator/kruise-operator/internal/engine/brake"
)

// Path is where the API server calls.
const Path = "/brake-workloads"

// Handle holds an update.
func Handle(_ context.Context, req ctrladmission.Request) ctrladmission.Response {
	if req.Operation != admissionv1.Update || req.SubResource != "" || req.Resource.Group != "apps" {
		return ctrladmission.Allowed("")
	}
	if errs := wire.TooLargeWorkload(req.Object.Raw, req.OldObject.Raw); len(errs) > 0 {
		return ctrladmission.Denied(errs.ToAggregate().Error())
	}
	held, err := brake.Update(req.Resource.Resource, req.OldObject.Raw, req.Object.Raw)
	if err != nil {
		return ctrladmission.Errored(http.StatusBadRequest, err)
	}
	if bytes.Equal(held, req.Object.Raw) {
		return ctrladmission.Allowed("")
	}
	return ctrladmission.PatchResponseFromRaw(req.Object.Raw, held)
}
