// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package controller describes kinds to the operator: each folder below controllers exports one value.
package controller

import (
	"context"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kruise-operator/kruise-operator/internal/conversion"
	"github.com/kruise-operator/kruise-operator/internal/hooks"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// Setup makes the manager run a controller.
type Setup func(context.Context, ctrl.Manager, workload.Dependencies, *config.Config) error

// Kind describes a kind, or a feature without one. Nil or empty fields are absent.
type Kind struct {
	// Entry is the kind as data; empty for a feature without a kind.
	Entry kinds.Kind
	// Name is the controller's, and the reportingController of its events.
	Name string
	// Setup sets up its reconciler.
	Setup Setup
	// CleanUp, set up while the kind is off, removes objects with a lasting effect.
	CleanUp Setup
	// Admission are the defaults and checks of its own objects.
	Admission func(admit.Deps) admit.Rules
	// Convert converts between its versions.
	Convert func() conversion.Converter
	// Policies are all it may ever have registered, on or off: leftovers are found by them.
	Policies func(*config.Config) ([]*hooks.Policy, error)
	// Hooks are on requests for others' objects, whatever objects of the kind exist. Its reconciler wants the dependent ones.
	Hooks func(*config.Config) []*hooks.Hook
	// Serve answers the calls of hooks, by path, on every replica.
	Serve func(admit.Deps) map[string]http.Handler

	// On: gates and flags ask for it; nil: they do. A feature is set up only then; a kind always is, and reports being off.
	On func(*config.Config) bool
	// Requires is a kind the feature needs to do anything.
	Requires string
	// Keeps selects the pods the cache keeps whole for it while it is on.
	Keeps func(*corev1.Pod) bool
}

// IsFeature reports if it has no kind of its own.
func (k Kind) IsFeature() bool { return k.Entry.Name == "" }

// IsOn reports if gates and flags ask for it.
func (k Kind) IsOn(c *config.Config) bool { return k.On == nil || k.On(c) }

// Table is the kinds among values.
func Table(values []Kind) kinds.Table {
	var table kinds.Table
	for _, value := range values {
		if value.IsFeature() {
			continue
		}
		entry := value.Entry
		entry.Admission, entry.Converted = value.Admission != nil, value.Convert != nil
		table = append(table, entry)
	}
	return table
}
