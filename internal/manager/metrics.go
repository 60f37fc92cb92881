// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	ctrlmanager "sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/internal/platform/operands"
)

// metricsOptions say how metrics are served.
func metricsOptions(c *config.Config) metricsserver.Options {
	options := metricsserver.Options{BindAddress: c.MetricsAddress}
	if c.MetricsSecure {
		options.SecureServing, options.FilterProvider = true, allowedToScrape
	}
	return options
}

// leading sets the metric of the leading replica. Runnables run only on the leader unless they say otherwise.
func leading(leads prometheus.Gauge) ctrlmanager.RunnableFunc {
	return func(ctx context.Context) error {
		leads.Set(1)
		<-ctx.Done()
		leads.Set(0)
		return nil
	}
}

// unusable explains why metrics cannot be served at their address: a wrong one in the Kruise object must not
// stop the operator. This process's other ports still look free then.
func unusable(ctx context.Context, c *config.Config) error {
	if c.MetricsAddress == "0" {
		return nil
	}
	port, _ := operands.PortOf(c.MetricsAddress) // 0: any that is free
	for flag, address := range map[string]string{
		"--health-probe-bind-address": c.ProbeAddress, "--pprof-bind-address": c.ProfilingAddress, "--webhook-port": net.JoinHostPort("", strconv.Itoa(c.WebhookPort)),
	} {
		if taken, _ := operands.PortOf(address); taken == port && port > 0 {
			return fmt.Errorf("the port of %q is taken by %s", c.MetricsAddress, flag)
		}
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.MetricsAddress)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	return listener.Close()
}
