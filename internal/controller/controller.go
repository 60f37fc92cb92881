// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package controller says what the operator needs to know of a kind: each folder below controllers exports one value of it.
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

// Kind is everything that the operator needs to know of a kind, or of a feature that has no kind of its own. What is nil or empty it does not have.
type Kind struct {
	// Entry is the kind as data; empty for a feature without a kind.
	Entry kinds.Kind
	// Name is the controller's, and the reportingController of its events.
	Name string
	// Setup sets up its reconciler.
	Setup Setup
	// CleanUp sets up, while the kind is off, what removes the objects that would stay in effect without it.
	CleanUp Setup
	// Admission are the defaults and checks of its own objects.
	Admission func(admit.Deps) admit.Rules
	// Convert converts between its versions.
	Convert func() conversion.Converter
	// Policies are those that it may ever have registered, whether it is on or off: what it left behind is found by them.
	Policies func(*config.Config) ([]*hooks.Policy, error)
	// Hooks are on requests for objects of others, and do not depend on objects of the kind. Those that do its reconciler wants.
	Hooks func(*config.Config) []*hooks.Hook
	// Serve answers the calls of hooks, by path, on every replica.
	Serve func(admit.Deps) map[string]http.Handler

	// On says whether gates and flags ask for what it does; nil: they do. A feature is set up only then. A kind always is, and says that it is off.
	On func(*config.Config) bool
	// Requires is the kind without which a feature does nothing.
	Requires string
	// Keeps says which pods the cache keeps whole for a feature while it is on.
	Keeps func(*corev1.Pod) bool
}

// IsFeature says that it has no kind of its own.
func (k Kind) IsFeature() bool { return k.Entry.Name == "" }

// IsOn says whether gates and flags ask for what it does.
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
