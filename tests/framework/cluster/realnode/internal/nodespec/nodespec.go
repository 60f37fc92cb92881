// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodespec is the contract of a node's starter and its first process: the node's
// description, their messages, and the removal of a dead node's traces. Either may be left
// to do the last.
package nodespec

// Spec describes the inside of a node. It is the first message to the init process.
type Spec struct {
	// Hostname is the host name inside the node.
	Hostname string `json:"hostname"`
	// Binds are mounted inside the node, in order, before any process starts.
	Binds []Bind `json:"binds"`
	// Processes are started in order; each has to be ready before the next one starts.
	Processes []Process `json:"processes"`
	// State is removed when the node ends.
	State State `json:"state"`
}

// Bind shows a folder or file of the host at another path inside the node.
type Bind struct {
	Source string `json:"source"`
	Target string `json:"target"`
}

// Process is one long-running program of the node.
type Process struct {
	Name string   `json:"name"`
	Args []string `json:"args"` // the first one is the path of the program
	Env  []string `json:"env"`
	// Log is the file, outside the node, for the program's output.
	Log string `json:"log"`
	// The program is ready once CRI, a Unix socket, serves the runtime's API, or Health, a URL, answers 200. One of the two is set.
	CRI    string `json:"cri,omitempty"`
	Health string `json:"health,omitempty"`
}

// Verb is a request to the init process about one process of the node.
type Verb string

const (
	// Stop ends the process with SIGKILL and does not start it again. Containers keep running.
	Stop Verb = "stop"
	// Start starts a stopped process.
	Start Verb = "start"
)

// Command is a message to the init process. The end of the stream means: end the node.
type Command struct {
	Verb    Verb   `json:"verb"`
	Process string `json:"process"`
}

// Event is a message from the init process.
type Event struct {
	// Process is the process it is about; empty when it is about the node.
	Process string `json:"process,omitempty"`
	// Running: the process is running and ready.
	Running bool `json:"running,omitempty"`
	// Error is a failure, such as a process that ended unasked; else empty.
	Error string `json:"error,omitempty"`
}
