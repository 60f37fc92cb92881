// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import "github.com/kruise-operator/kruise-operator/internal/takeover"

// What OpenKruise calls its own things, as its chart installs them.
const (
	// managerName is the Deployment of its manager, daemonName the DaemonSet of its node daemon.
	managerName = "kruise-controller-manager"
	daemonName  = takeover.DaemonName
	// serviceName is the Service that its webhooks and conversions are called through.
	serviceName = "kruise-webhook-service"
	// The webhook configurations.
	mutatingName   = "kruise-mutating-webhook-configuration"
	validatingName = "kruise-validating-webhook-configuration"
)
