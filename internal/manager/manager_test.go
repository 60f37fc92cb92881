// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"testing"

	"github.com/kruise-operator/kruise-operator/internal/platform/config"
)

// The port of the process's own server is free until it starts, and it would then fail at every start.
func TestMetricsAreNotServedWhereTheProcessServesOtherThings(t *testing.T) {
	for address, taken := range map[string]bool{
		"127.0.0.1:0": false, "0": false, ":18081": true, "127.0.0.1:18081": true, "127.0.0.1:18082": true, "127.0.0.1:019443": true,
		"127.0.0.2:18083": false,
	} {
		c := &config.Config{MetricsAddress: address, ProbeAddress: ":18081", ProfilingAddress: "127.0.0.1:18082", WebhookPort: 19443}
		if err := unusable(t.Context(), c); (err != nil) != taken {
			t.Errorf("metrics at %s: %v", address, err)
		}
	}
	c := &config.Config{MetricsAddress: "127.0.0.1:0", ProbeAddress: "0", ProfilingAddress: "0"}
	if err := unusable(t.Context(), c); err != nil {
		t.Errorf("nothing else is served: %v", err)
	}
}
