// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarset

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
)

// Options are the flags as far as they concern SidecarSets.
type Options struct {
	// Namespace is the operator's own, where new revisions are stored.
	Namespace string
}

// Setup makes the manager run the reconciler of SidecarSets.
func Setup(ctx context.Context, mgr ctrl.Manager, d workload.Dependencies, c *config.Config) error {
	r := New(d, Options{Namespace: c.Namespace})
	r.Injection = r.injectionOf(mgr, d, c, d.Hooks.Owner(Kind().Kind, r.hooksChanged))
	if err := workload.EachChange(mgr, d, Name+"-injection", Kind(), r.Injection.Refresh); err != nil {
		return fmt.Errorf("saying what SidecarSets inject: %w", err)
	}
	d.Metrics.SidecarSetInjection.Add(r.countPaths)
	d.Metrics.SidecarSetPods.Add(r.countPods)
	return r.Setup(ctx, mgr, r, workload.Watches{Pods: r.injected, Revisions: true})
}
