// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package uniteddeployment manages UnitedDeployments: one application as several workloads, its subsets, usually one for each zone.
//
// It divides the pods among the subsets and applies one workload for each: a StatefulSet, an Advanced StatefulSet, a CloneSet or a
// Deployment. Fields that others own stay. In each subset it keeps as many pods at the earlier revision as the partition says, and it moves
// unschedulable pods to other subsets if the user asks for that.
//
// It never touches workloads that it does not control. It reads pods from the API server, and only while the status of the workloads is not
// enough: to find unschedulable pods, and pods that block an update.
//
// Read it in the order of a pass: controller.go with Reconcile, the whole pass; observe.go, which reads; package plan, which decides and
// is pure; takeover.go, which is about workloads that OpenKruise wrote.
package uniteddeployment
