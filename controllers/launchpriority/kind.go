// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package launchpriority

import (
	"net/http"

	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kruise-operator/kruise-operator/controllers/launchpriority/podlaunch"
	"github.com/kruise-operator/kruise-operator/internal/controller"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// Value describes launch priorities for the operator.
func Value() controller.Kind {
	return controller.Kind{
		Name: Name, On: ordersContainers, Setup: Setup, Keeps: NeedsWholePod, Policies: Policies, Hooks: registered,
		Serve: func(admit.Deps) map[string]http.Handler {
			return map[string]http.Handler{podlaunch.Path: &ctrladmission.Webhook{Handler: podlaunch.Handler{}}}
		},
	}
}

// ordersContainers: there can be pods with ordered containers, all of them or managed kinds'.
func ordersContainers(c *config.Config) bool {
	if !c.Features.Enabled(features.PodWebhook) {
		return false
	}
	return c.Features.Enabled(features.ContainerLaunchPriority) ||
		len(c.Table.Where(func(k kinds.Kind) bool { return k.Needs.ControlsPods && c.Enabled(k.Name) })) > 0
}
