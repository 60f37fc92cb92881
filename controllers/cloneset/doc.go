// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package cloneset manages CloneSets: a number of interchangeable pods, each under a random instance ID that it shares with its
// volume claims.
//
// It keeps as many pods as spec.replicas, replaces those that finish or are deleted, and moves them to a new template in place or by re-creating
// them. A partition keeps pods at the earlier revision, and a surge adds pods while others are unavailable. It never takes more available pods
// away than maxUnavailable allows: scaling in, deletions that users ask for and updates share that one limit.
//
// It never touches pods that it does not own, never adopts one, and leaves pods that have finished to their garbage collector.
//
// Read it in the order of a pass: controller.go, whose Reconcile is the whole pass; observe.go, which reads the cache; package plan, which
// decides and is pure; and last watch.go, which says what triggers a pass. setup.go takes the options from feature gates and flags.
package cloneset
