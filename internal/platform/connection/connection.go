// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package connection says how the programs reach the API server.
package connection

import (
	"fmt"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Config returns how the API server is reached, by --kubeconfig, $KUBECONFIG, the service account of the pod, or ~/.kube/config. The audit log names
// userAgent. Without any of these it returns an error.
//
// Answers are not asked for compressed. Kubernetes 1.37 compresses each event of a watch by itself, which costs both sides CPU and saves little on the
// way between them (docs/adr/0016-cost-at-size.md).
func Config(userAgent string) (*rest.Config, error) {
	server, err := ctrl.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the API server: %w", err)
	}
	server.UserAgent, server.DisableCompression = userAgent, true
	return server, nil
}
