// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan decides how pods with a SidecarSet's sidecars get new images. It is pure.
//
// spec.go reads the set once, pods.go each pod; plan.go chooses the pods to change,
// edit.go the edit, hotupgrade.go the container of a pair, status.go the report.
package plan
