// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/kruise-operator/kruise-operator/internal/platform/config"
)

// startFunc is a manager.
type startFunc func(context.Context) error

func (f startFunc) Start(ctx context.Context) error { return f(ctx) }

// A manager that does not end must not be followed by another one: the caller learns of it and exits.
func TestRunToEnd(t *testing.T) {
	broken := errors.New("the lease was lost")
	never := make(chan struct{})
	defer close(never)
	for name, tc := range map[string]struct {
		start startFunc
		want  string
	}{
		"it ends when it is told to": {start: func(ctx context.Context) error { <-ctx.Done(); return nil }},
		"it fails":                   {start: func(context.Context) error { return broken }, want: broken.Error()},
		"it fails while it ends":     {start: func(ctx context.Context) error { <-ctx.Done(); return broken }, want: broken.Error()},
		"it does not end":            {start: func(context.Context) error { <-never; return nil }, want: "has not ended within 50ms"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			if name != "it fails" {
				cancel()
			}
			defer cancel()
			err := runToEnd(ctx, tc.start, 50*time.Millisecond)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestMetricsOfDisabledControllersAreNotShown(t *testing.T) {
	registry := prometheus.NewRegistry()
	for _, name := range []string{"reconciles", "depth", "others"} {
		label := map[string]string{"reconciles": "controller", "depth": "name", "others": "other"}[name]
		gauge := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: name}, []string{label})
		registry.MustRegister(gauge)
		gauge.WithLabelValues("off-controller").Set(1)
		if name == "reconciles" {
			gauge.WithLabelValues("on-controller").Set(1)
		}
	}
	families, err := without(registry, sets.New("off-controller")).Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, family := range families {
		got[family.GetName()] = len(family.GetMetric())
	}
	if diff := cmp.Diff(map[string]int{"reconciles": 1, "others": 1}, got); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}

// The port of a server of this process is free until that starts, which would then fail at every start.
func TestMetricsAreNotServedWhereTheProcessServesOtherThings(t *testing.T) {
	for address, taken := range map[string]bool{
		"127.0.0.1:0": false, "0": false, ":18081": true, "127.0.0.1:18081": true, "127.0.0.1:18082": true, "127.0.0.1:019443": true,
		"127.0.0.2:18082": false,
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
