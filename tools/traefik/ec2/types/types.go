// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package types has those that Traefik names.
package types

// InstanceStateName names a state.
type InstanceStateName string

// InstanceStateNameRunning is the one that gets requests.
const InstanceStateNameRunning InstanceStateName = "running"

// InstanceState is that of an instance.
type InstanceState struct{ Name InstanceStateName }

// Instance is a machine.
type Instance struct {
	InstanceId, PrivateIpAddress *string
	State                        *InstanceState
}

// Reservation has instances.
type Reservation struct{ Instances []Instance }
