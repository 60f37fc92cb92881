// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package workloadspread divides pods of a workload among subsets.
//
// New pods of CloneSets and StatefulSets of ours get their subset from the reconcilers of those, by internal/engine/spread. New pods of others
// get it from the webhook in podspread, which hook.go registers for the pods of one workload. The controller corrects: it counts, finds the
// subsets of pods created without, writes deletion costs, and gives up subsets in which pods find no node.
package workloadspread
