// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package cri is the daemon's client of the node's container runtimes, over the Container
// Runtime Interface v1. With several runtimes, the ID of a container tells its own.
//
// Its promises:
//
//   - It never starts or changes a container. It lists containers, stops them, runs commands in them, and looks up and pulls images.
//   - Every request has a deadline: its context's, or its own.
//   - A runtime that starts late, restarts or moves to another known socket is found again.
//     Meanwhile requests fail with ErrUnavailable; the requested object may or may not
//     exist.
//   - Credentials are passed only to the runtime, and never to logs, errors or metrics.
package cri

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrUnavailable means no runtime answers. The request is neither done nor refused: ask again
// later.
var ErrUnavailable = errors.New("the container runtime does not answer")

// ErrNotFound means the runtime does not have the requested object.
var ErrNotFound = errors.New("the container runtime does not have it")

// ErrOutput means a command wrote more than is read. It may have succeeded or failed.
var ErrOutput = errors.New("the command writes more than the limit")

// Runtime is a container runtime. It is safe for concurrent use.
type Runtime interface {
	// Status asks for the runtime's identity.
	Status(ctx context.Context) (Status, error)

	// ListContainers lists containers, ended ones too.
	ListContainers(ctx context.Context, filter ContainerFilter) ([]Container, error)
	// ContainerStatus returns the status of one container; ErrNotFound when it does not exist any more.
	ContainerStatus(ctx context.Context, id string) (ContainerStatus, error)
	// StopContainer ends a container: by its own signal, and by force after grace. It
	// returns after the end. An ended one is no error.
	StopContainer(ctx context.Context, id string, grace time.Duration) error
	// Exec runs a command in a container and returns its output. Exit codes above 0 are no
	// error; taking longer than timeout is, and so is output above a MiB: ErrOutput.
	Exec(ctx context.Context, id string, command []string, timeout time.Duration) (ExecResult, error)

	// ImageStatus looks an image up by any of its references; ErrNotFound when the node does not have it.
	ImageStatus(ctx context.Context, reference string) (Image, error)
	// PullImage pulls an image and returns the runtime's reference to it. Only ctx limits
	// its time.
	PullImage(ctx context.Context, pull Pull) (string, error)
}

// Several stands for all runtimes of a node; by itself it is the first to answer.
type Several interface {
	Runtime
	// Of returns the runtime of a name, the scheme of its container IDs. Its requests fail
	// with a NoRuntimeError while only other runtimes of the node answer.
	Of(name string) Runtime
}

// Of returns the named runtime of several, otherwise runtime. Without a name it is the
// first to answer.
func Of(runtime Runtime, name string) Runtime {
	if several, ok := runtime.(Several); ok && name != "" {
		return several.Of(name)
	}
	return runtime
}

// NoRuntimeError means that all existing sockets answer, none under the name. It is an
// ErrUnavailable: the named runtime may be starting.
type NoRuntimeError struct {
	// Name is the wanted runtime's.
	Name string
	// Answering are the names of the answering runtimes.
	Answering []string
}

// Error implements error.
func (e *NoRuntimeError) Error() string {
	return fmt.Sprintf("%s: the node has no %s that listens on a known socket, only %s", ErrUnavailable, e.Name, strings.Join(e.Answering, ", "))
}

// Unwrap returns ErrUnavailable.
func (e *NoRuntimeError) Unwrap() error { return ErrUnavailable }

// Status is the status a runtime reports.
type Status struct {
	// Name is for example containerd, the scheme of container IDs in pod status.
	Name string
}

// ContainerFilter narrows ListContainers. Empty fields let everything through.
type ContainerFilter struct {
	// ID has no scheme.
	ID string
	// PodUID is the pod's.
	PodUID string
}

// State is a container's state.
type State string

// The states of containers.
const (
	Created State = "Created"
	Running State = "Running"
	Exited  State = "Exited"
	Unknown State = "Unknown"
)

// Container is a container of a pod.
type Container struct {
	// ID is the runtime's, without a scheme.
	ID string
	// Name is the container's in its pod, Attempt counts its instances from 0.
	Name    string
	Attempt uint32
	// PodNamespace, PodName and PodUID are the pod's.
	PodNamespace, PodName, PodUID string
	// State is the container's.
	State State
	// Created is when it was created.
	Created time.Time
	// Annotations come from the kubelet.
	Annotations map[string]string
}

// Newest are the newest of some containers, by name.
func Newest(containers []Container) map[string]Container {
	newest := map[string]Container{}
	for _, container := range containers {
		known, found := newest[container.Name]
		if !found || container.Created.After(known.Created) || container.Created.Equal(known.Created) && container.Attempt > known.Attempt {
			newest[container.Name] = container
		}
	}
	return newest
}

// ContainerStatus is the status of a container.
type ContainerStatus struct {
	Container
	// Started is when it was started; zero before.
	Started time.Time
	// ExitCode is how it has ended.
	ExitCode int32
	// Environment is the initial environment as NAME=value, in the runtime's order; nil if
	// the runtime does not tell. It may hold secrets.
	Environment []string
}

// ExecResult is a command's output and exit.
type ExecResult struct {
	Stdout, Stderr []byte
	ExitCode       int32
}

// Image is an image of the node.
type Image struct {
	// ID is the runtime's.
	ID string
}

// Pull is an image to pull.
type Pull struct {
	// Image is the full reference.
	Image string
	// Credentials are for the registry; nil pulls without.
	Credentials *Credentials
	// Labels and Annotations tell the runtime the kind of pod to pull for.
	Labels, Annotations map[string]string
}

// Credentials are for a registry. Empty fields are not sent, and never a server's address:
// containerd gives credentials with one only to its host, so not to a mirror. The caller
// has checked they are for the image.
type Credentials struct {
	Username, Password           string
	Auth                         string
	IdentityToken, RegistryToken string
}

// String keeps credentials out of whatever is printed.
func (Credentials) String() string { return "(credentials)" }

// GoString keeps credentials out of whatever is printed.
func (Credentials) GoString() string { return "(credentials)" }
