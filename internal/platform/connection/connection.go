// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package connection says how the programs reach the API server.
package connection

import (
	"fmt"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Config returns the way to the API server, by --kubeconfig, $KUBECONFIG, the pod's service account, or
// ~/.kube/config. userAgent is for the audit log. Without any of these it returns an error.
//
// Answers are uncompressed. Kubernetes 1.37 compresses each watch event by itself, for much CPU on both sides
// and little saving (docs/adr/0016-cost-at-size.md).
func Config(userAgent string) (*rest.Config, error) {
	server, err := ctrl.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the API server: %w", err)
	}
	server.UserAgent, server.DisableCompression = userAgent, true
	return server, nil
}
