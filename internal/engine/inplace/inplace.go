// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package inplace decides how a live pod is moved to another revision without being replaced: whether the difference
// allows it, what to write and in which batches, and when the change has taken effect.
package inplace

// Progress says how far the update of one pod in place has come.
type Progress string

const (
	// None: the pod was never updated in place, or its last update is complete and the pod is back in service.
	None Progress = ""
	// Grace: the pod is out of service and its edit waits for the grace period to pass.
	Grace Progress = "Grace"
	// Running: the edit was sent and its effect is not proven yet, or a later batch waits.
	Running Progress = "Running"
	// Done: the effect is proven; the pod waits for its condition and state to say so.
	Done Progress = "Done"
	// Blocked: the update cannot go on by itself, for example a resize that the node refuses or an update that another manager began
	// and that needs the node daemon.
	Blocked Progress = "Blocked"
)
