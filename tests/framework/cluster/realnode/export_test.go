// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

// RemoveLeftovers is Start's first step.
var RemoveLeftovers = removeLeftovers

// Folder is where the node has its files.
func (n *Node) Folder() string { return n.state.Folder }

// Cgroups are the control groups of the node.
func (n *Node) Cgroups() []string { return n.state.Cgroups }

// PID is the process ID of the node's first process.
func (n *Node) PID() int { return n.command.Process.Pid }

// Interface is the name of the network's interface on this machine.
func (n *Network) Interface() string { return n.fabric.interfaceName() }
