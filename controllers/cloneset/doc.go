// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package cloneset looks after CloneSets: a number of interchangeable pods, each under a random instance ID that it shares with its
// volume claims.
//
// It keeps as many pods as spec.replicas, replaces those that finish or are deleted, and moves them to a new template in place or by
// another pod. A partition keeps pods at the revision before, a surge adds pods while others are away, and at no time does it take a
// serving pod away beyond maxUnavailable: scaling in, deletions that users ask for and updates draw on that one limit together.
//
// It never touches pods that it does not own, never adopts one, and leaves pods that have finished to their garbage collector.
package cloneset
