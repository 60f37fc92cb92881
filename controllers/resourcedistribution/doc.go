// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package resourcedistribution manages ResourceDistributions: a ConfigMap or a Secret that is copied to many namespaces.
//
// Promises:
//
//   - A copy is written once: by a server-side apply that meets no object of somebody else. Nothing is written at rest.
//   - Changes of a copy's content are undone. Its other labels, annotations and owners stay.
//   - Objects of others are left alone, and named in a condition.
//   - A copy goes with its ResourceDistribution, or when its namespace is no target any more.
//   - ConfigMaps are watched by their metadata, and only those with our label. Secrets are never listed or watched: the metadata of each copy is
//     read by name, about once a minute, in the namespaces that let us.
//
// Triggers of a pass: a changed distribution; a namespace that it chooses or has chosen; a copy that changes; the clock, for Secrets and refusals.
//
// Read it in the order of a pass: controller.go; observe.go and lookup.go, the reads; the pure package plan, the decisions.
package resourcedistribution
