// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package braking answers the API server about updates of workloads that have a Rollout, where no policy does.
package braking

import (
	"context"

	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kruise-operator/kruise-operator/internal/conversion/wire"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// Path is where the API server calls.
const Path = "/brake-workloads"

// Handle holds an update.
func Handle(ctx context.Context, req ctrladmission.Request) ctrladmission.Response {
	if errs := wire.TooLargeWorkload(req.Object.Raw, req.OldObject.Raw); len(errs) > 0 {
		return ctrladmission.Denied(errs.ToAggregate().Error())
	}
	allow := func(context.Context, ctrladmission.Request) ctrladmission.Response { return ctrladmission.Allowed("") }
	return admit.Braked(ctrladmission.HandlerFunc(allow))(ctx, req)
}
