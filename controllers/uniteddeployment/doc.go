// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package uniteddeployment manages UnitedDeployments: one application as several workloads, its
// subsets, usually one for each zone.
//
// It divides the pods among the subsets and applies one workload for each: a StatefulSet, an
// Advanced StatefulSet, a CloneSet or a Deployment. Fields of others stay. In each subset it keeps
// the partition's pods at the earlier revision, and it moves unschedulable pods to other subsets if
// the user asks for that.
//
// It never touches foreign workloads. It reads pods from the API server, and only while the status
// of the workloads is not enough: to find unschedulable pods, and pods in the way of an update.
//
// Read it in the order of a pass: controller.go with Reconcile, the whole pass; observe.go, the
// reads; the pure package plan, the decisions; takeover.go, OpenKruise's workloads.
package uniteddeployment
