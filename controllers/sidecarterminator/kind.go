// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarterminator

import (
	"github.com/kruise-operator/kruise-operator/internal/controller"
	"github.com/kruise-operator/kruise-operator/internal/engine/jobsidecar"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
)

// Value describes the sidecar terminator. On nodes it works by ContainerRecreateRequests for the operator.
func Value() controller.Kind {
	return controller.Kind{
		Name: Name, Requires: "ContainerRecreateRequest", Setup: Setup, Keeps: jobsidecar.HasSidecars,
		On: func(c *config.Config) bool { return c.Features.Enabled(features.SidecarTerminator) },
	}
}
