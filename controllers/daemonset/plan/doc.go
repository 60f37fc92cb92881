// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan decides the next step of a DaemonSet: the nodes for new pods, and the pods to delete
// or to move to the update revision. It is pure: the same spec and snapshot give the same plan.
//
// A slot is a node. nodes.go knows the wanted nodes and their pods, manage.go creates missing pods
// and deletes surplus ones, move.go updates under maxUnavailable or maxSurge,
// status.go reports.
package plan
