// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package uniteddeployment manages UnitedDeployments: one application as several workloads, its subsets, usually one for each zone.
//
// It divides the pods among the subsets and applies one workload for each: a StatefulSet, an Advanced StatefulSet, a CloneSet or a
// Deployment. What others own of these workloads stays. It keeps pods of each subset at the revision before, as many as its partition says,
// and gives pods that find no node to other subsets if the user asks for that.
//
// It never touches workloads that it does not control. It reads pods past the cache, and only while the numbers of the workloads are not
// enough: to tell pods that find no node, and pods that an update waits for in vain.
//
// Read it in the order of a pass: controller.go, whose Reconcile is the whole pass; observe.go, which reads; package plan, which decides and
// is pure; takeover.go, which is about workloads that OpenKruise wrote.
package uniteddeployment
