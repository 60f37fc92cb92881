// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package cloneset manages CloneSets: a number of interchangeable pods, each under a random
// instance ID, shared with its volume claims.
//
// It keeps spec.replicas pods, replaces finished and deleted ones, and moves them to a new template
// in place or by re-creating them. A partition keeps pods at the earlier revision, and a surge adds
// pods while others are unavailable. It never takes more available pods away than maxUnavailable
// allows: scaling in, users' deletions and updates share that one limit.
//
// It never touches foreign pods, never adopts one, and leaves finished pods to their garbage
// collector.
//
// Read it in the order of a pass: controller.go with Reconcile, the whole pass; observe.go, the
// reads; the pure package plan, the decisions; and last watch.go, the triggers. kind.go takes the
// options from feature gates and flags.
package cloneset
