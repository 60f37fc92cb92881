// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package shared holds the wire names and types that several kinds of the apps.kruise.io group use: labels, annotations,
// readiness gates, lifecycle hooks, the state of in-place updates, and the reasons of conditions and events.
//
// Everything here is a contract with objects that already exist in clusters. Names and JSON shapes are those of
// OpenKruise; names under operator.kruise.io/ are our own.
// +kubebuilder:object:generate=true
package shared
