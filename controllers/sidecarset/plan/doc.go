// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan decides how pods that have the sidecars of a SidecarSet get new images. It is pure: the same spec and the same pods give the
// same plan.
//
// spec.go reads the set once, pods.go derives what is known of each pod, plan.go says which pods are changed now, edit.go what is written
// to one, hotupgrade.go which container of a pair gets the image and when the other one becomes idle, status.go what the user is told.
package plan
