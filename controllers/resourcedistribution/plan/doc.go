// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan decides what a ResourceDistribution writes: which namespaces get a copy, and what is to be done about each copy there is.
//
// It is pure: no client, clock, randomness or log. Read it in the order spec.go, copy.go, plan.go, status.go.
package plan
