// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan decides the next step of a DaemonSet: which nodes get a pod, which pods go, and which move to the update revision. It is
// pure: the same spec and snapshot give the same plan.
//
// A slot is a node. nodes.go says which nodes should run a pod and what they have, manage.go creates what is missing and deletes what is
// too many, move.go updates under maxUnavailable and surge.go under maxSurge, status.go reports.
package plan
